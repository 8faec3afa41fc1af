-- snapshots.insert-delivery. :child_harness and :child_session, the key of the child; :occasion, :state, texts;
-- :snapshot_ref, :hand_over, :checksum, :notice, texts or NULL; :place; :at, :keep_until, instants. A trigger raises
-- keep_until of the snapshot and of the hand-over. No row changed: false. A ref or a hand-over that is not there is a
-- FOREIGN KEY violation.
INSERT INTO deliveries (snapshot, hand_over, place, at, keep_until, child_harness, child_session, occasion,
                        snapshot_ref, state, checksum, notice)
VALUES (CASE WHEN :snapshot_ref IS NULL THEN NULL
             ELSE coalesce((SELECT id FROM snapshots WHERE snapshot_ref = :snapshot_ref), -1) END,
        CASE WHEN :hand_over IS NULL THEN NULL
             ELSE coalesce((SELECT id FROM hand_overs WHERE hand_over = :hand_over), -1) END,
        :place, :at, :keep_until,
        coalesce((SELECT canonical_harness FROM session_aliases
                   WHERE harness = :child_harness AND session = :child_session), :child_harness),
        coalesce((SELECT canonical_session FROM session_aliases
                   WHERE harness = :child_harness AND session = :child_session), :child_session),
        :occasion, :snapshot_ref, :state, :checksum, :notice)
ON CONFLICT DO NOTHING;
