-- snapshots.end-deliveries, 1 of 3, in this order and in one transaction: the child's own. :child_harness and
-- :child_session, a session key; :at, instant.
UPDATE deliveries SET keep_until = :at
 WHERE child_harness = coalesce((SELECT canonical_harness FROM session_aliases
                                  WHERE harness = :child_harness AND session = :child_session), :child_harness)
   AND child_session = coalesce((SELECT canonical_session FROM session_aliases
                                  WHERE harness = :child_harness AND session = :child_session), :child_session)
   AND keep_until > :at;
