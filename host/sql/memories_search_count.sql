-- memories.search, 1 of 2, once for each word or run of the query. :term, an FTS5 expression; :most. How many memories have
-- it, at most :most.
SELECT count(*) FROM (SELECT 1 FROM memory_words WHERE memory_words MATCH :term LIMIT :most);
