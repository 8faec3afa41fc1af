-- Adds a memory. :memory_id, :audience, :category, :body, texts; :owner, :project, texts or NULL; :priority; :trusted,
-- 0 or 1; :expires_at, instant or NULL; :at, instant. No row changed: the id is a memory's, or was one's.
INSERT INTO memories (trusted, priority, created_at, updated_at, expires_at, memory_id, audience, owner, project,
                      category, body)
SELECT :trusted, :priority, :at, :at, :expires_at, :memory_id, :audience, nullif(:owner, ''), nullif(:project, ''),
       :category, :body
 WHERE NOT EXISTS (SELECT 1 FROM memory_ids WHERE memory_id = :memory_id);
