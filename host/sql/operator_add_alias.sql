-- Makes one key another key of a session. :alias_harness and :alias_session, the new key; :harness and :session, the
-- canonical one. Ask operator_alias_state first.
INSERT INTO session_aliases (harness, session, canonical_harness, canonical_session)
VALUES (:alias_harness, :alias_session, :harness, :session);
