-- Ends upkeep.forget, 4 of 5, if there is something left: writes the index anew. ('rebuild' would do it too, but FTS5 then
-- forgets, for connections that are open, that terms were deleted securely, and takes the index for damaged.)
INSERT INTO memory_words (memory_words) VALUES ('optimize');
