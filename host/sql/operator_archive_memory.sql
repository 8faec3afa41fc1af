-- :memory_id, text; :active, 0 or 1. No row changed: no such memory.
UPDATE memories SET active = :active WHERE memory_id = :memory_id;
