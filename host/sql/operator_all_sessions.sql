-- All sessions, by key: the columns of directory_sessions without the position.
SELECT s.harness, s.session, s.memory_on, s.agent,
       coalesce(pa.canonical_harness, s.parent_harness) AS parent_harness,
       coalesce(pa.canonical_session, s.parent_session) AS parent_session, s.attributes,
       p.project, p.workspace, p.memory_on AS project_memory_on, p.trusted, p.attributes AS project_attributes
  FROM sessions AS s
  LEFT JOIN session_aliases AS pa ON pa.harness = s.parent_harness AND pa.session = s.parent_session
  LEFT JOIN projects AS p ON p.project = s.project
 ORDER BY s.harness, s.session;
