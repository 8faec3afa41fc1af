-- Audit entries, youngest first. :harness and :session, a session key or NULL: any; :since, instant or NULL; :limit.
SELECT at, harness, session, export, component, rolled_back, action, outcome, snapshot_refs, memory_ids, attributes
  FROM audit
 WHERE (:session IS NULL
        OR (harness = coalesce((SELECT canonical_harness FROM session_aliases
                                 WHERE harness = :harness AND session = :session), :harness)
            AND session = coalesce((SELECT canonical_session FROM session_aliases
                                     WHERE harness = :harness AND session = :session), :session)))
   AND (:since IS NULL OR at >= :since)
 ORDER BY id DESC
 LIMIT :limit;
