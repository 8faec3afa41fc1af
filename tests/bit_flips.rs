//! A disk that loses bits (F9, R20): whatever single bit of a store's file or log is another one, a child gets the bytes
//! that were frozen for it, or is told that they are not to be had; never other bytes, and the host never panics.
//!
//! Nothing guards what is not frozen yet: a bit that is lost in a memory's body, in the directory or in a setting gives
//! another body, another directory, another setting, as if somebody had edited it.
//!
//! All bits of the index of deliveries are tried, and some hundred of the other pages that matter, others each time.
//! `MEMORY_PREFETCH_BIT_FLIPS` says how many, or `all`, or which (`file:192507`: all bits of this byte). A failure says which
//! bit it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use memory_prefetch::contract::*;
use memory_prefetch::environment::Clock;
use memory_prefetch::operator::{NewMemory, NewSession, Operator};
use memory_prefetch::{CallError, Prefetch, Runtime, SqliteOptions, SqliteStore};

const NOW: Instant = 1_767_225_600_000;

/// How every notice begins (R36), and no page.
const NOTICE: &str = "[memory-prefetch] No memories were delivered: ";

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::builder().build().unwrap())
}

fn open(path: &Path) -> Result<Prefetch<SqliteStore>, memory_prefetch::store::StoreFailure> {
    let store = SqliteStore::open(path, &SqliteOptions { busy_timeout: Duration::ZERO, create: false })?;
    let mut prefetch = runtime().open(store).unwrap();
    prefetch.set_clock(Clock::Fixed(NOW));
    Ok(prefetch)
}

fn key(id: &str) -> SessionKey {
    SessionKey { harness: "h".into(), id: id.into() }
}

fn ids(ids: &[&str]) -> MemoryField {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    MemoryField::PrefetchIds(NamedIds { ids, mode: Mode::Frozen })
}

/// Offsets and lengths in a file.
type Places = Vec<(usize, usize)>;

/// A store in which everything is stored that can be delivered, and what each of its children rightly gets.
struct Scene {
    file: Vec<u8>,
    log: Vec<u8>,
    /// By child: what is replayed to it.
    replays: BTreeMap<&'static str, Vec<Block>>,
    /// By child and ref: pages.
    pages: BTreeMap<(&'static str, String), Vec<Block>>,
    /// By child: what it gets for a claim with this ref that was answered before, or is answered now.
    claims: BTreeMap<&'static str, (String, String)>,
    /// The pages of the file in which snapshots, hand-overs, deliveries and their indices are.
    places: Places,
    /// Of these the index of deliveries, by which every replay finds them.
    index: Places,
}

const PARENT: &str = "lead";
/// Children with a delivery: of one page, of another, of several pages, of a notice, of two snapshots.
const SERVED: [&str; 5] = ["anna", "bert", "carl", "dora", "emil"];
/// A child whose hand-over waits.
const WAITING: &str = "fred";

fn scene(dir: &Path) -> Scene {
    let path = dir.join("store.db");
    drop(SqliteStore::open(&path, &SqliteOptions::default()).unwrap());
    let mut prefetch = open(&path).unwrap();
    let store = prefetch.store();
    let project = Project { id: "p".into(), workspace: None, memory_on: true, trusted: true, attributes: Vec::new() };
    store.put_project(&project).unwrap();
    for id in [PARENT, WAITING].into_iter().chain(SERVED) {
        let parent = (id != PARENT).then(|| key(PARENT));
        let (agent, project) = (Some("a".into()), Some("p".into()));
        store.put_session(&NewSession { key: key(id), agent, project, parent, memory_on: true }).unwrap();
    }
    for (id, body) in [
        ("1", "The first body.".to_owned()),
        ("2", "The second body.".to_owned()),
        ("3", "A long third body. ".repeat(60)),
        ("4", "Another long one, the fourth. ".repeat(50)),
        ("5", "The fifth body.".to_owned()),
    ] {
        let memory = NewMemory { id: Some(id.into()), category: "fact".into(), ..NewMemory::new("a", "p", body) };
        store.add_memory(&memory, NOW).unwrap();
    }

    let mut claims = BTreeMap::new();
    let mut pages = BTreeMap::new();
    let paged = |bytes| Capacity { overflow: Overflow::Paginate, ..Capacity::bytes(bytes) };
    let mut served = |child: &'static str, occasion: &str, memories: &[&str], capacity: Capacity| {
        let request = Request::new(format!("The task of {child}, {occasion}")).with_memory(ids(memories), capacity);
        let DelegationOutcome::HandedOver(delegated) = prefetch.delegate(&key(PARENT), &request).unwrap() else {
            panic!("it was not handed over")
        };
        let Some(MemoryField::SnapshotRef(name)) = delegated.memory else { panic!("no ref") };
        let count = delegated.receipt.unwrap().pages;
        if child == WAITING {
            return name;
        }
        let answer = prefetch.deliver(&key(child), occasion, &Claim::SnapshotRef(name.clone())).unwrap();
        assert_eq!(answer.outcome, DeliveryOutcome::Delivered);
        let all = (1..=count).map(|number| prefetch.page(&key(child), &name, number).unwrap()).collect();
        pages.insert((child, name.clone()), all);
        claims.insert(child, (name.clone(), answer.block.unwrap().text));
        name
    };
    let large = || Capacity::bytes(100_000);
    let first = served("anna", "start", &["1"], large());
    served("bert", "start", &["2", "5"], large());
    served("carl", "start", &["3", "4", "1"], paged(1_000));
    served("emil", "earlier", &["5"], large());
    served("emil", "start", &["4"], large());
    let waiting = served(WAITING, "start", &["3", "2"], large());
    // Whose task it is, is taken: a notice.
    let answer = prefetch.deliver(&key("dora"), "start", &Claim::SnapshotRef(first.clone())).unwrap();
    assert_eq!(answer.outcome, DeliveryOutcome::Taken);
    claims.insert("dora", (first, answer.block.unwrap().text));

