-- snapshots.end-deliveries, 3 of 3: lower keep_until of their hand-overs. :child_harness and :child_session, a session
-- key.
UPDATE hand_overs
   SET keep_until = min(keep_until, max(expires_at, (SELECT max(d.keep_until) FROM deliveries AS d
                                                      WHERE d.hand_over = hand_overs.id)))
 WHERE id IN (SELECT hand_over FROM deliveries
               WHERE child_harness = coalesce((SELECT canonical_harness FROM session_aliases
                                                WHERE harness = :child_harness AND session = :child_session),
                                              :child_harness)
                 AND child_session = coalesce((SELECT canonical_session FROM session_aliases
                                                WHERE harness = :child_harness AND session = :child_session),
                                              :child_session));
