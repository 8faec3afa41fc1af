//! The database of magic-context: `context.db`, which several of its programs share and migrate while we read it. Only
//! `memories`, `workspaces`, `workspace_members` and `schema_migrations` are touched, and only columns that are there:
//! its triggers, indexes and views may need functions that only its own programs have.
//!
//! A memory is owned by `project:` and its project. Its audience is the project; or the workspace, if it is marked as
//! shareable and of a category that its project's workspace shares.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::allowance::Allowance;
use crate::contract::*;
use crate::store::{Memories, Place, Rows, StoreFailure};

use super::read_only::{ReadOnly, SchemaVersion};
use super::{Hits, Options, column_or_null, columns, has, integer, lacks, name, text, with_body};

/// The newest schema that this was tried with. A newer one is read all the same, if it has the columns.
const KNOWN: i64 = 100;

/// What a workspace of this source is called by us: this and its id.
const WORKSPACE: &str = "magic-context:";

/// The memories of magic-context, read only.
///
/// Ids are its own, in decimal. Its workspaces stand for those of the directory (R10).
pub struct MagicContext {
    file: ReadOnly,
    trusted: bool,
    /// Whether a unit of work is open.
    unit: bool,
    /// Whether it has read something.
    begun: bool,
    schema: Option<Schema>,
    /// As the open unit of work sees them, once it has asked.
    workspaces: Option<Workspaces>,
    warned: bool,
}

/// What the file has, as long as its schema stays this one.
#[derive(Debug, Clone)]
struct Schema {
    version: SchemaVersion,
    /// What is read of `memories`: expressions, in the order that [`read`] takes them.
    memory: String,
    /// What is read of `workspaces`, if it and its members are there.
    workspaces: Option<String>,
}

#[derive(Debug, Clone, Default)]
struct Workspaces {
    /// The one that each project counts as in: the lowest id.
    of_project: BTreeMap<String, WorkspaceId>,
    /// The categories that each shares.
    shared: BTreeMap<WorkspaceId, BTreeSet<String>>,
}

/// Ordered by number; one that is not written as a number comes last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct WorkspaceId {
    number: i64,
    text: String,
}

impl WorkspaceId {
    fn read(row: &Row, index: usize) -> rusqlite::Result<Option<WorkspaceId>> {
        let text = match integer(row, index)? {
            Some(number) => Some(number.to_string()),
            None => name(row, index)?,
        };
        Ok(text.map(|text| WorkspaceId { number: text.parse().unwrap_or(i64::MAX), text }))
    }

    fn name(&self) -> String {
        format!("{WORKSPACE}{}", self.text)
    }
}

impl Workspaces {
    fn shares(&self, project: &str, category: &str) -> bool {
        let workspace = self.of_project.get(project);
        workspace.and_then(|id| self.shared.get(id)).is_some_and(|categories| categories.contains(category))
    }
}

