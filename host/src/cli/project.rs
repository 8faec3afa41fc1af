//! `project add|set|list|remove|id`.

use std::path::PathBuf;

use memory_prefetch::contract::Project;
use memory_prefetch::operator::Operator;
use memory_prefetch::project_identity::ProjectIdentityError;
use memory_prefetch::store::Store;
use memory_prefetch::{SqliteStore, project_identity};
use serde::Serialize;
use serde_json::json;

use super::agent::shell;
use super::app::{App, Missing};
use super::failure::{Exit, Failure};
use super::request::{Switch, Trust, switch_word, trust_word};
use super::terminal::{name, table};
use super::values;

/// The projects that sessions and memories belong to, and the workspaces in which they share
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Add a project
    ///
    /// A project outside of any workspace shares with no other one.
    #[command(
        after_help = "Example:\n  memory-prefetch project add website --workspace shop\n  memory-prefetch project \
                            add backend --workspace shop"
    )]
    Add {
        /// Its id
        #[arg(value_name = "PROJECT", value_parser = values::name)]
        project: String,
        /// The workspace in which it shares
        #[arg(long, value_name = "WORKSPACE", value_parser = values::name)]
        workspace: Option<String>,
        /// Whether memory is on in it
        #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::On)]
        memory: Switch,
        /// Whether its memories are trusted: decide by where its configuration comes from
        #[arg(long, value_enum, value_name = "TRUST", default_value_t = Trust::Trusted)]
        trust: Trust,
    },
    /// Change a project
    #[command(
        after_help = "Example:\n  memory-prefetch project set backend --memory off\n  memory-prefetch project set \
                            backend --memory on --no-workspace"
    )]
    #[command(group(clap::ArgGroup::new("change").required(true).multiple(true).args(["workspace", "no_workspace", "memory", "trust"])))]
    Set {
        /// Its id
        #[arg(value_name = "PROJECT")]
        project: String,
        /// Put it into this workspace
        #[arg(long, value_name = "WORKSPACE", value_parser = values::name, conflicts_with = "no_workspace")]
        workspace: Option<String>,
        /// Take it out of its workspace
        #[arg(long)]
        no_workspace: bool,
        /// Switch memory on or off in it
        #[arg(long, value_enum, value_name = "SWITCH")]
        memory: Option<Switch>,
        /// Whether its memories are trusted
        #[arg(long, value_enum, value_name = "TRUST")]
        trust: Option<Trust>,
    },
    /// List all projects
    #[command(after_help = "Example:\n  memory-prefetch project list")]
    List,
    /// Remove a project
    ///
    /// Its memories stay and are unavailable; memory is off for its sessions.
    #[command(after_help = "Example:\n  memory-prefetch project remove backend")]
    Remove {
        /// Its id
        #[arg(value_name = "PROJECT")]
        project: String,
    },
    /// Say what a directory's project is called by magic-context
    ///
    /// The root commit of its git repository, the same in every worktree, clone and subdirectory; outside of any
    /// repository a digest of its path. Changes nothing and needs no store.
    #[command(
        after_help = "Example:\n  memory-prefetch project id .\n  memory-prefetch project add \"$(memory-prefetch project \
                            id .)\""
    )]
    Id {
        /// The directory
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
}

#[derive(Debug, Serialize)]
struct Shape {
    id: String,
    workspace: Option<String>,
    memory: &'static str,
    trust: &'static str,
}

impl From<Project> for Shape {
    fn from(row: Project) -> Shape {
        let (memory, trust) = (switch_word(row.memory_on), trust_word(row.trusted));
        Shape { id: row.id, workspace: row.workspace, memory, trust }
    }
}

