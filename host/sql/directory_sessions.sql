-- directory.sessions. :keys, JSON array of [harness, session]. One row per session that is there, in the order asked:
-- position (from 0), its canonical key, its parent's canonical key or NULLs, then its project, with NULL for all of it if
-- the session has none that is known.
SELECT asked.key AS position, s.harness, s.session, s.memory_on, s.agent,
       coalesce(pa.canonical_harness, s.parent_harness) AS parent_harness,
       coalesce(pa.canonical_session, s.parent_session) AS parent_session, s.attributes,
       p.project, p.workspace, p.memory_on AS project_memory_on, p.trusted, p.attributes AS project_attributes
  FROM json_each(:keys) AS asked
  LEFT JOIN session_aliases AS a ON a.harness = asked.value ->> 0 AND a.session = asked.value ->> 1
 CROSS JOIN sessions AS s ON s.harness = coalesce(a.canonical_harness, asked.value ->> 0)
                         AND s.session = coalesce(a.canonical_session, asked.value ->> 1)
  LEFT JOIN session_aliases AS pa ON pa.harness = s.parent_harness AND pa.session = s.parent_session
  LEFT JOIN projects AS p ON p.project = s.project;
