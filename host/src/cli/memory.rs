//! `memory add|edit|archive|list|get|forget`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use memory_prefetch::Erased;
use memory_prefetch::contract::{Audience, Instant, Memory, SessionKey};
use memory_prefetch::operator::{MemoryEdit, NewMemory, Operator};
use memory_prefetch::store::Memories;
use serde::Serialize;
use serde_json::json;

use super::agent;
use super::app::{App, Missing};
use super::failure::{Exit, Failure};
use super::project;
use super::request::{Trust, read};
use super::shapes::{MemoryShape, ViewShape, audience_word, view_heading};
use super::terminal::{count, name, names, table};
use super::values::{self, shown};

/// The memories themselves
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Add a memory
    ///
    /// Its text is kept byte for byte and must be UTF-8. Its id, if none is given, is one that was never given out
    /// before.
    #[command(after_help = "\
Example:
  memory-prefetch memory add --agent planner --project website --id 11 \\
    --category decision --body 'The login form never autofills.'
  printf 'Totals are in cents.' |
    memory-prefetch memory add --agent planner --project website --id 55 --audience project -")]
    Add(Add),
    /// Change a memory
    ///
    /// A new text raises its version. What was frozen before stays as it was.
    #[command(
        after_help = "Example:\n  memory-prefetch memory edit 11 --body 'The login form autofills the user name.'\n  \
                            memory-prefetch memory edit 55 --priority 5 --expires 2099-01-01T00:00:00+08:00"
    )]
    Edit(Edit),
    /// Take a memory out of use, or put it back
    #[command(after_help = "Example:\n  memory-prefetch memory archive 55\n  memory-prefetch memory archive 55 --undo")]
    Archive {
        /// Its id
        #[arg(value_name = "ID", value_parser = values::memory_id)]
        id: String,
        /// Put it back into use
        #[arg(long)]
        undo: bool,
    },
    /// List memories, oldest first, without their texts
    #[command(after_help = "Example:\n  memory-prefetch memory list --limit 20")]
    List {
        /// Pass over the first ones
        #[arg(long, value_name = "N", default_value_t = 0)]
        offset: u32,
        /// At most this many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// Read memories as a session may see them
    ///
    /// What the session may not see is listed as unavailable, without a reason. Exit code 3 if nothing can be had.
    #[command(after_help = "Example:\n  memory-prefetch memory get --session lead 11 55")]
    Get {
        /// The session that reads
        #[arg(long, value_name = "SESSION", value_parser = values::session)]
        session: SessionKey,
        /// The memories
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
    /// Erase memories, also from every snapshot that holds them
    ///
    /// Their texts are gone for good: from the memories, from the search index and from every snapshot, whoever made it,
    /// and from the file itself. A child that is given such a snapshot, or reads it again, finds the item marked as
    /// erased. Their ids are never given out again, and an entry in the audit says that they were erased. Copies that
    /// left the store (a child's transcript, a backup) cannot be reached; and its id and category stay where they were
    /// frozen, its size where a delegation was refused for it or left it out. At most 1000 ids. Exit code 3 if none of
    /// them was there.
    #[command(after_help = "Example:\n  memory-prefetch memory forget 55")]
    Forget {
        /// The memories
        #[arg(value_name = "ID", required = true, value_parser = values::memory_id)]
        ids: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("text").required(true).args(["body", "body_file", "stdin"])))]
