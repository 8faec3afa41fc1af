-- snapshots.overwrite, 2 of 4, and strip, 2 of 3: forget which memories these snapshots hold. :refs, JSON array of texts.
DELETE FROM snapshot_memories
 WHERE snapshot IN (SELECT id FROM snapshots WHERE snapshot_ref IN (SELECT value FROM json_each(:refs)));
