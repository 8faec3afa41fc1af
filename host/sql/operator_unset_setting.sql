-- :project, text or NULL for all; :name, text. Run it before operator_set_setting too, in one transaction.
DELETE FROM settings WHERE project IS :project AND name = :name;