impl MagicContext {
    /// Open the database at `path`.
    ///
    /// `Absent`: it is not there, or cannot be opened. `Damaged`: it is not SQLite, or lacks `memories` or a column that
    /// nothing can be read without. `Busy`: locked for longer than the busy timeout.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Rows<MagicContext> {
        let path = std::path::absolute(path).map_err(|error| StoreFailure::Absent(error.to_string()))?;
        let mut source = MagicContext {
            file: ReadOnly::new(path, options.busy_timeout),
            trusted: options.trusted,
            unit: false,
            begun: false,
            schema: None,
            workspaces: None,
            warned: false,
        };
        source.begin()?;
        source.start()?;
        source.end();
        Ok(source)
    }

    /// The unit's first read fixes what it sees. One that reads nothing does not need the file: what was frozen can be
    /// had while its program has it locked, or when it is gone.
    fn start(&mut self) -> Rows<()> {
        if !self.unit {
            return Err(StoreFailure::Other("no unit of work is open".into()));
        }
        if self.begun {
            return Ok(());
        }
        let version = self.file.begin()?;
        // Its own program may have migrated it since.
        if self.schema.as_ref().is_none_or(|schema| schema.version != version) {
            self.schema = None;
            self.find_schema(version).inspect_err(|_| self.file.end())?;
        }
        self.begun = true;
        Ok(())
    }

    fn find_schema(&mut self, version: SchemaVersion) -> Rows<()> {
        let path = self.file.path().to_owned();
        let (schema, newest) = self.file.read(|connection| {
            let there = columns(connection, "memories")?.ok_or_else(|| lacks(&path, "table memories"))?;
            for needed in ["id", "project_path", "content", "status"] {
                if !has(&there, needed) {
                    return Err(lacks(&path, &format!("column memories.{needed}")));
                }
            }
            let memory = [
                "id",
                "project_path",
                column_or_null(&there, "category"),
                column_or_null(&there, "importance"),
                column_or_null(&there, "scope"),
                column_or_null(&there, "shareable"),
                "status",
                column_or_null(&there, "superseded_by_memory_id"),
                column_or_null(&there, "expires_at"),
                column_or_null(&there, "updated_at"),
                "content",
            ];
            Ok((
                Schema { version, memory: memory.join(", "), workspaces: find_workspaces(connection)? },
                newest(connection)?,
            ))
        })?;
        if newest > KNOWN && !self.warned {
            self.warned = true;
            log::warn!(
                "{} has schema {newest}, newer than {KNOWN}, the newest that is known here; it is read all the same, since \
                 the columns that are needed are there",
                path.display()
            );
        }
        self.schema = Some(schema);
        Ok(())
    }

    /// Read with what the schema has, and the workspaces.
    fn read<T>(&mut self, read: impl FnOnce(&Connection, &Schema, &Workspaces) -> Rows<T>) -> Rows<T> {
        self.start()?;
        let MagicContext { file, schema, workspaces, .. } = self;
        file.read(|connection| {
            let schema = schema.as_ref().ok_or_else(|| StoreFailure::Other("no unit of work is open".into()))?;
            let workspaces = match workspaces {
                Some(workspaces) => workspaces,
                None => workspaces.insert(read_workspaces(connection, schema)?),
            };
            read(connection, schema, workspaces)
        })
    }
}

/// What is read of `workspaces`, if it and its members can be read.
fn find_workspaces(connection: &Connection) -> Rows<Option<String>> {
    let workspaces = columns(connection, "workspaces")?.unwrap_or_default();
    let members = columns(connection, "workspace_members")?.unwrap_or_default();
    if !has(&workspaces, "id") || !has(&members, "workspace_id") || !has(&members, "project_path") {
        return Ok(None);
    }
    Ok(Some(format!("id, {}", column_or_null(&workspaces, "share_categories"))))
}

fn read_workspaces(connection: &Connection, schema: &Schema) -> Rows<Workspaces> {
    let mut found = Workspaces::default();
    let Some(columns) = &schema.workspaces else { return Ok(found) };
    let mut workspaces = connection.prepare_cached(&format!("SELECT {columns} FROM workspaces"))?;
    let mut rows = workspaces.query([])?;
    while let Some(row) = rows.next()? {
        let Some(id) = WorkspaceId::read(row, 0)? else { continue };
        // What is not a list of texts shares nothing.
        let shared = text(row, 1)?.and_then(|json| serde_json::from_str(json).ok());
        found.shared.insert(id, shared.unwrap_or_default());
    }
    let mut members = connection.prepare_cached("SELECT workspace_id, project_path FROM workspace_members")?;
    let mut rows = members.query([])?;
    while let Some(row) = rows.next()? {
        let (Some(id), Some(project)) = (WorkspaceId::read(row, 0)?, name(row, 1)?) else { continue };
        // A member of no workspace that is there is in none.
        if found.shared.contains_key(&id) && found.of_project.get(&project).is_none_or(|other| id < *other) {
            found.of_project.insert(project, id);
        }
    }
    Ok(found)
}

/// The newest migration that it says it has had.
fn newest(connection: &Connection) -> Rows<i64> {
    let user_version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let migrations = columns(connection, "schema_migrations")?.unwrap_or_default();
    if !has(&migrations, "version") {
        return Ok(user_version);
    }
    let newest = connection.query_row("SELECT max(version) FROM schema_migrations", [], |row| integer(row, 0))?;
    Ok(newest.unwrap_or(0).max(user_version))
}