/// Run it.
pub fn run(verb: Verb, app: &App) -> Result<(), Failure> {
    match verb {
        Verb::Add { project, workspace, memory, trust } => {
            let mut store = app.store(Missing::Create)?;
            let row = Project {
                id: project,
                workspace,
                memory_on: memory.is_on(),
                trusted: trust.is_trusted(),
                attributes: Vec::new(),
            };
            if let Some(there) = find(&mut store, &row.id)? {
                if there == row {
                    return tell(app, "There already is a project", row);
                }
                let message = format!("there already is a project {}, and it is another one", name(&row.id));
                return Err(Failure::new(Exit::Refused, "exists", message)
                    .details(json!({ "project": row.id }))
                    .hint(format!("change it: memory-prefetch project set {} …", shell(&row.id))));
            }
            store.put_project(&row)?;
            tell(app, "Added project", row)
        }
        Verb::Set { project, workspace, no_workspace, memory, trust } => {
            let mut store = app.store(Missing::Refuse)?;
            let mut row = find(&mut store, &project)?.ok_or_else(|| unknown(&project))?;
            if no_workspace {
                row.workspace = None;
            }
            row.workspace = workspace.or(row.workspace);
            row.memory_on = memory.map_or(row.memory_on, Switch::is_on);
            row.trusted = trust.map_or(row.trusted, Trust::is_trusted);
            store.put_project(&row)?;
            tell(app, "Changed project", row)
        }
        Verb::List => {
            let rows = app.store(Missing::Refuse)?.all_projects()?;
            let rows: Vec<Shape> = rows.into_iter().map(Shape::from).collect();
            if app.out.json {
                return app.out.object(&json!({ "projects": rows }));
            }
            if rows.is_empty() {
                return app.out.text("No projects.\n");
            }
            let rows: Vec<Vec<String>> = rows
                .into_iter()
                .map(|row| {
                    let workspace = row.workspace.as_deref().map_or("-".into(), name);
                    vec![name(&row.id), workspace, row.memory.into(), row.trust.into()]
                })
                .collect();
            app.out.text(&table(&["PROJECT", "WORKSPACE", "MEMORY", "TRUST"], &rows))
        }
        Verb::Remove { project } => {
            if !app.store(Missing::Refuse)?.remove_project(&project)? {
                return Err(unknown(&project));
            }
            if app.out.json {
                return app.out.object(&json!({ "project": project, "removed": true }));
            }
            app.out.text(&format!("Removed project {}.\n", name(&project)))
        }
        Verb::Id { path } => {
            let project = project_identity(&path).map_err(unnamed)?;
            if app.out.json {
                return app.out.object(&json!({ "project": project }));
            }
            app.out.text(&format!("{project}\n"))
        }
    }
}

fn unnamed(error: ProjectIdentityError) -> Failure {
    use ProjectIdentityError as E;
    let code = match &error {
        E::Unreadable { .. } | E::NotADirectory { .. } => "no-directory",
        E::NotUtf8 { .. } => "not-utf8",
        E::NoGit { .. } => "no-git",
        E::Refused { .. } => "git-refused",
        E::NoCommit { .. } => "no-commit",
        E::Shallow { .. } => "shallow-clone",
        E::Git { .. } => "git",
    };
    Failure::new(Exit::Refused, code, error.to_string())
}

fn tell(app: &App, what: &str, row: Project) -> Result<(), Failure> {
    let row = Shape::from(row);
    if app.out.json {
        return app.out.object(&json!({ "project": row }));
    }
    let place =
        row.workspace.as_deref().map_or("no workspace".into(), |workspace| format!("workspace {}", name(workspace)));
    app.out.text(&format!("{what} {}: {place}, memory {}, {}.\n", name(&row.id), row.memory, row.trust))
}

fn find(store: &mut SqliteStore, id: &str) -> Result<Option<Project>, Failure> {
    Ok(store.projects(&[id.to_owned()])?.pop().flatten())
}

/// `project` must be in the directory.
pub fn must_exist(store: &mut SqliteStore, project: &str) -> Result<(), Failure> {
    find(store, project)?.map(|_| ()).ok_or_else(|| unknown(project))
}

fn unknown(project: &str) -> Failure {
    Failure::new(Exit::Refused, "unknown-project", format!("there is no project {}", name(project)))
        .details(json!({ "project": project }))
        .hint(format!("add it: memory-prefetch project add {}", shell(project)))
}
