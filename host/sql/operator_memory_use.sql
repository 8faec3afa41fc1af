-- How often a memory was used, and when last (NULL: never). :memory_id, text.
SELECT uses, used_at FROM memories WHERE memory_id = :memory_id;