/// The row and its text, in the order of [`Schema::memory`]; `None` for one that cannot be read.
fn read<'a>(row: &'a Row, trusted: bool, workspaces: &Workspaces) -> rusqlite::Result<Option<(Memory, &'a str)>> {
    let Some(id) = integer(row, 0)? else { return Ok(None) };
    let expires_at = match row.get_ref(8)? {
        ValueRef::Null => None,
        ValueRef::Integer(at) => match Instant::try_from(at) {
            Ok(at) => Some(at),
            Err(_) => return Ok(None),
        },
        _ => return Ok(None),
    };
    let Some(body) = text(row, 10)? else { return Ok(None) };
    let project = name(row, 1)?;
    let category = text(row, 2)?.unwrap_or_default();
    let shareable = integer(row, 5)? == Some(1) && matches!(text(row, 4)?, Some("project" | "ecosystem" | "universe"));
    let shared = shareable && project.as_ref().is_some_and(|project| workspaces.shares(project, category));
    let active = matches!(text(row, 6)?, Some("active" | "permanent")) && row.get_ref(7)? == ValueRef::Null;
    let memory = Memory {
        id: id.to_string(),
        owner: project.as_ref().map(|project| format!("project:{project}")),
        project,
        audience: if shared { Audience::Workspace } else { Audience::Project },
        active,
        expires_at,
        trusted,
        category: category.to_owned(),
        priority: integer(row, 3)?.map_or(0, |importance| importance.clamp(0, i64::from(u32::MAX)) as u32),
        version: String::new(),
        updated_at: integer(row, 9)?.and_then(|at| Instant::try_from(at).ok()),
        bytes: 0,
        body: None,
        attributes: Vec::new(),
    };
    Ok(Some((memory, body)))
}

/// The rowid that is written like this; `None` if it is none's decimal text (R2).
fn rowid(id: &str) -> Option<i64> {
    id.parse().ok().filter(|rowid: &i64| rowid.to_string() == id)
}

impl Memories for MagicContext {
    fn begin(&mut self) -> Rows<()> {
        self.end();
        self.unit = true;
        Ok(())
    }

    fn end(&mut self) {
        self.file.end();
        self.unit = false;
        self.begun = false;
        self.workspaces = None;
    }

    fn memories(&mut self, ids: &[String], max_bytes: u32) -> Rows<Vec<Option<Memory>>> {
        let trusted = self.trusted;
        let mut allowance = Allowance::of(max_bytes);
        self.read(|connection, schema, workspaces| {
            let mut statement =
                connection.prepare_cached(&format!("SELECT {} FROM memories WHERE id = ?1", schema.memory))?;
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                let Some(rowid) = rowid(id) else {
                    found.push(None);
                    continue;
                };
                let row = statement.query_row([rowid], |row| {
                    Ok(read(row, trusted, workspaces)?
                        .and_then(|(memory, body)| with_body(memory, body, &mut allowance)))
                });
                found.push(row.optional()?.flatten());
            }
            Ok(found)
        })
    }

    fn search(&mut self, filter: &SearchFilter, query: &str, limit: u32, max_bytes: u32) -> Rows<Vec<Memory>> {
        let trusted = self.trusted;
        let best = self.read(|connection, schema, workspaces| {
            // Compared here and not in SQL: a column's own collation may call two projects equal.
            let mut statement = connection.prepare_cached(&format!("SELECT {} FROM memories", schema.memory))?;
            let mut rows = statement.query([])?;
            let mut hits = Hits::new(filter, query);
            while let Some(row) = rows.next()? {
                if let Some((memory, body)) = read(row, trusted, workspaces)? {
                    hits.consider(&memory, body);
                }
            }
            Ok(hits.best(limit))
        })?;
        Ok(self.memories(&best, max_bytes)?.into_iter().flatten().collect())
    }

    fn record_access(&mut self, _: &[String], _: Instant) -> Rows<()> {
        Ok(())
    }

    fn erase(&mut self, _: &[String]) -> Rows<Vec<String>> {
        Ok(Vec::new())
    }

    fn places(&mut self, projects: &[String]) -> Rows<Vec<Option<Place>>> {
        self.read(|connection, _, workspaces| {
            let mut remembers =
                connection.prepare_cached("SELECT 1 FROM memories WHERE project_path = ?1 COLLATE BINARY LIMIT 1")?;
            let mut places = Vec::with_capacity(projects.len());
            for project in projects {
                let workspace = workspaces.of_project.get(project).map(WorkspaceId::name);
                let known = workspace.is_some() || remembers.exists([project])?;
                places.push(known.then_some(Place { workspace }));
            }
            Ok(places)
        })
    }

    fn members(&mut self, workspace: &str) -> Rows<Vec<String>> {
        self.read(|_, _, workspaces| {
            let inside = workspaces.of_project.iter().filter(|(_, id)| id.name() == workspace);
            Ok(inside.map(|(project, _)| project.clone()).collect())
        })
    }
}
