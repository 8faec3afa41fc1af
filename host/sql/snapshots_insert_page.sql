-- snapshots.insert-snapshot, 3 of 3, once for each page. :snapshot_ref, :checksum, :state, :text, texts; :number, from 1.
INSERT INTO pages (snapshot, number, checksum, state, text)
VALUES ((SELECT id FROM snapshots WHERE snapshot_ref = :snapshot_ref), :number, :checksum, :state, :text);
