-- snapshots.find-hand-overs. :parent_harness and :parent_session, a session key; :call_id, :snapshot_ref, :ids_key,
-- :task_digest, :within, :agent_type, texts or NULL; :open_only and :with_task, 0 or 1; :limit. The columns of a hand-over, how many
-- children have taken it and how many deliveries name it, youngest first: turn the list round. Texts are compared as
-- bytes, so that a NUL in one is like any other.
WITH parent (harness, session) AS MATERIALIZED (
  SELECT coalesce((SELECT canonical_harness FROM session_aliases
                    WHERE harness = :parent_harness AND session = :parent_session), :parent_harness),
         coalesce((SELECT canonical_session FROM session_aliases
                    WHERE harness = :parent_harness AND session = :parent_session), :parent_session)
)
SELECT h.hand_over, h.parent_harness, h.parent_session, h.call_id, h.agent_type, s.snapshot_ref, h.ids_key, h.children,
       h.created_at, h.expires_at, h.keep_until, h.task_digest, h.task_head, iif(:with_task, h.task, '') AS task, h.state,
       -- Children, not deliveries: the first delivery of each. The plus sign leaves the look-up to the child's index.
       (SELECT count(*) FROM deliveries AS d
         WHERE d.hand_over = h.id
           AND NOT EXISTS (SELECT 1 FROM deliveries AS e
                            WHERE e.child_harness = d.child_harness AND e.child_session = d.child_session
                              AND +e.hand_over = h.id AND e.id < d.id)) AS taken,
       (SELECT count(*) FROM deliveries AS d WHERE d.hand_over = h.id) AS next_place
  FROM hand_overs AS h
  LEFT JOIN snapshots AS s ON s.id = h.snapshot
 WHERE h.id IN (
         -- By the narrowest index: the call's, else the snapshot's, else the task's, else the parent's. A parent may have
         -- thousands.
         SELECT id FROM hand_overs
          WHERE :call_id IS NOT NULL
            AND parent_harness = (SELECT harness FROM parent) AND parent_session = (SELECT session FROM parent)
            AND call_id = :call_id
         UNION ALL
         SELECT id FROM hand_overs
          WHERE :call_id IS NULL AND :snapshot_ref IS NOT NULL
            AND snapshot = (SELECT id FROM snapshots WHERE snapshot_ref = :snapshot_ref)
         UNION ALL
         SELECT id FROM hand_overs
          WHERE :call_id IS NULL AND :snapshot_ref IS NULL AND :task_digest IS NOT NULL
            AND parent_harness = (SELECT harness FROM parent) AND parent_session = (SELECT session FROM parent)
            AND task_digest = :task_digest
         UNION ALL
         SELECT id FROM hand_overs
          WHERE :call_id IS NULL AND :snapshot_ref IS NULL AND :task_digest IS NULL
            AND parent_harness = (SELECT harness FROM parent) AND parent_session = (SELECT session FROM parent))
   -- The plus signs leave these to the list above.
   AND +h.parent_harness = (SELECT harness FROM parent)
   AND +h.parent_session = (SELECT session FROM parent)
   AND (:snapshot_ref IS NULL OR h.snapshot = (SELECT id FROM snapshots WHERE snapshot_ref = :snapshot_ref))
   AND (:task_digest IS NULL OR h.task_digest = :task_digest)
   AND (:ids_key IS NULL OR h.ids_key = :ids_key)
   AND (:agent_type IS NULL OR h.agent_type IS NULL OR h.agent_type = :agent_type)
   AND (:within IS NULL OR instr(CAST(:within AS BLOB), CAST(h.task_head AS BLOB)) > 0)
   AND (NOT :open_only
        OR (SELECT count(*) FROM deliveries AS d
             WHERE d.hand_over = h.id
               AND NOT EXISTS (SELECT 1 FROM deliveries AS e
                                WHERE e.child_harness = d.child_harness AND e.child_session = d.child_session
                                  AND +e.hand_over = h.id AND e.id < d.id)) < h.children)
 ORDER BY h.id DESC
 LIMIT :limit;
