-- All links, in the order in which they were added: the columns of a link.
SELECT l.from_agent, l.to_agent, l.two_way, l.kind, l.attributes FROM links AS l ORDER BY l.id;
