-- :from_agent, :to_agent, texts.
DELETE FROM links WHERE from_agent = :from_agent AND to_agent = :to_agent;
