-- Changes a memory. :memory_id, text; :at, instant; NULL for what stays: :body, :category, :audience, texts; :priority;
-- :trusted, 0 or 1; :expires_at, instant, set (to NULL too) if :set_expires_at is 1. A new body raises the version. No
-- row changed: no such memory.
UPDATE memories
   SET category = coalesce(:category, category), audience = coalesce(:audience, audience),
       priority = coalesce(:priority, priority), trusted = coalesce(:trusted, trusted),
       expires_at = CASE WHEN :set_expires_at THEN :expires_at ELSE expires_at END,
       version = version + (:body IS NOT NULL), updated_at = CASE WHEN :body IS NULL THEN updated_at ELSE :at END,
       body = coalesce(:body, body)
 WHERE memory_id = :memory_id;
