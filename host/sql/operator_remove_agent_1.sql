-- 1 of 3, in one transaction: the links of an agent. :agent, text.
DELETE FROM links WHERE from_agent = :agent OR to_agent = :agent;
