-- directory.projects. :ids, JSON array of texts. One row per project that is there, in the order asked: position (from
-- 0), then the columns of a project.
SELECT asked.key AS position, p.project, p.workspace, p.memory_on, p.trusted, p.attributes
  FROM json_each(:ids) AS asked
 CROSS JOIN projects AS p ON p.project = asked.value;
