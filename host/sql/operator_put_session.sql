-- Adds or replaces a session. :harness and :session, its key; :agent, :project, texts or NULL; :parent_harness and
-- :parent_session, a session key or NULLs; :memory_on, 0 or 1. No row changed: the key is an alias.
INSERT INTO sessions (memory_on, harness, session, agent, project, parent_harness, parent_session)
SELECT :memory_on, :harness, :session, nullif(:agent, ''), nullif(:project, ''), :parent_harness, :parent_session
 WHERE NOT EXISTS (SELECT 1 FROM session_aliases WHERE harness = :harness AND session = :session)
ON CONFLICT (harness, session) DO UPDATE
   SET memory_on = excluded.memory_on, agent = excluded.agent, project = excluded.project,
       parent_harness = excluded.parent_harness, parent_session = excluded.parent_session;
