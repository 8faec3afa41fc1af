-- environment.settings. :project, text or NULL; :names, JSON array of texts. One row per name, in the order asked:
-- position (from 0) and the value, the project's own before the general one, NULL if neither is set.
SELECT asked.key AS position, coalesce(own.value, general.value) AS value
  FROM json_each(:names) AS asked
  LEFT JOIN settings AS own ON own.project = :project AND own.name = asked.value
  LEFT JOIN settings AS general ON general.project IS NULL AND general.name = asked.value;
