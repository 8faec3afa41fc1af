-- Adds or replaces a project. :project, text; :workspace, text or NULL; :memory_on, :trusted, 0 or 1; :attributes, JSON.
INSERT INTO projects (memory_on, trusted, project, workspace, attributes)
VALUES (:memory_on, :trusted, :project, :workspace, :attributes)
ON CONFLICT (project) DO UPDATE
   SET memory_on = excluded.memory_on, trusted = excluded.trusted, workspace = excluded.workspace,
       attributes = excluded.attributes;
