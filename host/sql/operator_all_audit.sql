-- The latest audit entries, youngest first. :limit.
SELECT at, harness, session, export, component, rolled_back, action, outcome, snapshot_refs, memory_ids, attributes
  FROM audit
 ORDER BY id DESC
 LIMIT :limit;
