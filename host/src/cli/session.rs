//! `session add|set|alias|list|end|remove`.

use memory_prefetch::SqliteStore;
use memory_prefetch::contract::{Session, SessionKey};
use memory_prefetch::operator::{NewSession, Operator};
use memory_prefetch::store::Store;
use serde::Serialize;
use serde_json::json;

use super::agent::{self, shell};
use super::app::{App, Missing};
use super::failure::{Exit, Failure};
use super::project;
use super::request::{Switch, switch_word};
use super::terminal::{name, table};
use super::values::{self, session_name};

/// The conversations of agents: who delegates, and to whom is delegated
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Register a session
    ///
    /// Agent, project and parent must be there. Registering the same session again changes nothing.
    #[command(after_help = "Example:\n  memory-prefetch session add lead --agent planner --project website\n  \
                            memory-prefetch session add pi/7f3a --agent reviewer --project website --parent lead")]
    Add {
        /// S, or HARNESS/S
        #[arg(value_name = "SESSION")]
        session: String,
        /// The agent that runs in it
        #[arg(long, value_name = "AGENT")]
        agent: String,
        /// The project that it works in
        #[arg(long, value_name = "PROJECT")]
        project: String,
        /// The session that delegated to it
        #[arg(long, value_name = "SESSION", value_parser = values::session)]
        parent: Option<SessionKey>,
        /// Its harness; SESSION is then the harness's own id, slashes and all
        #[arg(long, value_name = "HARNESS", value_parser = values::name)]
        harness: Option<String>,
        /// Whether memory is on for it
        #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::On)]
        memory: Switch,
    },
    /// Switch memory on or off for a session
    #[command(
        after_help = "Example:\n  memory-prefetch session set pi/7f3a --memory off\n  memory-prefetch session set \
                            pi/7f3a --memory on"
    )]
    Set {
        /// S, or HARNESS/S
        #[arg(value_name = "SESSION", value_parser = values::session)]
        session: SessionKey,
        /// Whether memory is on for it
        #[arg(long, value_enum, value_name = "SWITCH")]
        memory: Switch,
    },
    /// Make another key the same session: some harnesses change a session's id when they compact it
    #[command(after_help = "Example:\n  memory-prefetch session alias pi/7f3a-2 pi/7f3a")]
    Alias {
        /// The other key
        #[arg(value_name = "ALIAS", value_parser = values::session)]
        alias: SessionKey,
        /// The session
        #[arg(value_name = "SESSION", value_parser = values::session)]
        session: SessionKey,
    },
    /// List all sessions
    #[command(after_help = "Example:\n  memory-prefetch session list")]
    List,
    /// Say that a session will not run again: what it was given is not kept for it any longer
    ///
    /// It is not replayed any more, and goes at the next sweep. What the session itself delegated is not touched.
    #[command(after_help = "Example:\n  memory-prefetch session end pi/7f3a")]
    End {
        /// S, or HARNESS/S
        #[arg(value_name = "SESSION", value_parser = values::session)]
        session: SessionKey,
    },
    /// Remove a session and its aliases from the directory
    ///
    /// What it delegated and was given stays until it is swept.
    #[command(after_help = "Example:\n  memory-prefetch session remove pi/7f3a")]
    Remove {
        /// S, or HARNESS/S
        #[arg(value_name = "SESSION", value_parser = values::session)]
        session: SessionKey,
    },
}

#[derive(Debug, Serialize)]
struct Shape {
    session: String,
    agent: Option<String>,
    project: Option<String>,
    parent: Option<String>,
    memory: &'static str,
}

impl From<Session> for Shape {
    fn from(row: Session) -> Shape {
        Shape {
            session: session_name(&row.key),
            agent: row.agent,
            project: row.project.map(|project| project.id),
            parent: row.parent.as_ref().map(session_name),
            memory: switch_word(row.memory_on),
        }
    }
}

