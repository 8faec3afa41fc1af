-- snapshots.strip, 3 of 3: make tombstones. :refs, JSON array of texts; :keep_until, instant.
UPDATE snapshots SET pages = 0, state = '', keep_until = :keep_until
 WHERE snapshot_ref IN (SELECT value FROM json_each(:refs));
