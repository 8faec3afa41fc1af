-- snapshots.overwrite, 1 of 4, once for each snapshot. :snapshot_ref, :state, texts.
UPDATE snapshots SET state = :state WHERE snapshot_ref = :snapshot_ref;
