-- Memories, oldest first. :limit, :offset. The columns of memories_get without the position.
SELECT m.memory_id, m.owner, m.project, m.audience, m.active, m.expires_at, m.trusted, m.category, m.priority, m.version,
       m.updated_at, m.attributes, m.body
  FROM memories AS m
 ORDER BY m.id
 LIMIT :limit OFFSET :offset;