/// Run it.
pub fn run(verb: Verb, app: &App) -> Result<(), Failure> {
    match verb {
        Verb::Add { session, agent, project, parent, harness, memory } => {
            let text = harness.map_or(session.clone(), |harness| format!("{harness}/{session}"));
            let key = values::session(&text)
                .map_err(|why| Failure::malformed(format!("session {}: {why}", name(&session))))?;
            add(app, key, agent, project, parent, memory.is_on())
        }
        Verb::Set { session, memory } => {
            let mut store = app.store(Missing::Refuse)?;
            let row = must_exist(&mut store, &session)?;
            let row = Session { memory_on: memory.is_on(), ..row };
            store.put_session(&new_session(&row))?;
            tell(app, "Changed session", row)
        }
        Verb::Alias { alias, session } => {
            let mut store = app.store(Missing::Refuse)?;
            if let Some(there) = find(&mut store, &alias)? {
                let canonical = must_exist(&mut store, &session)?;
                if there.key != canonical.key || alias == canonical.key {
                    let (alias, there) = (session_name(&alias), session_name(&there.key));
                    let message = format!("{} is the session {} already", name(&alias), name(&there));
                    return Err(Failure::new(Exit::Refused, "exists", message).details(json!({ "session": there })));
                }
            } else if !store.add_alias(&alias, &session)? {
                return Err(unknown(&session));
            }
            let (alias, session) = (session_name(&alias), session_name(&session));
            if app.out.json {
                return app.out.object(&json!({ "alias": alias, "session": session }));
            }
            app.out.text(&format!("{} is the session {} from now on.\n", name(&alias), name(&session)))
        }
        Verb::List => {
            let rows = app.store(Missing::Refuse)?.all_sessions()?;
            let rows: Vec<Shape> = rows.into_iter().map(Shape::from).collect();
            if app.out.json {
                return app.out.object(&json!({ "sessions": rows }));
            }
            if rows.is_empty() {
                return app.out.text("No sessions.\n");
            }
            let or_dash = |text: Option<String>| text.as_deref().map_or("-".into(), name);
            let rows: Vec<Vec<String>> = rows
                .into_iter()
                .map(|row| {
                    let (agent, project) = (or_dash(row.agent), or_dash(row.project));
                    vec![name(&row.session), agent, project, or_dash(row.parent), row.memory.into()]
                })
                .collect();
            app.out.text(&table(&["SESSION", "AGENT", "PROJECT", "PARENT", "MEMORY"], &rows))
        }
        Verb::End { session } => {
            let mut prefetch = app.frozen()?;
            must_exist(prefetch.store(), &session)?;
            app.call(&mut prefetch, |prefetch| prefetch.session_ended(&session))?;
            let session = session_name(&session);
            if app.out.json {
                return app.out.object(&json!({ "session": session, "ended": true }));
            }
            app.out.text(&format!("Session {} has ended.\n", name(&session)))
        }
        Verb::Remove { session } => {
            if !app.store(Missing::Refuse)?.remove_session(&session)? {
                return Err(unknown(&session));
            }
            let session = session_name(&session);
            if app.out.json {
                return app.out.object(&json!({ "session": session, "removed": true }));
            }
            app.out.text(&format!("Removed session {}.\n", name(&session)))
        }
    }
}

fn add(
    app: &App,
    key: SessionKey,
    agent: String,
    project: String,
    parent: Option<SessionKey>,
    memory_on: bool,
) -> Result<(), Failure> {
    let mut store = app.store(Missing::Create)?;
    agent::must_exist(&mut store, &agent)?;
    project::must_exist(&mut store, &project)?;
    // The canonical key, so that the same session is not another one under an alias.
    let parent = parent.map(|parent| must_exist(&mut store, &parent)).transpose()?.map(|row| row.key);
    if parent.as_ref() == Some(&key) {
        return Err(Failure::malformed(format!("session {} cannot be its own parent", name(&session_name(&key)))));
    }
    let row = NewSession { key, agent: Some(agent), project: Some(project), parent, memory_on };
    if let Some(there) = find(&mut store, &row.key)? {
        if new_session(&there) == row {
            return tell(app, "There already is a session", there);
        }
        let session = session_name(&row.key);
        let message = format!("there already is a session {}, and it is another one", name(&session));
        return Err(Failure::new(Exit::Refused, "exists", message)
            .details(json!({ "session": session }))
            .hint(format!("to register it anew, first: memory-prefetch session remove {}", shell(&session))));
    }
    store.put_session(&row)?;
    let row = must_exist(&mut store, &row.key)?;
    tell(app, "Added session", row)
}

fn tell(app: &App, what: &str, row: Session) -> Result<(), Failure> {
    let row = Shape::from(row);
    if app.out.json {
        return app.out.object(&json!({ "session": row }));
    }
    let or_none = |text: &Option<String>| text.as_deref().map_or("none".into(), name);
    app.out.text(&format!(
        "{what} {}: agent {}, project {}, parent {}, memory {}.\n",
        name(&row.session),
        or_none(&row.agent),
        or_none(&row.project),
        or_none(&row.parent),
        row.memory
    ))
}

/// A row as it was registered.
fn new_session(row: &Session) -> NewSession {
    NewSession {
        key: row.key.clone(),
        agent: row.agent.clone(),
        project: row.project.as_ref().map(|project| project.id.clone()),
        parent: row.parent.clone(),
        memory_on: row.memory_on,
    }
}

/// The session with this key or alias.
pub fn find(store: &mut SqliteStore, key: &SessionKey) -> Result<Option<Session>, Failure> {
    Ok(store.sessions(std::slice::from_ref(key))?.pop().flatten())
}

/// The session with this key or alias, which must be in the directory.
pub fn must_exist(store: &mut SqliteStore, key: &SessionKey) -> Result<Session, Failure> {
    find(store, key)?.ok_or_else(|| unknown(key))
}

fn unknown(key: &SessionKey) -> Failure {
    let session = session_name(key);
    Failure::new(Exit::Refused, "unknown-session", format!("there is no session {}", name(&session)))
        .details(json!({ "session": session }))
        .hint(format!("add it: memory-prefetch session add {} --agent AGENT --project PROJECT", shell(&session)))
}
