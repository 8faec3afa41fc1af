-- All projects, by id: the columns of a project.
SELECT p.project, p.workspace, p.memory_on, p.trusted, p.attributes FROM projects AS p ORDER BY p.project;
