-- directory.links. :agent, text; :others, JSON array of texts. The columns of a link, each link once, in any order.
SELECT l.from_agent, l.to_agent, l.two_way, l.kind, l.attributes
  FROM links AS l
 WHERE (l.from_agent = :agent AND l.to_agent IN (SELECT value FROM json_each(:others)))
    OR (l.to_agent = :agent AND l.from_agent IN (SELECT value FROM json_each(:others)));
