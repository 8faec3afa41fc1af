-- All agents, by name.
SELECT agent FROM agents ORDER BY agent;
