-- :agent, text. No row changed: it is there already.
INSERT INTO agents (agent) VALUES (:agent) ON CONFLICT (agent) DO NOTHING;