    let replays: BTreeMap<_, _> = SERVED.map(|child| (child, prefetch.replay(&key(child)).unwrap())).into();
    assert_eq!(replays["emil"].len(), 2);
    assert!(replays["dora"][0].text.starts_with(NOTICE));
    drop(prefetch);
    let file = fs::read(&path).unwrap();
    let (places, index) = places(&path);

    // What the waiting child gets, with the commit in the log. On this copy of the file only.
    let mut prefetch = open(&path).unwrap();
    let answer = prefetch.deliver(&key(WAITING), "start", &Claim::SnapshotRef(waiting.clone())).unwrap();
    claims.insert(WAITING, (waiting, answer.block.unwrap().text));
    let log = fs::read(log_of(&path)).unwrap();
    assert!(!log.is_empty(), "what is committed is in the log first");
    drop(prefetch);
    Scene { file, log, replays, pages, claims, places, index }
}

fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Where the used bytes are of the pages of these tables and their indices, and of the index of deliveries.
fn places(path: &Path) -> (Places, Places) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let size: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0)).unwrap();
    let size = usize::try_from(size).unwrap();
    let file = fs::read(path).unwrap();
    // All but the roots of other tables: below the roots are leaves and what overflows from them.
    let others: Vec<usize> = connection
        .prepare(
            "SELECT rootpage FROM sqlite_schema WHERE rootpage > 0
             AND tbl_name NOT IN ('snapshots', 'snapshot_memories', 'pages', 'hand_overs', 'deliveries')",
        )
        .unwrap()
        .query_map([], |row| row.get::<_, i64>(0))
        .unwrap()
        .map(|page| usize::try_from(page.unwrap()).unwrap())
        .collect();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'deliveries_child'";
    let index: i64 = connection.query_row(root, [], |row| row.get(0)).unwrap();
    let index = usize::try_from(index).unwrap();
    let ours = (2..=file.len() / size).filter(|page| !others.contains(page));
    // An empty part of a page is long and zero; what is in it matters to nobody.
    let mut places = Vec::new();
    for page in ours {
        let (start, bytes) = ((page - 1) * size, &file[(page - 1) * size..page * size]);
        let mut from = 0;
        for chunk in bytes.chunks(32) {
            if chunk.iter().any(|byte| *byte != 0) {
                places.push((start + from, chunk.len()));
            }
            from += chunk.len();
        }
    }
    let of_index = places.iter().copied().filter(|(start, _)| start / size + 1 == index).collect();
    (places, of_index)
}

/// A flip to try: in the log or in the file, which byte, which bit.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Flip {
    log: bool,
    byte: usize,
    bit: u8,
}

#[derive(Debug, Default)]
struct Tally {
    right: u32,
    told: u32,
    refused: u32,
    unopened: u32,
}

