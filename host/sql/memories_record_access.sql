-- memories.record-access. :ids, JSON array of texts; :at, instant. Counts one use of each.
UPDATE memories
   SET uses = uses + 1, used_at = max(coalesce(used_at, 0), :at)
 WHERE memory_id IN (SELECT value FROM json_each(:ids));
