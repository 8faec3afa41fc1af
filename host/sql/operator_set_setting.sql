-- :project, text or NULL for all; :name, :value, texts.
INSERT INTO settings (project, name, value) VALUES (:project, :name, :value);
