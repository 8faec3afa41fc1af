-- The next id that no memory ever had, as a decimal number in a text. One row.
WITH RECURSIVE next (n) AS (
  SELECT coalesce(max(id), 0) + 1 FROM memory_ids
   UNION ALL
  SELECT n + 1 FROM next WHERE EXISTS (SELECT 1 FROM memory_ids WHERE memory_id = CAST(n AS TEXT))
)
SELECT CAST(max(n) AS TEXT) AS memory_id FROM next;
