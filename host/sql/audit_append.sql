-- Appends one audit entry. :at, instant; :rolled_back, 0 or 1; :harness and :session, the caller's key or NULL; :export,
-- :component, :action, :outcome, texts; :snapshot_refs, :memory_ids and :attributes, JSON arrays.
INSERT INTO audit (at, rolled_back, harness, session, export, component, action, outcome, snapshot_refs, memory_ids,
                   attributes)
VALUES (:at, :rolled_back,
        coalesce((SELECT canonical_harness FROM session_aliases WHERE harness = :harness AND session = :session), :harness),
        coalesce((SELECT canonical_session FROM session_aliases WHERE harness = :harness AND session = :session), :session),
        :export, :component, :action, :outcome, :snapshot_refs, :memory_ids, :attributes);
