-- Ends upkeep.forget, 2 of 5. Whether something of a term that was deleted is left in the index: FTS5 keeps how the first
-- term of each page of a segment begins (after one byte for the kind of index), also when that term is deleted. No row if
-- each of these beginnings is a living term's; else one: any living term, or one that tells nothing.
SELECT coalesce((SELECT term FROM memory_terms LIMIT 1), '0') AS term
 WHERE EXISTS (
   SELECT 1 FROM memory_words_idx AS page
    WHERE length(page.term) > 1
      AND NOT EXISTS (SELECT 1 FROM memory_terms AS living
                       WHERE living.term >= CAST(substr(page.term, 2) AS TEXT)
                         AND living.term <= CAST(substr(page.term, 2) AS TEXT) || char(1114111)));
