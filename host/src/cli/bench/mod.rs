//! `bench`: the figures that the project holds itself to, measured on this machine. Each is a ratio of two things that are
//! measured in the same run, turn by turn. What is measured is in `fixture`, how in `measure`, each row in `rows`.

pub mod fixture;
mod instructions;
mod large;
pub mod measure;
mod native;
mod rows;

use std::path::PathBuf;

use serde::Serialize;

use super::app::App;
use super::failure::{Exit, Failure};
use super::terminal;
use measure::Spread;

/// Measure this program on this machine, against plain SQLite and against the same policy without a sandbox
///
/// Most figures are ratios of two things that are measured in the same run, turn by turn: the median, and the middle half
/// of its parts. Times alone say more about the machine. Measure with a release build, and with little else running; a
/// development build has no bars for times. A bar is the most that a figure may be.
///
/// Works on throw-away stores in the directory for temporary files, which should be on a disk; --store is not touched.
/// Takes some minutes and 1 GB there, most of it for the row `scale`, which makes a store with a million memories.
#[derive(Debug, clap::Args)]
#[command(after_help = "Rows:
  component  delegate and deliver 20 memories of 1 KB, through the component and natively
  replay     the same block again, against one read of its bytes from SQLite
  insert     a durable delegate, against one durable insert of the block's bytes
  start      a new process until its child's block is there, against sqlite3 reading the bytes
  scale      deliver from a large store, against a small one
  size       the component's size, and what it imports
  pasting    output tokens of a parent that names memories, against one that pastes them

Example:
  memory-prefetch bench --quick --rows replay,size")]
pub struct Args {
    /// Measure only these, separated by commas
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    rows: Vec<Row>,
    /// A tenth of the rounds, and for `scale` a tenth of the rows: to see that it works
    #[arg(long)]
    quick: bool,
    /// Keep the large store of `scale` in this directory, and use the one that is there
    #[arg(long, value_name = "DIR")]
    scale_dir: Option<PathBuf>,
    /// Fail, with exit code 3, if a bar is missed
    #[arg(long)]
    check: bool,
    /// Do once what `cargo xtask instructions` counts
    #[arg(long, hide = true, exclusive = true)]
    instructions: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Row {
    Component,
    Replay,
    Insert,
    Start,
    Scale,
    Size,
    Pasting,
}

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Unit {
    Times,
    Seconds,
    Bytes,
    Count,
}

/// One thing that was measured, in seconds.
#[derive(Debug, Clone, Serialize)]
struct Measured {
    what: &'static str,
    #[serde(flatten)]
    spread: Spread,
}

/// One figure.
#[derive(Debug, Clone, Serialize)]
struct Figure {
    row: &'static str,
    what: String,
    unit: Unit,
    #[serde(flatten)]
    value: Spread,
    /// The most that it may be. `None`: it is told, and nothing is demanded.
    bar: Option<f64>,
    met: Option<bool>,
    /// What it is the ratio of.
    measured: Vec<Measured>,
}

/// How much is measured.
struct Scope {
    quick: bool,
    scale_dir: Option<PathBuf>,
}

impl Scope {
    fn rounds(&self, rounds: usize) -> usize {
        if self.quick { rounds / 10 } else { rounds }
    }
}

/// Run it.
pub fn run(args: Args, app: &App) -> Result<(), Failure> {
    if args.instructions {
        return instructions::run(app);
    }
    let wanted = |row| args.rows.is_empty() || args.rows.contains(&row);
    let scope = Scope { quick: args.quick, scale_dir: args.scale_dir };
    if cfg!(debug_assertions) {
        app.out.note("this is a development build: its times say little, and have no bars");
    }
    let load_before = load();
    let mut figures = Vec::new();
    type Measure = fn(&App, &Scope) -> Result<Vec<Figure>, Failure>;
    let measures: [(Row, &str, Measure); 7] = [
        (Row::Component, "delegate and deliver, through the component and natively", rows::component),
        (Row::Replay, "replays", rows::replay),
        (Row::Insert, "durable delegations and inserts", rows::insert),
        (Row::Start, "new processes", rows::start),
        (Row::Scale, "a large store: making it takes a while", rows::scale),
        (Row::Size, "sizes", rows::size),
        (Row::Pasting, "tokens", rows::pasting),
    ];
    for (row, what, measure) in measures {
        if wanted(row) {
            tell(app, &format!("measuring {what} …"));
            figures.extend(measure(app, &scope)?);
        }
    }
    if cfg!(debug_assertions) {
        let timed = figures.iter_mut().filter(|figure| matches!(figure.unit, Unit::Times | Unit::Seconds));
        timed.for_each(|figure| (figure.bar, figure.met) = (None, None));
    }
    let machine =
        Machine { cores: std::thread::available_parallelism().map_or(1, usize::from), load_before, load_after: load() };
    let missed = figures.iter().filter(|figure| figure.met == Some(false)).count();
    let bars = figures.iter().filter(|figure| figure.met.is_some()).count();
    if app.out.json {
        app.out.object(&Report { figures: &figures, quick: scope.quick, debug: cfg!(debug_assertions), machine })?;
    } else {
        app.out.text(&table(&figures))?;
        app.out.text(&machine.told())?;
    }
    let told = format!("{missed} of {} missed", terminal::count(bars, "bar", "bars"));
    match missed {
        0 => Ok(()),
        _ if args.check => Err(Failure::new(Exit::Refused, "bench", told)),
        _ => {
            app.out.note(&told);
            Ok(())
        }
    }
}

/// What a person who waits is told.
fn tell(app: &App, line: &str) {
    if !app.out.json {
        terminal::stderr(line);
    }
}

#[derive(Serialize)]
struct Report<'a> {
    figures: &'a [Figure],
    quick: bool,
    debug: bool,
    machine: Machine,
}

