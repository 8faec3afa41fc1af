-- snapshots.remove. :refs, JSON array of texts. Needs PRAGMA foreign_keys: what hangs on them goes with them.
DELETE FROM snapshots WHERE snapshot_ref IN (SELECT value FROM json_each(:refs));