pub struct Add {
    /// The agent that owns it
    #[arg(long, value_name = "AGENT")]
    agent: String,
    /// The project that it belongs to
    #[arg(long, value_name = "PROJECT")]
    project: String,
    /// Its id
    #[arg(long, value_name = "ID", value_parser = values::memory_id)]
    id: Option<String>,
    /// Your own category
    #[arg(long, value_name = "CATEGORY", default_value = "", hide_default_value = true, value_parser = values::category)]
    category: String,
    /// Whom its owner shares it with; links are separate
    #[arg(long, value_enum, value_name = "AUDIENCE", default_value_t = AudienceWord::Agent)]
    audience: AudienceWord,
    /// Larger is kept longer when memories are left out
    #[arg(long, value_name = "N", default_value_t = 0)]
    priority: u32,
    /// Whether its source is trusted; untrusted memories are never handed over
    #[arg(long, value_enum, value_name = "TRUST", default_value_t = Trust::Trusted)]
    trust: Trust,
    /// From this instant it is expired, RFC 3339
    #[arg(long, value_name = "INSTANT", value_parser = values::instant)]
    expires: Option<Instant>,
    #[command(flatten)]
    text: Text,
}

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true).args(
    ["body", "body_file", "stdin", "category", "audience", "priority", "trust", "expires"]
)))]
pub struct Edit {
    /// Its id
    #[arg(value_name = "ID", value_parser = values::memory_id)]
    id: String,
    /// Another category
    #[arg(long, value_name = "CATEGORY", value_parser = values::category)]
    category: Option<String>,
    /// Whom its owner shares it with
    #[arg(long, value_enum, value_name = "AUDIENCE")]
    audience: Option<AudienceWord>,
    /// Larger is kept longer when memories are left out
    #[arg(long, value_name = "N")]
    priority: Option<u32>,
    /// Whether its source is trusted
    #[arg(long, value_enum, value_name = "TRUST")]
    trust: Option<Trust>,
    /// From this instant it is expired, RFC 3339, or `never`
    #[arg(long, value_name = "INSTANT", value_parser = expiry)]
    expires: Option<Expiry>,
    #[command(flatten)]
    text: Text,
}

/// The text of a memory, from one of three places.
#[derive(Debug, clap::Args)]
struct Text {
    /// The text
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["body_file", "stdin"], allow_hyphen_values = true)]
    body: Option<String>,
    /// Read the text from this file
    #[arg(long, value_name = "FILE", conflicts_with = "stdin")]
    body_file: Option<PathBuf>,
    /// Read the text from stdin
    #[arg(value_name = "-", value_parser = ["-"])]
    stdin: Option<String>,
}

