-- Schema 1. Run in one transaction on a file whose application_id is 1835363696 ('memp') and that has no table `store`.
--
-- Instants are milliseconds since 1970-01-01T00:00:00Z, truth values are 0 and 1, attributes and lists are JSON arrays.
-- Every table has an INTEGER key inside, which is never given out twice, and keeps its text columns last: a row is read
-- from the front, and long texts lie on pages of their own.

-- What this file is. Schema: the newest migration that was run. A program whose own schema number is below
-- `oldest_reader` must not read the file, one below `oldest_writer` must not write it. An additive migration raises
-- `schema` only.
CREATE TABLE store (
  id            INTEGER PRIMARY KEY CHECK (id = 1),
  schema        INTEGER NOT NULL,
  oldest_reader INTEGER NOT NULL,
  oldest_writer INTEGER NOT NULL,
  -- Erased text may still be in the write-ahead log, since somebody was reading when it was to be cut off. Whoever writes
  -- next tries again: a truncating checkpoint after the commit.
  scrub         INTEGER NOT NULL DEFAULT 0 CHECK (scrub IN (0, 1))
) STRICT;
INSERT INTO store (id, schema, oldest_reader, oldest_writer) VALUES (1, 1, 1, 1);

-- The directory.

CREATE TABLE agents (
  id    INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT NOT NULL UNIQUE CHECK (agent <> '' AND instr(agent, char(0)) = 0)
) STRICT;

