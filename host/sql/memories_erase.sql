-- Deletes the rows of these memories; their ids stay used. :ids, JSON array of texts. Part of `upkeep.forget`.
DELETE FROM memories WHERE memory_id IN (SELECT value FROM json_each(:ids));
