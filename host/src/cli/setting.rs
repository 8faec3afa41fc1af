//! `setting set|unset|list`.

use memory_prefetch::operator::Operator;
use serde::Serialize;
use serde_json::json;

use super::app::{App, Missing};
use super::failure::{Exit, Failure};
use super::project;
use super::terminal::{name, table};

/// Numbers and switches that hold for the whole store, or for one project
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Set a setting
    ///
    /// max-ids: how many memories one request may name (64). default-ttl-seconds: how long a delegation waits for its
    /// child (3600). max-ttl-seconds: the longest that it may wait (604800, a week). replay-seconds: how long a delivery
    /// can be replayed (2592000, 30 days). max-body-bytes: how much one call may read (1048576). markers: `on` reads
    /// ⟦mc-mem: 11, 55⟧ in task texts (off; only for the whole store).
    #[command(after_help = "Example:\n  memory-prefetch setting set max-ids 100\n  memory-prefetch setting set \
                            default-ttl-seconds 600 --project website")]
    Set {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// Its value
        #[arg(value_name = "VALUE")]
        value: String,
        /// Only for this project; goes before the general one
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
    },
    /// Unset a setting: what holds by default holds again
    #[command(after_help = "Example:\n  memory-prefetch setting unset max-ids")]
    Unset {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
        /// Only for this project
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
    },
    /// List the settings that are set
    #[command(after_help = "Example:\n  memory-prefetch setting list")]
    List,
}

#[derive(Debug, Serialize)]
struct Shape {
    project: Option<String>,
    name: String,
    value: String,
}

/// The settings whose values are numbers.
const NUMBERS: [&str; 5] = ["max-ids", "default-ttl-seconds", "max-ttl-seconds", "replay-seconds", "max-body-bytes"];
/// The one that is a switch.
const MARKERS: &str = "markers";

/// Run it.
pub fn run(verb: Verb, app: &App) -> Result<(), Failure> {
    match verb {
        Verb::Set { name: setting, value, project } => {
            check(app, &setting, &value, project.as_deref())?;
            let mut store = app.store(Missing::Create)?;
            if let Some(project) = &project {
                project::must_exist(&mut store, project)?;
            }
            store.put_setting(project.as_deref(), &setting, Some(&value))?;
            if app.out.json {
                return app.out.object(&json!({ "setting": Shape { project, name: setting, value } }));
            }
            app.out.text(&format!("{} is {} {}.\n", name(&setting), name(&value), scope(project.as_deref())))
        }
        Verb::Unset { name: setting, project } => {
            let mut store = app.store(Missing::Refuse)?;
            let is_it = |row: &(Option<String>, String, String)| row.0 == project && row.1 == setting;
            if !store.all_settings()?.iter().any(is_it) {
                let message = format!("{} is not set {}", name(&setting), scope(project.as_deref()));
                return Err(Failure::new(Exit::Refused, "unknown-setting", message)
                    .details(json!({ "project": project, "name": setting }))
                    .hint("`memory-prefetch setting list` shows what is set"));
            }
            store.put_setting(project.as_deref(), &setting, None)?;
            if app.out.json {
                return app.out.object(&json!({ "project": project, "name": setting, "unset": true }));
            }
            app.out.text(&format!("{} is no longer set {}.\n", name(&setting), scope(project.as_deref())))
        }
        Verb::List => {
            let rows = app.store(Missing::Refuse)?.all_settings()?;
            let rows: Vec<Shape> =
                rows.into_iter().map(|(project, name, value)| Shape { project, name, value }).collect();
            if app.out.json {
                return app.out.object(&json!({ "settings": rows }));
            }
            if rows.is_empty() {
                return app.out.text("Nothing is set; what holds by default holds.\n");
            }
            let rows: Vec<Vec<String>> = rows
                .iter()
                .map(|row| vec![name(&row.name), name(&row.value), row.project.as_deref().map_or("-".into(), name)])
                .collect();
            app.out.text(&table(&["SETTING", "VALUE", "PROJECT"], &rows))
        }
    }
}

fn scope(project: Option<&str>) -> String {
    project.map_or("for the whole store".into(), |project| format!("for project {}", name(project)))
}

/// A value that the policy would pass over is refused here, where somebody sees it.
fn check(app: &App, setting: &str, value: &str, project: Option<&str>) -> Result<(), Failure> {
    let wrong = |what: &str| Failure::malformed(format!("{} cannot be {}: {what}", name(setting), name(value)));
    if NUMBERS.contains(&setting) {
        return match value.parse::<u32>() {
            Ok(n) if n > 0 && value.bytes().all(|b| b.is_ascii_digit()) => Ok(()),
            _ => Err(wrong("it is a whole number from 1 to 4294967295")),
        };
    }
    if setting == MARKERS {
        return match (value, project) {
            ("on" | "off", None) => Ok(()),
            ("on" | "off", Some(_)) => Err(Failure::malformed("markers can only be set for the whole store")
                .hint("leave --project out: a task text is read before anybody knows its project")),
            _ => Err(wrong("it is on or off")),
        };
    }
    app.out.note(&format!(
        "the built-in component has no setting {}; it knows {}, {MARKERS}",
        name(setting),
        NUMBERS.join(", ")
    ));
    Ok(())
}
