-- 3 of 3: the agent. :agent, text. No row changed: there was no such agent.
DELETE FROM agents WHERE agent = :agent;