impl Text {
    fn read(self) -> Result<Option<String>, Failure> {
        match (self.body, self.body_file, self.stdin) {
            (Some(body), ..) => Ok(Some(body)),
            (None, Some(file), _) => read(&file).map(Some),
            (None, None, Some(_)) => read(Path::new("-")).map(Some),
            (None, None, None) => Ok(None),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AudienceWord {
    /// Its owner only
    Agent,
    /// Every agent in the same project
    Project,
    /// Every agent in the same workspace
    Workspace,
}

impl From<AudienceWord> for Audience {
    fn from(word: AudienceWord) -> Audience {
        match word {
            AudienceWord::Agent => Audience::Agent,
            AudienceWord::Project => Audience::Project,
            AudienceWord::Workspace => Audience::Workspace,
        }
    }
}

/// When a memory expires.
#[derive(Debug, Clone, Copy)]
enum Expiry {
    At(Instant),
    Never,
}

fn expiry(text: &str) -> Result<Expiry, String> {
    if text == "never" { Ok(Expiry::Never) } else { values::instant(text).map(Expiry::At) }
}

/// Run it.
pub fn run(verb: Verb, app: &App) -> Result<(), Failure> {
    match verb {
        Verb::Add(args) => add(args, app),
        Verb::Edit(args) => edit(args, app),
        Verb::Archive { id, undo } => {
            app.own_memories("archive")?;
            if !app.store(Missing::Refuse)?.archive_memory(&id, !undo)? {
                return Err(unknown(&id));
            }
            if app.out.json {
                return app.out.object(&json!({ "id": id, "active": undo }));
            }
            let said = if undo { "is in use again" } else { "is archived" };
            app.out.text(&format!("Memory {} {said}.\n", name(&id)))
        }
        Verb::List { offset, limit } => list(app, offset, limit),
        Verb::Get { session, ids } => get(app, &session, &ids),
        Verb::Forget { ids } => forget(app, &ids),
    }
}

fn forget(app: &App, ids: &[String]) -> Result<(), Failure> {
    let mut prefetch = app.prefetch()?;
    let requested: Vec<String> = ids.iter().map(|id| values::as_requested(id)).collect();
    let Erased { snapshots, memories } = app.call(&mut prefetch, |prefetch| prefetch.forget(&requested))?;
    // What is in another program's store is still there, and is not ours to know.
    let unknown: Vec<&String> = match app.has_source() {
        true => Vec::new(),
        false => ids.iter().filter(|id| !memories.contains(id)).collect(),
    };
    if memories.is_empty() && snapshots == 0 && !app.has_source() {
        let message = format!("there is no memory {}, and no snapshot holds one", names(ids));
        return Err(Failure::new(Exit::Refused, "unknown-memory", message)
            .details(json!({ "ids": ids }))
            .hint("`memory-prefetch memory list` shows all"));
    }
    if app.out.json {
        return app.out.object(&json!({ "forgotten": memories, "unknown": unknown, "snapshots": snapshots }));
    }
    let held = count(snapshots as usize, "snapshot", "snapshots");
    app.out.text(&match memories.as_slice() {
        [] => format!("Cut out of {held}.\n"),
        memories => format!("Erased {}, and cut out of {held}.\n", names(memories)),
    })?;
    if prefetch.store().is_scrub_due() {
        app.out.note(
            "another process is reading the store, so its log still has the text: it goes when that is over and somebody \
             writes",
        );
    }
    if app.has_source() {
        app.out.note("the store of --memories is only read: erase it there as well");
    }
    if !unknown.is_empty() {
        app.out.note(&format!("there was no memory {}", names(&unknown)));
    }
    Ok(())
}

fn add(args: Add, app: &App) -> Result<(), Failure> {
    app.own_memories("add")?;
    let mut store = app.store(Missing::Create)?;
    agent::must_exist(&mut store, &args.agent)?;
    project::must_exist(&mut store, &args.project)?;
    if let Some(id) = &args.id
        && find(&mut store, id)?.is_some()
    {
        return Err(Failure::new(Exit::Refused, "exists", format!("there already is a memory {}", name(id)))
            .details(json!({ "id": id }))
            .hint(
                "an id is never given out twice: choose another one, or change that memory with `memory-prefetch \
                   memory edit`",
            ));
    }
    let memory = NewMemory {
        id: args.id,
        owner: Some(args.agent),
        project: Some(args.project),
        audience: args.audience.into(),
        category: args.category,
        priority: args.priority,
        trusted: args.trust.is_trusted(),
        expires_at: args.expires,
        body: args.text.read()?.unwrap_or_default(),
    };
    let id = store.add_memory(&memory, app.now())?;
    let row = find(&mut store, &id)?.ok_or_else(|| unknown(&id))?;
    tell(app, "Added", row)
}

fn edit(args: Edit, app: &App) -> Result<(), Failure> {
    app.own_memories("edit")?;
    let edit = MemoryEdit {
        body: args.text.read()?,
        category: args.category,
        audience: args.audience.map(Audience::from),
        priority: args.priority,
        trusted: args.trust.map(Trust::is_trusted),
        expires_at: args.expires.map(|expires| match expires {
            Expiry::At(at) => Some(at),
            Expiry::Never => None,
        }),
    };
    let mut store = app.store(Missing::Refuse)?;
    if !store.edit_memory(&args.id, &edit, app.now())? {
        return Err(unknown(&args.id));
    }
    let row = find(&mut store, &args.id)?.ok_or_else(|| unknown(&args.id))?;
    tell(app, "Changed", row)
}

fn tell(app: &App, what: &str, row: Memory) -> Result<(), Failure> {
    if app.out.json {
        return app.out.object(&json!({ "memory": MemoryShape::from(row) }));
    }
    let text = format!("{what} memory {}: version {}, {} bytes.\n", name(&row.id), name(&row.version), row.bytes);
    app.out.text(&text)
}

/// The row without its body.
fn find(store: &mut impl Memories, id: &str) -> Result<Option<Memory>, Failure> {
    Ok(store.memories(&[id.to_owned()], 0)?.pop().flatten())
}

fn list(app: &App, offset: u32, limit: u32) -> Result<(), Failure> {
    app.own_memories("list")?;
    let mut rows = app.store(Missing::Refuse)?.all_memories(offset, limit.saturating_add(1))?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    if app.out.json {
        #[derive(Serialize)]
        struct List {
            memories: Vec<MemoryShape>,
            more: bool,
        }
        return app.out.object(&List { memories: rows.into_iter().map(MemoryShape::from).collect(), more });
    }
    if rows.is_empty() {
        return app.out.text("No memories.\n");
    }
    let now = app.now();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let or_dash = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), name);
            let category = if row.category.is_empty() { "-".to_owned() } else { name(&row.category) };
            vec![
                name(&row.id),
                or_dash(&row.owner),
                or_dash(&row.project),
                audience_word(row.audience).to_owned(),
                category,
                row.priority.to_string(),
                name(&row.version),
                row.bytes.to_string(),
                row.updated_at.map_or("-".to_owned(), shown),
                standing(row, now).to_owned(),
            ]
        })
        .collect();
    let headings =
        ["MEMORY", "OWNER", "PROJECT", "AUDIENCE", "CATEGORY", ">PRIORITY", "VERSION", ">BYTES", "UPDATED", "STANDING"];
    app.out.text(&table(&headings, &cells))?;
    if more {
        app.out.note(&format!("there are more: --offset {}", offset.saturating_add(limit)));
    }
    Ok(())
}