impl Scene {
    /// Everything that can be read of a store with this bit lost.
    fn flip(&self, dir: &Path, flip: Flip, tally: &mut Tally) -> Result<(), String> {
        let path = dir.join("flipped.db");
        let mut damaged = [self.file.clone(), self.log.clone()];
        damaged[usize::from(flip.log)][flip.byte] ^= 1 << flip.bit;
        let [file, log] = damaged;
        fs::write(&path, file).unwrap();
        // A shared index of an older log would be believed.
        let _ = fs::remove_file(dir.join("flipped.db-shm"));
        if flip.log {
            fs::write(log_of(&path), log).unwrap();
        } else {
            let _ = fs::remove_file(log_of(&path));
        }
        let mut prefetch = match open(&path) {
            Ok(prefetch) => prefetch,
            Err(_) => {
                tally.unopened += 1;
                return Ok(());
            }
        };
        for (child, right) in &self.replays {
            let found = judge(prefetch.replay(&key(child)), tally)?.unwrap_or_default();
            let mut left = right.iter();
            // Some may be lost; none may be another, or stand at another's place.
            if let Some(wrong) = found.iter().find(|block| !left.any(|right| right == *block)) {
                return Err(format!("{child} is replayed {wrong:?}"));
            }
        }
        for ((child, name), right) in &self.pages {
            for (number, right) in (1..).zip(right) {
                let found = judge(prefetch.page(&key(child), name, number), tally)?;
                if let Some(wrong) = found.filter(|found| found != right) {
                    return Err(format!("page {number} of {child} is {wrong:?}"));
                }
            }
        }
        for (child, (name, right)) in &self.claims {
            let Some(answer) = judge(prefetch.deliver(&key(child), "start", &Claim::SnapshotRef(name.clone())), tally)?
            else {
                continue;
            };
            let text = answer.block.map(|block| block.text).unwrap_or_default();
            let told = text.is_empty() || text.starts_with(NOTICE);
            if text != *right && (answer.outcome == DeliveryOutcome::Delivered || !told) {
                return Err(format!("{child} is given {:?}: {text:?}", answer.outcome));
            }
        }
        for (child, (name, _)) in &self.claims {
            judge(prefetch.revalidate(&key(child), name), tally)?;
        }
        Ok(())
    }
}

/// An answer, or `None` where a person, or the child, is told that there is none.
fn judge<T>(answer: Result<T, CallError>, tally: &mut Tally) -> Result<Option<T>, String> {
    match answer {
        Ok(answer) => {
            tally.right += 1;
            Ok(Some(answer))
        }
        Err(CallError::Policy(Error::Corrupt(_))) => {
            tally.told += 1;
            Ok(None)
        }
        Err(CallError::Policy(_) | CallError::Store(_)) => {
            tally.refused += 1;
            Ok(None)
        }
        // The component is the built-in one: whatever the store has, it neither panics nor takes too long, and what it
        // answers is not nonsense.
        Err(other) => Err(format!("{other:?}")),
    }
}

/// How many are tried unless one wishes otherwise.
const SOME: usize = 500;

/// What to try.
fn flips(scene: &Scene) -> Vec<Flip> {
    let wish = std::env::var("MEMORY_PREFETCH_BIT_FLIPS").unwrap_or_default();
    let bytes = scene.places.iter().flat_map(|(start, length)| (*start..start + length).map(|byte| (false, byte)));
    let bytes: Vec<_> = bytes.chain((0..scene.log.len()).step_by(7).map(|byte| (true, byte))).collect();
    let all = |(log, byte)| (0..8).map(move |bit| Flip { log, byte, bit });
    if wish == "all" {
        return bytes.into_iter().flat_map(all).collect();
    }
    if let Some((what, byte)) = wish.split_once(':') {
        return all((what == "log", byte.parse().unwrap())).collect();
    }
    let mut random = vec![0; 12 * wish.parse().unwrap_or(SOME)];
    getrandom::fill(&mut random).unwrap();
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap()) as usize;
    let random = random.chunks(12).map(|random| {
        let (log, byte) = bytes[number(&random[..8]) % bytes.len()];
        Flip { log, byte, bit: random[8] % 8 }
    });
    // A small part of all, in which each bit matters.
    let index = scene.index.iter().flat_map(|(start, length)| (*start..start + length).map(|byte| (false, byte)));
    random.chain(index.flat_map(all)).collect()
}

#[test]
fn no_lost_bit_makes_other_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let scene = scene(dir.path());
    let flips = flips(&scene);
    let mut tally = Tally::default();
    let mut faults = Vec::new();
    for flip in &flips {
        if let Err(why) = scene.flip(dir.path(), *flip, &mut tally) {
            let what = if flip.log { "log" } else { "file" };
            faults.push(format!("{what}:{}:{}: {why}", flip.byte, flip.bit));
        }
    }
    println!("{} flips: {tally:?}", flips.len());
    assert!(faults.is_empty(), "{} of {} flips:\n{}", faults.len(), flips.len(), faults.join("\n"));
    // Damage was found, and what was not damaged was read.
    if flips.len() < SOME {
        return;
    }
    assert!(tally.right > 0 && tally.told > 0 && tally.refused > 0 && tally.unopened > 0, "{tally:?}");
}
