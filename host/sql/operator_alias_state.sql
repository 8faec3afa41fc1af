-- Before an alias is added. :alias_harness and :alias_session, :harness and :session, two session keys. One row: the
-- canonical key of the second or NULLs if there is no such session, whether the first is a session of its own, and what
-- it is an alias of already or NULLs.
SELECT s.harness, s.session,
       EXISTS (SELECT 1 FROM sessions WHERE harness = :alias_harness AND session = :alias_session) AS is_session,
       old.canonical_harness, old.canonical_session
  FROM (SELECT 1)
  LEFT JOIN session_aliases AS a ON a.harness = :harness AND a.session = :session
  LEFT JOIN sessions AS s ON s.harness = coalesce(a.canonical_harness, :harness)
                         AND s.session = coalesce(a.canonical_session, :session)
  LEFT JOIN session_aliases AS old ON old.harness = :alias_harness AND old.session = :alias_session;