CREATE TABLE projects (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  memory_on  INTEGER NOT NULL CHECK (memory_on IN (0, 1)),
  trusted    INTEGER NOT NULL CHECK (trusted IN (0, 1)),
  project    TEXT NOT NULL UNIQUE CHECK (project <> '' AND instr(project, char(0)) = 0),
  workspace  TEXT,
  attributes TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE INDEX projects_workspace ON projects (workspace, project);

-- A session that names an agent or a project which is not there has none.
CREATE TABLE sessions (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  memory_on      INTEGER NOT NULL CHECK (memory_on IN (0, 1)),
  harness        TEXT NOT NULL CHECK (harness <> '' AND instr(harness, char(0)) = 0),
  session        TEXT NOT NULL CHECK (session <> '' AND instr(session, char(0)) = 0),
  agent          TEXT CHECK (agent <> ''),
  project        TEXT CHECK (project <> ''),
  parent_harness TEXT,
  parent_session TEXT,
  attributes     TEXT NOT NULL DEFAULT '[]',
  UNIQUE (harness, session),
  CHECK ((parent_harness IS NULL) = (parent_session IS NULL))
) STRICT;

-- Other keys of a session. Every statement that is handed a session key looks here first.
CREATE TABLE session_aliases (
  id                INTEGER PRIMARY KEY AUTOINCREMENT,
  harness           TEXT NOT NULL CHECK (harness <> '' AND instr(harness, char(0)) = 0),
  session           TEXT NOT NULL CHECK (session <> '' AND instr(session, char(0)) = 0),
  canonical_harness TEXT NOT NULL,
  canonical_session TEXT NOT NULL,
  UNIQUE (harness, session),
  FOREIGN KEY (canonical_harness, canonical_session) REFERENCES sessions (harness, session) ON DELETE CASCADE
) STRICT;
CREATE INDEX session_aliases_canonical ON session_aliases (canonical_harness, canonical_session);

CREATE TABLE links (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  two_way    INTEGER NOT NULL CHECK (two_way IN (0, 1)),
  from_agent TEXT NOT NULL CHECK (from_agent <> ''),
  to_agent   TEXT NOT NULL CHECK (to_agent <> ''),
  kind       TEXT NOT NULL,
  attributes TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE INDEX links_from ON links (from_agent, to_agent);
CREATE INDEX links_to ON links (to_agent, from_agent);

-- The memories.

-- Every id that was ever a memory's. Rows are never deleted, so that no id is given out twice.
CREATE TABLE memory_ids (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  memory_id TEXT NOT NULL UNIQUE CHECK (memory_id <> '' AND instr(memory_id, char(0)) = 0)
) STRICT;

CREATE TABLE memories (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  active     INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
  trusted    INTEGER NOT NULL CHECK (trusted IN (0, 1)),
  priority   INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 4294967295),
  version    INTEGER NOT NULL DEFAULT 1,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  expires_at INTEGER CHECK (expires_at >= 0),
  uses       INTEGER NOT NULL DEFAULT 0,
  used_at    INTEGER,
  memory_id  TEXT NOT NULL UNIQUE,
  audience   TEXT NOT NULL CHECK (audience IN ('agent', 'project', 'workspace')),
  owner      TEXT CHECK (owner <> ''),
  project    TEXT CHECK (project <> ''),
  category   TEXT NOT NULL,
  attributes TEXT NOT NULL DEFAULT '[]',
  body       TEXT NOT NULL
) STRICT;

-- Whoever inserts a memory, an id that was used before is refused, also by INSERT OR REPLACE and OR IGNORE; and none is
-- changed.
CREATE TRIGGER memories_id BEFORE INSERT ON memories BEGIN
  SELECT RAISE (ABORT, 'a memory has or had this id') WHERE EXISTS (SELECT 1 FROM memory_ids WHERE memory_id = NEW.memory_id);
  INSERT INTO memory_ids (memory_id) VALUES (NEW.memory_id);
END;
CREATE TRIGGER memories_id_stays BEFORE UPDATE ON memories
WHEN NEW.id IS NOT OLD.id OR NEW.memory_id IS NOT OLD.memory_id BEGIN
  SELECT RAISE (ABORT, 'the id of a memory cannot be changed');
END;

-- What decides who sees a memory, without its texts: a search looks at many rows.
CREATE INDEX memories_scope ON memories (id, owner, project, audience, active, trusted, expires_at);

-- Search.

-- Chinese, Japanese and Korean letters, as a character class of GLOB. Written without spaces, they are found by pairs.
CREATE VIEW run_letters (class) AS
SELECT '[' || char(4352) || '-' || char(4607) || char(12293) || '-' || char(12295) || char(12353) || '-' || char(12447) || char(12449) || '-' || char(12538) ||
       char(12540) || '-' || char(12543) || char(12549) || '-' || char(12687) || char(12704) || '-' || char(12799) || char(13312) || '-' || char(19903) ||
       char(19968) || '-' || char(40959) || char(43360) || '-' || char(43391) || char(44032) || '-' || char(55295) || char(63744) || '-' || char(64255) ||
       char(65382) || '-' || char(65500) || char(131072) || '-' || char(262143) || ']';

-- What is indexed of an active memory: the first 65536 characters of its body, in which each letter of a run of those above stands
-- as a word of its own together with the next one of its run. So two or more of them are found as a phrase of pairs, a
-- single one as a prefix, and a word of another script that touches them as the whole word that it is. The text is first
-- cut into pieces, since finding the n-th character of a text takes n steps.
CREATE VIEW memory_texts (id, text) AS
SELECT m.id,
       CASE WHEN substr(m.body, 1, 65536) NOT GLOB '*' || r.class || '*' THEN substr(m.body, 1, 65536) ELSE (
         WITH RECURSIVE
           pieces (start, piece) AS (
             SELECT 1, substr(m.body, 1, 257)
              UNION ALL
             SELECT start + 256, substr(m.body, start + 256, 257) FROM pieces
              WHERE start + 256 <= 65536 AND length(piece) = 257
           ),
           letters (start, place, piece) AS (
             SELECT start, 1, piece FROM pieces
              UNION ALL
             SELECT start, place + 1, piece FROM letters WHERE place < min(256, length(piece))
           )
         SELECT group_concat(word, '')
           FROM (SELECT CASE WHEN substr(piece, place, 1) NOT GLOB r.class THEN substr(piece, place, 1)
                             WHEN substr(piece, place + 1, 1) NOT GLOB r.class THEN ' ' || substr(piece, place, 1) || ' '
                             ELSE ' ' || substr(piece, place, 2) || ' ' END AS word
                   FROM letters ORDER BY start, place)
       ) END
  FROM memories AS m CROSS JOIN run_letters AS r
 WHERE m.active;

-- The index itself holds no text. It follows the rows of active memories in the transactions that change them, whoever
-- does that.
CREATE VIRTUAL TABLE memory_words USING fts5 (
  text, content = 'memory_texts', content_rowid = 'id',
  tokenize = "unicode61 remove_diacritics 2 categories 'L* N* M* Co'"
);
-- Without it terms that were deleted stay in the index until it is merged.
INSERT INTO memory_words (memory_words, rank) VALUES ('secure-delete', 1);

CREATE TRIGGER memories_insert_words AFTER INSERT ON memories WHEN NEW.active BEGIN
  INSERT INTO memory_words (rowid, text) SELECT id, text FROM memory_texts WHERE id = NEW.id;
END;
-- FTS5 writes a deletion and an insertion of one row together, and then leaves a term's old places where they fill about a
-- page. A row with a lower number makes it write the deletion first.
CREATE TRIGGER memories_before_words BEFORE UPDATE OF active, body ON memories
WHEN OLD.active AND (NOT NEW.active OR NEW.body <> OLD.body) BEGIN
  INSERT INTO memory_words (memory_words, rowid, text) SELECT 'delete', id, text FROM memory_texts WHERE id = OLD.id;
  INSERT INTO memory_words (rowid, text) VALUES (-1, '0');
  INSERT INTO memory_words (memory_words, rowid, text) VALUES ('delete', -1, '0');
END;
CREATE TRIGGER memories_after_words AFTER UPDATE OF active, body ON memories
WHEN NEW.active AND (NOT OLD.active OR NEW.body <> OLD.body) BEGIN
  INSERT INTO memory_words (rowid, text) SELECT id, text FROM memory_texts WHERE id = NEW.id;
END;
CREATE TRIGGER memories_delete_words BEFORE DELETE ON memories WHEN OLD.active BEGIN
  INSERT INTO memory_words (memory_words, rowid, text) SELECT 'delete', id, text FROM memory_texts WHERE id = OLD.id;
END;

-- Every place of every term in the index.
CREATE VIRTUAL TABLE memory_terms USING fts5vocab (memory_words, instance);

-- Snapshots, hand-overs and deliveries. Their session keys are canonical.

CREATE TABLE snapshots (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  created_at    INTEGER NOT NULL,
  expires_at    INTEGER NOT NULL,
  keep_until    INTEGER NOT NULL,
  revoked_at    INTEGER,
  pages         INTEGER NOT NULL CHECK (pages BETWEEN 0 AND 4294967295),
  snapshot_ref  TEXT NOT NULL UNIQUE,
  owner_harness TEXT NOT NULL,
  owner_session TEXT NOT NULL,
  state         TEXT NOT NULL
) STRICT;
CREATE INDEX snapshots_keep ON snapshots (keep_until);

CREATE TABLE snapshot_memories (
  snapshot  INTEGER NOT NULL REFERENCES snapshots (id) ON DELETE CASCADE,
  position  INTEGER NOT NULL,
  memory_id TEXT NOT NULL,
  PRIMARY KEY (snapshot, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX snapshot_memories_memory ON snapshot_memories (memory_id, snapshot);

CREATE TABLE pages (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  snapshot INTEGER NOT NULL REFERENCES snapshots (id) ON DELETE CASCADE,
  number   INTEGER NOT NULL CHECK (number BETWEEN 1 AND 4294967295),
  checksum TEXT NOT NULL,
  state    TEXT NOT NULL,
  text     TEXT NOT NULL,
  UNIQUE (snapshot, number)
) STRICT;

CREATE TABLE hand_overs (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  snapshot       INTEGER REFERENCES snapshots (id) ON DELETE CASCADE,
  children       INTEGER NOT NULL CHECK (children BETWEEN 1 AND 4294967295),
  created_at     INTEGER NOT NULL,
  expires_at     INTEGER NOT NULL,
  keep_until     INTEGER NOT NULL,
  parent_harness TEXT NOT NULL,
  parent_session TEXT NOT NULL,
  call_id        TEXT,
  hand_over      TEXT NOT NULL UNIQUE,
  agent_type     TEXT,
  ids_key        TEXT,
  task_digest    TEXT NOT NULL,
  task_head      TEXT NOT NULL,
  state          TEXT NOT NULL,
  task           TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX hand_overs_call ON hand_overs (parent_harness, parent_session, call_id) WHERE call_id IS NOT NULL;
CREATE INDEX hand_overs_task ON hand_overs (parent_harness, parent_session, task_digest);
CREATE INDEX hand_overs_snapshot ON hand_overs (snapshot);
CREATE INDEX hand_overs_keep ON hand_overs (keep_until) WHERE snapshot IS NULL;

CREATE TABLE deliveries (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  snapshot      INTEGER REFERENCES snapshots (id) ON DELETE CASCADE,
  hand_over     INTEGER REFERENCES hand_overs (id) ON DELETE CASCADE,
  place         INTEGER NOT NULL CHECK (place BETWEEN 0 AND 4294967295),
  at            INTEGER NOT NULL,
  keep_until    INTEGER NOT NULL,
  child_harness TEXT NOT NULL,
  child_session TEXT NOT NULL,
  occasion      TEXT NOT NULL,
  -- That of `snapshot`, once more: so a delivery whose number the disk has changed does not give another snapshot's text,
  -- whose checksum is bound to its ref.
  snapshot_ref  TEXT,
  state         TEXT NOT NULL,
  checksum      TEXT,
  notice        TEXT,
  UNIQUE (child_harness, child_session, occasion),
  UNIQUE (hand_over, place)
) STRICT;
CREATE INDEX deliveries_child ON deliveries (child_harness, child_session);
CREATE INDEX deliveries_snapshot ON deliveries (snapshot, keep_until);
CREATE INDEX deliveries_keep ON deliveries (keep_until) WHERE snapshot IS NULL AND hand_over IS NULL;

-- What a delivery needs is kept as long as the delivery.
CREATE TRIGGER deliveries_keep AFTER INSERT ON deliveries BEGIN
  UPDATE snapshots SET keep_until = NEW.keep_until WHERE id = NEW.snapshot AND keep_until < NEW.keep_until;
  UPDATE hand_overs SET keep_until = NEW.keep_until WHERE id = NEW.hand_over AND keep_until < NEW.keep_until;
END;

-- Settings; `project` is NULL for those that hold everywhere.
CREATE TABLE settings (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  project TEXT,
  name    TEXT NOT NULL,
  value   TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX settings_general ON settings (name) WHERE project IS NULL;
CREATE UNIQUE INDEX settings_project ON settings (project, name) WHERE project IS NOT NULL;

-- What was decided. Never holds a body or a task text. Session is NULL for the operator. Every call that writes appends to
-- it, so it has no index: whoever lists it reads from its end.
CREATE TABLE audit (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  at            INTEGER NOT NULL,
  rolled_back   INTEGER NOT NULL CHECK (rolled_back IN (0, 1)),
  harness       TEXT,
  session       TEXT,
  export        TEXT NOT NULL,
  component     TEXT NOT NULL,
  action        TEXT NOT NULL,
  outcome       TEXT NOT NULL,
  snapshot_refs TEXT NOT NULL,
  memory_ids    TEXT NOT NULL,
  attributes    TEXT NOT NULL,
  CHECK ((harness IS NULL) = (session IS NULL))
) STRICT;
