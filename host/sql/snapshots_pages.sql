-- The pages of snapshots, for get and holding. :refs, JSON array of texts; :page, the one to read, or NULL for all. One
-- row per page, in the order asked and then ascending: position of its snapshot (from 0), then the columns of a page.
SELECT asked.key AS position, p.number, p.checksum, p.state, p.text
  FROM json_each(:refs) AS asked
 CROSS JOIN snapshots AS s ON s.snapshot_ref = asked.value
 CROSS JOIN pages AS p ON p.snapshot = s.id AND (:page IS NULL OR p.number = :page);
