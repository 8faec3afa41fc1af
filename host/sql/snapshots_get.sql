-- snapshots.get, the rows. :refs, JSON array of texts. One row per snapshot that is there, in the order asked: position
-- (from 0), then the columns of a snapshot, memory_ids as a JSON array.
SELECT asked.key AS position, s.snapshot_ref, s.owner_harness, s.owner_session, s.created_at, s.expires_at, s.keep_until,
       s.revoked_at, s.pages, s.state,
       (SELECT json_group_array(held.memory_id)
          FROM (SELECT memory_id FROM snapshot_memories WHERE snapshot = s.id ORDER BY position) AS held) AS memory_ids
  FROM json_each(:refs) AS asked
 CROSS JOIN snapshots AS s ON s.snapshot_ref = asked.value;
