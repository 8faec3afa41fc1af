-- snapshots.expired. :at, instant; :limit. The columns of a snapshot, oldest keep_until first, memory_ids as a JSON array.
SELECT s.snapshot_ref, s.owner_harness, s.owner_session, s.created_at, s.expires_at, s.keep_until, s.revoked_at, s.pages,
       s.state,
       (SELECT json_group_array(held.memory_id)
          FROM (SELECT memory_id FROM snapshot_memories WHERE snapshot = s.id ORDER BY position) AS held) AS memory_ids
  FROM snapshots AS s
 WHERE s.keep_until <= :at
 ORDER BY s.keep_until, s.id
 LIMIT :limit;
