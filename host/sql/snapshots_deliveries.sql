-- snapshots.deliveries. :child_harness and :child_session, a session key. The columns of a delivery and those of its
-- hand-over (NULL if it has none; without its task), in the order of insertion. Last the delivery's number, as in
-- snapshots_replay.sql.
SELECT d.child_harness, d.child_session, d.occasion, ds.snapshot_ref, h.hand_over, d.place, d.at, d.keep_until, d.state,
       d.checksum, d.notice,
       h.parent_harness, h.parent_session, h.call_id, h.agent_type, hs.snapshot_ref AS hand_over_snapshot_ref, h.ids_key,
       h.children, h.created_at, h.expires_at, h.keep_until AS hand_over_keep_until, h.task_digest, h.task_head, '' AS task,
       h.state AS hand_over_state, d.id
  FROM deliveries AS d
  LEFT JOIN snapshots AS ds ON ds.id = d.snapshot
  LEFT JOIN hand_overs AS h ON h.id = d.hand_over
  LEFT JOIN snapshots AS hs ON hs.id = h.snapshot
 WHERE d.child_harness = coalesce((SELECT canonical_harness FROM session_aliases
                                    WHERE harness = :child_harness AND session = :child_session), :child_harness)
   AND d.child_session = coalesce((SELECT canonical_session FROM session_aliases
                                    WHERE harness = :child_harness AND session = :child_session), :child_session)
 ORDER BY d.id;
