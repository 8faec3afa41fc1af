-- snapshots.holding, the rows; read the pages with snapshots_pages. :memory_ids, JSON array of texts; :limit. The columns
-- of a snapshot, oldest first, memory_ids as a JSON array.
SELECT s.snapshot_ref, s.owner_harness, s.owner_session, s.created_at, s.expires_at, s.keep_until, s.revoked_at, s.pages,
       s.state,
       (SELECT json_group_array(held.memory_id)
          FROM (SELECT memory_id FROM snapshot_memories WHERE snapshot = s.id ORDER BY position) AS held) AS memory_ids
  FROM snapshots AS s
 WHERE s.id IN (SELECT snapshot FROM snapshot_memories WHERE memory_id IN (SELECT value FROM json_each(:memory_ids)))
 ORDER BY s.id
 LIMIT :limit;
