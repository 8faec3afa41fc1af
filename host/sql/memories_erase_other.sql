-- Ends upkeep.forget, 3 and 5 of 5, if there is something left: another row with that term, so that there are two segments
-- and the index is written anew. :op, NULL to add the row, 'delete' to take it out; :term, text.
INSERT INTO memory_words (memory_words, rowid, text) VALUES (:op, -1, :term);
