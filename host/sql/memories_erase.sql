-- Ends upkeep.forget, in its unit of work, 1 of 5. :ids, JSON array of texts. The ids that had a row. Needs PRAGMA
-- secure_delete, and a truncating checkpoint after the commit, so that the text does not survive.
DELETE FROM memories WHERE memory_id IN (SELECT value FROM json_each(:ids)) RETURNING memory_id;
