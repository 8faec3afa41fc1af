-- snapshots.revoke. :refs, JSON array of texts; :at, instant.
UPDATE snapshots
   SET revoked_at = :at, keep_until = CASE WHEN pages > 0 THEN min(keep_until, :at) ELSE keep_until END
 WHERE snapshot_ref IN (SELECT value FROM json_each(:refs)) AND revoked_at IS NULL;
