-- snapshots.insert-snapshot, 1 of 3: the row. :snapshot_ref, :state, texts; :owner_harness and :owner_session, the key of
-- its owner; :created_at, :expires_at, :keep_until, :revoked_at (or NULL), instants; :pages, their number. A ref that is
-- there already is a UNIQUE violation.
INSERT INTO snapshots (created_at, expires_at, keep_until, revoked_at, pages, snapshot_ref, owner_harness, owner_session,
                       state)
VALUES (:created_at, :expires_at, :keep_until, :revoked_at, :pages, :snapshot_ref,
        coalesce((SELECT canonical_harness FROM session_aliases
                   WHERE harness = :owner_harness AND session = :owner_session), :owner_harness),
        coalesce((SELECT canonical_session FROM session_aliases
                   WHERE harness = :owner_harness AND session = :owner_session), :owner_session),
        :state);
