-- :harness and :session, a session key. Its aliases go with it (PRAGMA foreign_keys). No row changed: no such session.
DELETE FROM sessions
 WHERE harness = coalesce((SELECT canonical_harness FROM session_aliases
                            WHERE harness = :harness AND session = :session), :harness)
   AND session = coalesce((SELECT canonical_session FROM session_aliases
                            WHERE harness = :harness AND session = :session), :session);
