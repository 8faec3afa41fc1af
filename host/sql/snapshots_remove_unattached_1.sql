-- snapshots.remove-unattached, 1 of 2: hand-overs. :at, instant; :limit. The answer is the rows changed by both. Needs
-- PRAGMA foreign_keys: their deliveries go with them and are not counted.
DELETE FROM hand_overs
 WHERE id IN (SELECT id FROM hand_overs INDEXED BY hand_overs_keep WHERE snapshot IS NULL AND keep_until <= :at
               ORDER BY keep_until, id LIMIT :limit);
