-- snapshots.overwrite, 4 of 4, once for each page. :snapshot_ref, :checksum, :state, :text, texts; :number, from 1. Needs
-- PRAGMA secure_delete, and a truncating checkpoint after the commit, so that the old text does not survive.
UPDATE pages SET checksum = :checksum, state = :state, text = :text
 WHERE snapshot = (SELECT id FROM snapshots WHERE snapshot_ref = :snapshot_ref) AND number = :number;
