-- memories.search, 2 of 2. :terms, an FTS5 expression; :owner, text; :shared_in, text or NULL; :projects, JSON array of
-- texts; :at, instant; :trusted_only, 0 or 1; :most, how many matches are ranked, the youngest; :limit. The columns of a
-- memory, best first.
WITH hits (id, score) AS (
  SELECT w.rowid, bm25(memory_words)
    FROM memory_words AS w
   CROSS JOIN memories AS m INDEXED BY memories_scope ON m.id = w.rowid
   WHERE memory_words MATCH :terms
     AND m.active
     AND (m.owner = :owner
          OR (:shared_in IS NOT NULL AND m.owner IS NOT NULL
              AND (m.audience = 'workspace' OR (m.audience = 'project' AND m.project = :shared_in))))
     AND m.project IN (SELECT value FROM json_each(:projects))
     AND (m.trusted OR NOT :trusted_only)
     AND (m.expires_at IS NULL OR m.expires_at > :at)
   ORDER BY w.rowid DESC
   LIMIT :most
),
best (id, score) AS (SELECT id, score FROM hits ORDER BY score, id DESC LIMIT :limit)
SELECT m.memory_id, m.owner, m.project, m.audience, m.active, m.expires_at, m.trusted, m.category, m.priority, m.version,
       m.updated_at, m.attributes, m.body
  FROM best
 CROSS JOIN memories AS m ON m.id = best.id
 ORDER BY best.score, best.id DESC;
