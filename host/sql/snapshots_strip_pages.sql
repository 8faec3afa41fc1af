-- snapshots.strip, 1 of 3: delete the pages. :refs, JSON array of texts. Needs PRAGMA secure_delete, and a truncating
-- checkpoint after the commit, so that the text does not survive.
DELETE FROM pages
 WHERE snapshot IN (SELECT id FROM snapshots WHERE snapshot_ref IN (SELECT value FROM json_each(:refs)));
