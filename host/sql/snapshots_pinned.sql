-- snapshots.pinned. :memory_ids, JSON array of texts; :at, instant. Those that are pinned, in the order asked: position
-- (from 0) and the id.
SELECT asked.key AS position, asked.value AS memory_id
  FROM json_each(:memory_ids) AS asked
 WHERE EXISTS (SELECT 1
                 FROM snapshot_memories AS held
                CROSS JOIN snapshots AS s ON s.id = held.snapshot
                WHERE held.memory_id = asked.value AND s.revoked_at IS NULL AND s.keep_until > :at);
