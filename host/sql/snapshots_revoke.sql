-- snapshots.revoke. :refs, JSON array of texts; :at, instant.
UPDATE snapshots SET revoked_at = :at
 WHERE snapshot_ref IN (SELECT value FROM json_each(:refs)) AND revoked_at IS NULL;
