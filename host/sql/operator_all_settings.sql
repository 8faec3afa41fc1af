-- All settings: project (NULL: all), name, value. General ones first, by project and name.
SELECT project, name, value FROM settings ORDER BY project, name;
