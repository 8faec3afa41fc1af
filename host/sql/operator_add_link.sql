-- :from_agent, :to_agent, :kind, texts; :two_way, 0 or 1; :attributes, JSON.
INSERT INTO links (two_way, from_agent, to_agent, kind, attributes)
VALUES (:two_way, :from_agent, :to_agent, :kind, :attributes);
