-- snapshots.insert-snapshot, 2 of 3, and overwrite, 3 of 4: which memories a snapshot holds. :snapshot_ref, text;
-- :memory_ids, JSON array of texts.
INSERT INTO snapshot_memories (snapshot, position, memory_id)
SELECT s.id, held.key, held.value
  FROM snapshots AS s
 CROSS JOIN json_each(:memory_ids) AS held
 WHERE s.snapshot_ref = :snapshot_ref;
