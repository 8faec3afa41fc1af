//! `link add|list|remove`.

use clap::ValueEnum;
use memory_prefetch::contract::{Direction, Link};
use memory_prefetch::operator::Operator;
use serde::Serialize;
use serde_json::json;

use super::agent;
use super::app::{App, Missing};
use super::failure::{Exit, Failure};
use super::terminal::{count, name, table};

/// Which agent may read another one's memories
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Let an agent read another one
    ///
    /// Links are not transitive, and what an agent may read it may never write.
    #[command(after_help = "Example:\n  memory-prefetch link add reviewer planner --direction one-way")]
    Add {
        /// The agent that may read
        #[arg(value_name = "FROM")]
        from: String,
        /// The agent that is read
        #[arg(value_name = "TO")]
        to: String,
        /// Which way it works
        #[arg(long, value_enum, value_name = "DIRECTION")]
        direction: DirectionWord,
        /// What kind of link it is
        #[arg(long, value_enum, value_name = "KIND", default_value_t = Kind::Peer)]
        kind: Kind,
    },
    /// List all links
    #[command(after_help = "Example:\n  memory-prefetch link list")]
    List,
    /// Remove all links from one agent to another
    #[command(after_help = "Example:\n  memory-prefetch link remove reviewer planner")]
    Remove {
        /// The agent that may read
        #[arg(value_name = "FROM")]
        from: String,
        /// The agent that is read
        #[arg(value_name = "TO")]
        to: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum DirectionWord {
    /// FROM may read TO, and not the reverse
    OneWay,
    /// Each may read the other
    TwoWay,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Kind {
    Peer,
    Hierarchical,
}

#[derive(Debug, Serialize)]
struct Shape {
    from: String,
    to: String,
    direction: &'static str,
    kind: String,
}

impl From<Link> for Shape {
    fn from(row: Link) -> Shape {
        let direction = match row.direction {
            Direction::OneWay => "one-way",
            Direction::TwoWay => "two-way",
        };
        Shape { from: row.from_agent, to: row.to_agent, direction, kind: row.kind }
    }
}

/// Run it.
pub fn run(verb: Verb, app: &App) -> Result<(), Failure> {
    match verb {
        Verb::Add { from, to, direction, kind } => {
            if from == to {
                return Err(Failure::malformed(format!(
                    "an agent reads its own memories: {} needs no link to itself",
                    name(&from)
                )));
            }
            let mut store = app.store(Missing::Create)?;
            agent::must_exist(&mut store, &from)?;
            agent::must_exist(&mut store, &to)?;
            let direction = match direction {
                DirectionWord::OneWay => Direction::OneWay,
                DirectionWord::TwoWay => Direction::TwoWay,
            };
            let kind = match kind {
                Kind::Peer => "peer",
                Kind::Hierarchical => "hierarchical",
            };
            let row = Link { from_agent: from, to_agent: to, direction, kind: kind.to_owned(), attributes: Vec::new() };
            // The same link twice allows nothing more than once.
            if !store.all_links()?.contains(&row) {
                store.add_link(&row)?;
            }
            let row = Shape::from(row);
            if app.out.json {
                return app.out.object(&json!({ "link": row }));
            }
            let (from, to) = (name(&row.from), name(&row.to));
            app.out.text(&match direction {
                Direction::OneWay => format!("Agent {from} may read {to}, and not the reverse.\n"),
                Direction::TwoWay => format!("Agents {from} and {to} may read each other.\n"),
            })
        }
        Verb::List => {
            let rows = app.store(Missing::Refuse)?.all_links()?;
            let rows: Vec<Shape> = rows.into_iter().map(Shape::from).collect();
            if app.out.json {
                return app.out.object(&json!({ "links": rows }));
            }
            if rows.is_empty() {
                return app.out.text("No links.\n");
            }
            let rows: Vec<Vec<String>> = rows
                .into_iter()
                .map(|row| vec![name(&row.from), name(&row.to), row.direction.into(), name(&row.kind)])
                .collect();
            app.out.text(&table(&["FROM", "TO", "DIRECTION", "KIND"], &rows))
        }
        Verb::Remove { from, to } => {
            let removed = app.store(Missing::Refuse)?.remove_links(&from, &to)?;
            if removed == 0 {
                let message = format!("there is no link from {} to {}", name(&from), name(&to));
                return Err(Failure::new(Exit::Refused, "unknown-link", message)
                    .details(json!({ "from": from, "to": to }))
                    .hint("`memory-prefetch link list` shows all; a two-way link has a first and a second agent too"));
            }
            if app.out.json {
                return app.out.object(&json!({ "from": from, "to": to, "removed": removed }));
            }
            let links = count(removed as usize, "link", "links");
            app.out.text(&format!("Removed {links} from {} to {}.\n", name(&from), name(&to)))
        }
    }
}
