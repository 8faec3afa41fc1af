-- snapshots.remove-unattached, 2 of 2: deliveries without a hand-over. :at, instant; :limit.
DELETE FROM deliveries
 WHERE id IN (SELECT id FROM deliveries INDEXED BY deliveries_keep
               WHERE snapshot IS NULL AND hand_over IS NULL AND keep_until <= :at
               ORDER BY keep_until, id LIMIT :limit);