#[derive(Serialize)]
struct Machine {
    cores: usize,
    /// How many processes wanted to run in the last minute, where the system tells.
    load_before: Option<f64>,
    load_after: Option<f64>,
}

impl Machine {
    fn told(&self) -> String {
        let cores = terminal::count(self.cores, "core", "cores");
        match (self.load_before, self.load_after) {
            (Some(before), Some(after)) => format!("\n{cores}; load {before:.1} before, {after:.1} after.\n"),
            _ => format!("\n{cores}.\n"),
        }
    }
}

fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

fn table(figures: &[Figure]) -> String {
    let row = |figure: &Figure| {
        let shown = |value| number(value, figure.unit);
        let spread = if figure.value.low == figure.value.high {
            String::new()
        } else {
            format!("{} to {}", shown(figure.value.low), shown(figure.value.high))
        };
        let measured =
            figure.measured.iter().map(|one| format!("{} {}", number(one.spread.median, Unit::Seconds), one.what));
        vec![
            figure.row.to_owned(),
            figure.what.clone(),
            shown(figure.value.median),
            spread,
            figure
                .bar
                .map_or(String::new(), |bar| if bar == 0.0 { "none".into() } else { format!("≤ {}", shown(bar)) }),
            figure.met.map_or("", |met| if met { "met" } else { "MISSED" }).to_owned(),
            measured.collect::<Vec<_>>().join(" / "),
        ]
    };
    let rows: Vec<Vec<String>> = figures.iter().map(row).collect();
    terminal::table(&["ROW", "WHAT", ">FIGURE", "MIDDLE HALF", "BAR", "", "MEASURED"], &rows)
}

fn number(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Times if value < 10.0 => format!("{value:.2}×"),
        Unit::Times => format!("{value:.0}×"),
        Unit::Seconds if value < 1e-3 => format!("{:.1} µs", value * 1e6),
        Unit::Seconds if value < 1.0 => format!("{:.1} ms", value * 1e3),
        Unit::Seconds => format!("{value:.1} s"),
        Unit::Bytes => format!("{:.0} KB", value / 1024.0),
        Unit::Count => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_shown_with_its_bar() {
        let spread = |median| Spread { median, low: median * 0.9, high: median * 1.1 };
        let figure = Figure {
            row: "replay",
            what: "replay / one raw read".into(),
            unit: Unit::Times,
            value: spread(2.5),
            bar: Some(2.2),
            met: Some(false),
            measured: vec![
                Measured { what: "replay", spread: spread(10e-6) },
                Measured { what: "read", spread: spread(4e-6) },
            ],
        };
        assert_eq!(
            table(&[figure]),
            "ROW     WHAT                   FIGURE  MIDDLE HALF     BAR              MEASURED\n\
             replay  replay / one raw read   2.50×  2.25× to 2.75×  ≤ 2.20×  MISSED  10.0 µs replay / 4.0 µs read\n"
        );
    }
}
