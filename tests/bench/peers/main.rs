//! The same 20 memories from memory-prefetch and from what people use today: LangGraph's `SqliteStore`, and the MCP
//! reference memory server over stdio. All in the same run, turn by turn; `cargo xtask peers` installs them and runs this.
//!
//! LangGraph is measured inside of its process, as its users call it; the server from request to answer, as its client
//! waits. Both are read while nothing else uses their stores.
//!
//! Each is asked some times in a row, and then it is the others' turn. The first time of a row finds the processor's caches
//! full of what the others did, which costs whoever needs microseconds more than who needs milliseconds: it is told, and
//! the bars are for the rest.

#[path = "../../../host/src/cli/bench/fixture.rs"]
#[allow(dead_code)]
mod fixture;
#[path = "../../../host/src/cli/bench/measure.rs"]
#[allow(dead_code)]
mod measure;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use memory_prefetch::contract::{Claim, Delegated, DelegationOutcome, MemoryField};
use memory_prefetch::{Prefetch, Runtime, SqliteOptions, SqliteStore};
use serde_json::{Value, json};

use fixture::{MEMORIES, PARENT, child, key};
use measure::{Times, timed, turn_by_turn, with_warm_up};

/// What the server holds in all.
const ENTITIES: usize = 1_000;

const ROUNDS: usize = 100;

/// How often each is asked in a row.
const ROW: usize = 20;

/// What a peer must at least take longer.
const LANGGRAPH: f64 = 5.0;
const MCP: f64 = 100.0;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [python, script, server] = arguments.as_slice() else {
        bail!("this is run by `cargo xtask peers`, which says where Python, the script and the server are");
    };
    let dir = tempfile::tempdir()?;
    let mut store = SqliteStore::open(dir.path().join("store.sqlite"), &SqliteOptions::default())?;
    let ids = fixture::fill(&mut store, 1)?;
    let mut prefetch = Runtime::builder().build()?.open(store)?;
    let me = child(0);
    hand_over(&mut prefetch, 0, &ids)?;

    let texts: BTreeMap<&String, String> =
        ids.iter().enumerate().map(|(number, id)| (id, fixture::body(number))).collect();
    let mut langgraph = Peer::start(Command::new(python).arg(script).arg(dir.path().join("langgraph.sqlite")))?;
    langgraph.send(&json!(texts).to_string())?;
    ensure!(langgraph.line()? == "ready", "LangGraph did not start");

    let mut mcp =
        Peer::start(Command::new("node").arg(server).env("MEMORY_FILE_PATH", dir.path().join("memory.jsonl")))?;
    mcp.initialise()?;
    let entities: Vec<Value> = (0..ENTITIES)
        .map(|number| json!({ "name": format!("m{number}"), "entityType": "decision", "observations": [fixture::body(number)] }))
        .collect();
    mcp.call("create_entities", json!({ "entities": entities }))?;
    let found = mcp.call("open_nodes", json!({ "names": ids }))?.to_string();
    ensure!(
        found.contains("Note 7.") && found.len() > MEMORIES * fixture::BODY,
        "the server answered with other texts"
    );

    // Each of ours has a store of its own, and an instance that goes on serving its caller.
    let mut written = SqliteStore::open(dir.path().join("written.sqlite"), &SqliteOptions::default())?;
    fixture::fill(&mut written, with_warm_up(ROUNDS) * ROW)?;
    let mut written = prefetch.runtime().open(written)?;
    let mut getting = SqliteStore::open(dir.path().join("getting.sqlite"), &SqliteOptions::default())?;
    fixture::fill(&mut getting, 0)?;
    let mut getting = prefetch.runtime().open(getting)?;

    let mut first: [Vec<Duration>; 5] = Default::default();
    let [first_replay, first_get, first_both, first_langgraph, first_mcp] = &mut first;
    let [replay, get, both, langgraph_get, mcp_open] = turn_by_turn(
        ROUNDS,
        [
            &mut |_| {
                row(first_replay, |_| {
                    let (took, blocks) = timed(|| prefetch.replay(&me))?;
                    let bytes: usize = blocks.iter().map(|block| block.text.len()).sum();
                    ensure!(bytes > MEMORIES * fixture::BODY, "no block");
                    Ok(took)
                })
            },
            &mut |_| {
                row(first_get, |_| {
                    let (took, found) = timed(|| getting.get(&key(PARENT), &ids))?;
                    ensure!(found.memories.len() == MEMORIES, "{} memories were found", found.memories.len());
                    Ok(took)
                })
            },
            &mut |round| row(first_both, |place| Ok(timed(|| hand_over(&mut written, round * ROW + place, &ids))?.0)),
            &mut |_| row(first_langgraph, |_| langgraph.timed("get")),
            &mut |_| row(first_mcp, |_| Ok(timed(|| mcp.call("open_nodes", json!({ "names": ids })))?.0)),
        ],
    )?;
    let [_, langgraph_put] = turn_by_turn(
        ROUNDS,
        [&mut |_| Ok::<_, anyhow::Error>(timed(|| prefetch.replay(&me))?.0), &mut |_| langgraph.timed("put")],
    )?;

    println!("{MEMORIES} memories of {} bytes; medians of {ROUNDS} rows of {ROW}.", fixture::BODY);
    println!("{:<48} {:>13} {:>18}", "", "in a row", "the first of one");
    for ((what, times), first) in [
        ("memory-prefetch: replay", &replay),
        ("memory-prefetch: get by ids", &get),
        ("memory-prefetch: delegate + deliver, durable", &both),
        ("LangGraph SqliteStore.batch: get", &langgraph_get),
        ("MCP memory server: open_nodes among 1000", &mcp_open),
    ]
    .iter()
    .zip(&mut first)
    {
        let micros = |time: f64| time * 1e6;
        println!(
            "{what:<48} {:>10.1} µs {:>15.1} µs",
            micros(times.spread().median),
            micros(middle(first).as_secs_f64())
        );
    }
    println!("{:<48} {:>13} {:>15.1} µs", "LangGraph SqliteStore.batch: put", "", langgraph_put.spread().median * 1e6);
    println!("\nOf those in a row, with the middle half of the ratio's parts:");
    ratio("LangGraph get / replay", &langgraph_get, &replay, Some(LANGGRAPH));
    ratio("LangGraph get / get by ids", &langgraph_get, &get, None);
    ratio("LangGraph get / delegate + deliver, durable", &langgraph_get, &both, None);
    ratio("MCP open_nodes / replay", &mcp_open, &replay, Some(MCP));
    ratio("MCP open_nodes / get by ids", &mcp_open, &get, None);
    ratio("MCP open_nodes / delegate + deliver, durable", &mcp_open, &both, None);
    Ok(())
}