/// Why nobody gets it, if so.
fn standing(row: &Memory, now: Instant) -> &'static str {
    if !row.active {
        "archived"
    } else if row.expires_at.is_some_and(|at| at <= now) {
        "expired"
    } else if !row.trusted {
        "untrusted"
    } else {
        "in use"
    }
}

fn get(app: &App, session: &SessionKey, ids: &[String]) -> Result<(), Failure> {
    let mut prefetch = app.prefetch()?;
    let found = app.call(&mut prefetch, |prefetch| prefetch.get(session, ids))?;
    let none = found.memories.is_empty();
    if app.out.json {
        #[derive(Serialize)]
        struct Got {
            memories: Vec<ViewShape>,
            unavailable: Vec<String>,
        }
        let memories = found.memories.into_iter().map(ViewShape::from).collect();
        app.out.object(&Got { memories, unavailable: found.unavailable.clone() })?;
    } else {
        for view in &found.memories {
            app.out.text(&format!("{}:\n", view_heading(view)))?;
            app.out.exact(&view.body)?;
            app.out.text("\n\n")?;
        }
        if !found.unavailable.is_empty() && !none {
            app.out.note(&format!("unavailable: {}", names(&found.unavailable)));
        }
    }
    if none {
        let message = format!("not available: {}", names(&found.unavailable));
        return Err(Failure::new(Exit::Refused, "unavailable", message)
            .details(json!({ "unavailable": found.unavailable }))
            .hint(if app.has_source() {
                "a session sees what the store of --memories has for its agent or its project, and what is shared with it \
                 or opened by a link; `memory-prefetch project id PATH` says what a directory's project is called there"
            } else {
                "`memory-prefetch memory list` shows all memories; a session sees those of its agent, and those that \
                   are shared with it or opened by a link"
            }));
    }
    Ok(())
}

fn unknown(id: &str) -> Failure {
    Failure::new(Exit::Refused, "unknown-memory", format!("there is no memory {}", name(id)))
        .details(json!({ "id": id }))
        .hint("`memory-prefetch memory list` shows all")
}
