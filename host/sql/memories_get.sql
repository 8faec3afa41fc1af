-- memories.get. :ids, JSON array of texts. One row per memory that is there, in the order asked: position (from 0), then
-- the columns of a memory. Bodies are all read, since one that is not UTF-8 must be left out; the host applies max-bytes
-- and leaves out what it cannot read. A host whose driver repairs UTF-8 reads CAST(m.body AS BLOB) instead.
SELECT asked.key AS position, m.memory_id, m.owner, m.project, m.audience, m.active, m.expires_at, m.trusted, m.category,
       m.priority, m.version, m.updated_at, m.attributes, m.body
  FROM json_each(:ids) AS asked
 CROSS JOIN memories AS m ON m.memory_id = asked.value;
