-- snapshots.insert-hand-over. :hand_over, :state, :task_digest, :task_head, :task, texts; :parent_harness and :parent_session, the key of the
-- session that delegated; :call_id, :agent_type, :snapshot_ref, :ids_key, texts or NULL; :children; :created_at,
-- :expires_at, :keep_until, instants. No row changed: false. A ref that is not there is a FOREIGN KEY violation.
INSERT INTO hand_overs (snapshot, children, created_at, expires_at, keep_until, parent_harness, parent_session, call_id,
                        hand_over, agent_type, ids_key, task_digest, task_head, state, task)
VALUES (CASE WHEN :snapshot_ref IS NULL THEN NULL
             ELSE coalesce((SELECT id FROM snapshots WHERE snapshot_ref = :snapshot_ref), -1) END,
        :children, :created_at, :expires_at, :keep_until,
        coalesce((SELECT canonical_harness FROM session_aliases
                   WHERE harness = :parent_harness AND session = :parent_session), :parent_harness),
        coalesce((SELECT canonical_session FROM session_aliases
                   WHERE harness = :parent_harness AND session = :parent_session), :parent_session),
        :call_id, :hand_over, :agent_type, :ids_key, :task_digest, :task_head, :state, :task)
ON CONFLICT (parent_harness, parent_session, call_id) WHERE call_id IS NOT NULL DO NOTHING;