/// Does it some times in a row: keeps what the first time took, and answers with the median of the others.
fn row(first: &mut Vec<Duration>, mut once: impl FnMut(usize) -> Result<Duration>) -> Result<Duration> {
    first.push(once(0)?);
    let mut rest = (1..ROW).map(once).collect::<Result<Vec<_>>>()?;
    Ok(middle(&mut rest))
}

fn middle(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn ratio(what: &str, one: &Times, other: &Times, bar: Option<f64>) {
    let ratio = one.against(other);
    let bar = bar.map_or(String::new(), |bar| {
        format!("  at least {bar}×: {}", if ratio.median >= bar { "met" } else { "MISSED" })
    });
    println!("{what:<48} {:>8.1}× ({:.1} to {:.1}){bar}", ratio.median, ratio.low, ratio.high);
}

fn hand_over(prefetch: &mut Prefetch<SqliteStore>, number: usize, ids: &[String]) -> Result<()> {
    let outcome = prefetch.delegate(&key(PARENT), &fixture::request(&format!("task {number}"), ids))?;
    let DelegationOutcome::HandedOver(Delegated { memory: Some(MemoryField::SnapshotRef(name)), .. }) = outcome else {
        bail!("a delegation was answered {outcome:?}");
    };
    let answer = prefetch.deliver(&child(number), "start", &Claim::SnapshotRef(name))?;
    ensure!(answer.block.is_some(), "a delivery was answered {:?}", answer.outcome);
    Ok(())
}

/// A process that answers line by line.
struct Peer {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    calls: u64,
}

impl Peer {
    fn start(command: &mut Command) -> Result<Peer> {
        let name = command.get_program().to_string_lossy().into_owned();
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = started.with_context(|| format!("{name} cannot be started"))?;
        let input = process.stdin.take().context("it has no input")?;
        let output = BufReader::new(process.stdout.take().context("it has no output")?);
        Ok(Peer { process, input, output, calls: 0 })
    }

    fn send(&mut self, line: &str) -> Result<()> {
        self.input.write_all(format!("{line}\n").as_bytes())?;
        Ok(self.input.flush()?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.output.read_line(&mut line)? > 0, "a peer ended early");
        Ok(line.trim_end().to_owned())
    }

    /// What it took by its own clock.
    fn timed(&mut self, what: &str) -> Result<Duration> {
        self.send(what)?;
        Ok(Duration::from_nanos(self.line()?.parse()?))
    }

    /// MCP's first messages.
    fn initialise(&mut self) -> Result<()> {
        let about = json!({ "name": "memory-prefetch-bench", "version": "0" });
        self.request(
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about }),
        )?;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string())
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Result<Value> {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        self.calls += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.calls, "method": method, "params": params }).to_string())?;
        loop {
            let mut answer: Value = serde_json::from_str(&self.line()?)?;
            if answer["id"] == self.calls {
                let result = answer["result"].take();
                ensure!(result.is_object() && result["isError"] != true, "the server answered {answer} {result}");
                return Ok(result);
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
