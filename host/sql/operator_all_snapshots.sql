-- Snapshots, youngest first. :limit, :offset. The columns of a snapshot, memory_ids as a JSON array, and the number of
-- its deliveries.
SELECT s.snapshot_ref, s.owner_harness, s.owner_session, s.created_at, s.expires_at, s.keep_until, s.revoked_at, s.pages,
       s.state,
       (SELECT json_group_array(held.memory_id)
          FROM (SELECT memory_id FROM snapshot_memories WHERE snapshot = s.id ORDER BY position) AS held) AS memory_ids,
       (SELECT count(*) FROM deliveries AS d WHERE d.snapshot = s.id) AS deliveries
  FROM snapshots AS s
 ORDER BY s.id DESC
 LIMIT :limit OFFSET :offset;
