-- snapshots.holding, the rows; read the pages with snapshots_pages. :memory_ids, JSON array of texts; :limit. The columns
-- of a snapshot, memory_ids as a JSON array. Reads no more of the index than it answers.
WITH holding (id) AS (
  SELECT DISTINCT held.snapshot
    FROM json_each(:memory_ids) AS asked
   CROSS JOIN snapshot_memories AS held ON held.memory_id = asked.value
   LIMIT :limit
)
SELECT s.snapshot_ref, s.owner_harness, s.owner_session, s.created_at, s.expires_at, s.keep_until, s.revoked_at, s.pages,
       s.state,
       (SELECT json_group_array(held.memory_id)
          FROM (SELECT memory_id FROM snapshot_memories WHERE snapshot = s.id ORDER BY position) AS held) AS memory_ids
  FROM holding
 CROSS JOIN snapshots AS s ON s.id = holding.id;
