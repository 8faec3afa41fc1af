//! What only the user, or the harness acting for the user, may change: the directory, the memories and the settings.
//! Never reached by a component, which only reads these rows.

use crate::contract::*;
use crate::store::{AuditRow, Rows, Store};

/// A memory as it is added.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMemory {
    /// `None`: the store gives one out that it has never given out before (R2).
    pub id: Option<String>,
    /// The agent that owns it. `None`: nobody, and so nobody sees it (R7).
    pub owner: Option<String>,
    /// Its project.
    pub project: Option<String>,
    /// Whom its owner shares it with.
    pub audience: Audience,
    /// The store's own category, may be empty.
    pub category: String,
    /// Larger is kept longer when trimming.
    pub priority: u32,
    /// Whether its source is trusted.
    pub trusted: bool,
    /// From this instant it is expired.
    pub expires_at: Option<Instant>,
    /// The text, stored byte for byte.
    pub body: String,
}

impl NewMemory {
    /// A trusted memory that its owner shares with nobody, without a category or an end; the store gives out its id.
    pub fn new(owner: impl Into<String>, project: impl Into<String>, body: impl Into<String>) -> NewMemory {
        NewMemory {
            id: None,
            owner: Some(owner.into()),
            project: Some(project.into()),
            audience: Audience::Agent,
            category: String::new(),
            priority: 0,
            trusted: true,
            expires_at: None,
            body: body.into(),
        }
    }
}

/// What to change of a memory; `None` leaves it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryEdit {
    /// A new text. Raises the version and the time of the update.
    pub body: Option<String>,
    /// A new category.
    pub category: Option<String>,
    /// Another audience.
    pub audience: Option<Audience>,
    /// Another priority.
    pub priority: Option<u32>,
    /// Another trust.
    pub trusted: Option<bool>,
    /// Another end; `Some(None)`: it never expires.
    pub expires_at: Option<Option<Instant>>,
}

/// A session as it is registered.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    /// Its canonical key.
    pub key: SessionKey,
    /// Its agent.
    pub agent: Option<String>,
    /// Its project.
    pub project: Option<String>,
    /// The session that delegated to it.
    pub parent: Option<SessionKey>,
    /// Whether memory is on for it.
    pub memory_on: bool,
}

/// Which audit entries to list. All conditions must hold; one that is `None` is not applied.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditFilter {
    /// Only what this session asked for, under whichever of its keys.
    pub session: Option<SessionKey>,
    /// Only from this instant on.
    pub since: Option<Instant>,
}

/// A snapshot for a list: who made it, when, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// The row, without pages.
    pub snapshot: Snapshot,
    /// Number of deliveries.
    pub deliveries: u32,
}

/// Changes and lists for the operator. Each call is a transaction of its own. `Ok(false)` from a change: there is no
/// such row.
pub trait Operator: Store {
    /// Add an agent. `false`: it is there already.
    fn add_agent(&mut self, agent: &str) -> Rows<bool>;
    /// All agents, by name.
    fn agents(&mut self) -> Rows<Vec<String>>;
    /// Remove an agent with its links. Its memories stay, and nobody sees them but through what they are shared with.
    fn remove_agent(&mut self, agent: &str) -> Rows<bool>;

    /// Add a project, or replace it.
    fn put_project(&mut self, project: &Project) -> Rows<()>;
    /// All projects, by id.
    fn all_projects(&mut self) -> Rows<Vec<Project>>;
    /// Remove a project. Its memories stay and are unavailable (R7).
    fn remove_project(&mut self, id: &str) -> Rows<bool>;

    /// Register a session, or replace it. `Other` if the key is an alias of another session.
    fn put_session(&mut self, session: &NewSession) -> Rows<()>;
    /// R24: make `alias` another key of the session `canonical`. `false`: there is no such session. `Other` if `alias`
    /// is a session of its own already.
    fn add_alias(&mut self, alias: &SessionKey, canonical: &SessionKey) -> Rows<bool>;
    /// All sessions, by key.
    fn all_sessions(&mut self) -> Rows<Vec<Session>>;
    /// Remove a session and its aliases. What it delegated and was given stays until it is swept.
    fn remove_session(&mut self, key: &SessionKey) -> Rows<bool>;

    /// Add a link. The same two agents may have several.
    fn add_link(&mut self, link: &Link) -> Rows<()>;
    /// All links, in the order in which they were added.
    fn all_links(&mut self) -> Rows<Vec<Link>>;
    /// Remove every link from one agent to another, and say how many that were.
    fn remove_links(&mut self, from_agent: &str, to_agent: &str) -> Rows<u32>;

    /// Add a memory at `at` and answer its id. `Other` if the id is taken, or was before.
    fn add_memory(&mut self, memory: &NewMemory, at: Instant) -> Rows<String>;
    /// Change a memory at `at`.
    fn edit_memory(&mut self, id: &str, edit: &MemoryEdit, at: Instant) -> Rows<bool>;
    /// Set or clear `active`.
    fn archive_memory(&mut self, id: &str, archived: bool) -> Rows<bool>;
    /// All memories with their bodies, by age, at most `limit` after skipping `offset`.
    fn all_memories(&mut self, offset: u32, limit: u32) -> Rows<Vec<Memory>>;

    /// How often a memory was counted as used by its owner's recalls, and when last. `None`: there is no such memory.
    fn memory_use(&mut self, id: &str) -> Rows<Option<(u32, Option<Instant>)>>;

    /// Snapshots, youngest first, at most `limit` after skipping `offset`.
    fn all_snapshots(&mut self, offset: u32, limit: u32) -> Rows<Vec<Listed>>;

    /// Set a setting, for one project or for all; `None` unsets it.
    fn put_setting(&mut self, project: Option<&str>, name: &str, value: Option<&str>) -> Rows<()>;
    /// All settings: project, name, value.
    fn all_settings(&mut self) -> Rows<Vec<(Option<String>, String, String)>>;

    /// The latest audit entries that the filter admits, youngest first, at most `limit`.
    fn all_audit(&mut self, filter: &AuditFilter, limit: u32) -> Rows<Vec<AuditRow>>;
}
