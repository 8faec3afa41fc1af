-- snapshots.replay. :child_harness and :child_session, a session key; :snapshot_ref, text or NULL; :page, from 1; :at, instant. One row
-- per text, in the order in which it was delivered, with a ref at most one: snapshot_ref (NULL: a notice), revoked_at,
-- number of pages, checksum, text, notice: the one that is not NULL (a coalesce would copy it). Every table by an
-- index, nothing sorted: every replay waits for this. The row that the index finds is compared with the child again: a
-- damaged index leads to another child's, and SQLite does not look again. Last the delivery's number: a list in
-- which it does not grow has a delivery twice, and is damaged too.
SELECT d.snapshot_ref, s.revoked_at, coalesce(s.pages, 1) AS pages, coalesce(p.checksum, d.checksum) AS checksum,
       p.text, d.notice, d.id
  FROM deliveries AS found
 CROSS JOIN deliveries AS d ON d.id = found.id
  LEFT JOIN snapshots AS s ON s.id = d.snapshot AND d.notice IS NULL
  LEFT JOIN pages AS p ON p.snapshot = s.id AND p.number = :page
 WHERE found.child_harness = coalesce((SELECT canonical_harness FROM session_aliases
                                        WHERE harness = :child_harness AND session = :child_session), :child_harness)
   AND found.child_session = coalesce((SELECT canonical_session FROM session_aliases
                                        WHERE harness = :child_harness AND session = :child_session), :child_session)
   AND d.child_harness = coalesce((SELECT canonical_harness FROM session_aliases
                                        WHERE harness = :child_harness AND session = :child_session), :child_harness)
   AND d.child_session = coalesce((SELECT canonical_session FROM session_aliases
                                        WHERE harness = :child_harness AND session = :child_session), :child_session)
   AND d.keep_until > :at
   AND (p.id IS NOT NULL OR (:page = 1 AND d.notice IS NOT NULL))
   AND (:snapshot_ref IS NULL OR d.snapshot_ref = :snapshot_ref)
 ORDER BY found.id
 LIMIT CASE WHEN :snapshot_ref IS NULL THEN -1 ELSE 1 END;
