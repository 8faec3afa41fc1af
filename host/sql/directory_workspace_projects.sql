-- directory.workspace-projects. :workspace, text. The columns of a project, by id.
SELECT p.project, p.workspace, p.memory_on, p.trusted, p.attributes
  FROM projects AS p
 WHERE p.workspace = :workspace
 ORDER BY p.project;
