-- :project, text. No row changed: there is no such project.
DELETE FROM projects WHERE project = :project;
