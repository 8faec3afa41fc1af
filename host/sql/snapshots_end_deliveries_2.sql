-- snapshots.end-deliveries, 2 of 3: lower keep_until of their snapshots. :child_harness and :child_session, a session key.
UPDATE snapshots
   SET keep_until = min(keep_until, max(expires_at, (SELECT max(d.keep_until) FROM deliveries AS d
                                                      WHERE d.snapshot = snapshots.id)))
 WHERE pages > 0
   AND id IN (SELECT snapshot FROM deliveries
               WHERE child_harness = coalesce((SELECT canonical_harness FROM session_aliases
                                                WHERE harness = :child_harness AND session = :child_session),
                                              :child_harness)
                 AND child_session = coalesce((SELECT canonical_session FROM session_aliases
                                                WHERE harness = :child_harness AND session = :child_session),
                                              :child_session));
