//! The component's imports, answered from a [`Store`]: checks who calls and how much, and passes on. No policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::allowance::Allowance;
use crate::answers::Seen;
use crate::contract::*;
use crate::environment::{Clock, TokenCounter, hex, sha256};
use crate::exports::{Export, Import};
use crate::generated::agent_memory::prefetch as wit;
use crate::limits::{Limits, Stopped};
use crate::overlay;
use crate::store::{Fault, Memories, Rows, Store, StoreFailure};

/// What the imported functions work with.
pub(crate) struct State<S> {
    pub store: S,
    /// Where memories are, if not in `store`.
    pub memories: Option<Box<dyn Memories>>,
    pub clock: Clock,
    pub tokens: Arc<TokenCounter>,
    pub limits: Limits,
    /// Counts up all the time.
    pub ticks: Arc<AtomicU64>,
    /// How many ticks one call may last.
    pub time_limit: u64,
    pub unit: Unit,
}

/// The call that is going on.
pub(crate) struct Unit {
    pub export: Export,
    /// Read once, when it is first asked for.
    pub now: Option<Instant>,
    pub host_calls: u32,
    pub log_lines: u32,
    pub bytes_in: usize,
    /// Of audit entries and of texts to be hashed.
    pub bytes_out: usize,
    /// The ticker's count when it began.
    pub began: u64,
    pub audit: Vec<Entry>,
    /// What its answer may name.
    pub seen: Seen,
    /// R17: memories whose rows go when the unit is kept.
    erase: Vec<String>,
    /// Those of them that were there.
    pub erased: Vec<String>,
}

impl Unit {
    pub fn new(export: Export, began: u64, bytes_in: usize) -> Unit {
        Unit {
            export,
            now: None,
            host_calls: 0,
            log_lines: 0,
            bytes_in,
            bytes_out: 0,
            began,
            audit: Vec::new(),
            seen: Seen::default(),
            erase: Vec::new(),
            erased: Vec::new(),
        }
    }

    /// R17: with this unit the rows of these memories go. The ids as the policy reads them (R2).
    pub fn erase(&mut self, ids: &[String]) {
        self.erase = ids.iter().map(|id| id.strip_prefix('#').unwrap_or(id).to_owned()).collect();
    }
}

impl<S: Store> State<S> {
    /// The time of this unit.
    pub fn now(&mut self) -> Instant {
        *self.unit.now.get_or_insert_with(|| self.clock.now())
    }

    /// R17: what this unit was to erase.
    pub fn erase(&mut self) -> Rows<()> {
        let ids = std::mem::take(&mut self.unit.erase);
        if !ids.is_empty() {
            self.unit.erased = self.memories().erase(&ids)?;
        }
        Ok(())
    }

    /// One import is called: may this export do that, and is it not too often?
    fn enter(&mut self, import: Import) -> wasmtime::Result<()> {
        if import == Import::Log {
            self.unit.log_lines += 1;
        } else {
            self.unit.host_calls += 1;
        }
        if !self.unit.export.allows(import) {
            return Err(Stopped::ForbiddenImport.into());
        }
        let patience = self.unit.export.patience();
        // The epoch ends loops in the component's own code only.
        if self.ticks.load(Ordering::Relaxed).saturating_sub(self.unit.began)
            > self.time_limit.saturating_mul(patience.into())
        {
            return Err(Stopped::OutOfTime.into());
        }
        if self.unit.host_calls.max(self.unit.log_lines) > self.limits.host_calls.saturating_mul(patience) {
            return Err(Stopped::TooManyHostCalls.into());
        }
        Ok(())
    }

    /// So many bytes of the component's are kept, or worked on.
    fn hand_out(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.unit.bytes_out = self.unit.bytes_out.saturating_add(bytes);
        if self.unit.bytes_out > self.limits.bytes_out { Err(Stopped::TooMuch.into()) } else { Ok(()) }
    }

    fn memories(&mut self) -> &mut dyn Memories {
        match &mut self.memories {
            Some(source) => source.as_mut(),
            None => &mut self.store,
        }
    }

    /// Rows of these many bytes go to the component.
    fn hand_in<T>(&mut self, rows: T, bytes: impl Fn(&T) -> usize) -> Result<T, Fault> {
        if self.unit.export == Export::Forget {
            self.unit.bytes_in = 0;
        }
        self.unit.bytes_in = self.unit.bytes_in.saturating_add(bytes(&rows));
        if self.unit.bytes_in > self.limits.bytes_in { Err(self.too_large()) } else { Ok(rows) }
    }

    fn too_large(&self) -> Fault {
        StoreFailure::TooLarge(format!("one call may read {} bytes in all", self.limits.bytes_in)).into()
    }

    /// How many bytes may still go to the component in this call.
    fn left(&self) -> usize {
        self.limits.bytes_in.saturating_sub(self.unit.bytes_in)
    }

    /// So many rows are asked for by name: the store shall not read what could not be handed in.
    fn expect(&self, rows: usize) -> Result<(), Fault> {
        if rows.saturating_mul(ROW) > self.left() { Err(self.too_large()) } else { Ok(()) }
    }

    /// At most so many rows are asked for.
    fn at_most(&self, rows: u32, most: u32) -> Result<(), Fault> {
        if rows <= most {
            return Ok(());
        }
        Err(StoreFailure::TooLarge(format!("{rows} rows: one import reads at most {most}")).into())
    }

    /// How many bytes of bodies the store is to read, if the component asks for `max_bytes`.
    fn readable(&self, max_bytes: u32) -> u32 {
        u32::try_from(self.left()).unwrap_or(u32::MAX).min(max_bytes)
    }

    /// A body that is missing since the store was asked for fewer bytes than the component did is too large.
    fn complete<'a>(&self, max_bytes: u32, mut rows: impl Iterator<Item = &'a Memory>) -> Result<(), Fault> {
        let mut allowance = Allowance::of(max_bytes);
        if rows.any(|row| allowance.admits(row.bytes as usize) && row.body.is_none()) {
            return Err(self.too_large());
        }
        Ok(())
    }
}

/// What a row counts beside its texts, in bytes.
const ROW: usize = 256;

/// The most rows of a search or a list. A sweep takes 1000, and a child's search of hand-overs as many.
const MOST: u32 = 10_000;

/// The most snapshots that are read at once with their pages, each of which may be large.
const MOST_WHOLE: u32 = 64;

/// R4: a row whose names are longer than names are must not spoil the others: it counts as one that cannot be read.
fn is_readable(row: &Memory) -> bool {
    const LONGEST: usize = 4_096;
    let names = [Some(&row.category), Some(&row.version), row.owner.as_ref(), row.project.as_ref()];
    let readable = names.into_iter().flatten().all(|name| name.len() <= LONGEST);
    if !readable {
        log::warn!("a memory is left out, since its category, version, owner or project has over {LONGEST} bytes");
    }
    readable
}

fn memory_bytes(row: &Memory) -> usize {
    ROW + row.body.as_ref().map_or(0, String::len) + row.category.len() + row.version.len() + row.id.len()
}

fn frozen_bytes(row: &Frozen) -> usize {
    let ids: usize = row.snapshot.memory_ids.iter().map(String::len).sum();
    let pages: usize = row.pages.iter().map(|page| page.text.len() + page.state.len()).sum();
    ROW + row.snapshot.state.len() + ids + pages
}

fn hand_over_bytes(row: &HandOver) -> usize {
    ROW + row.task.len() + row.state.len()
}

fn given_bytes(row: &Given) -> usize {
    let notice = row.delivery.notice.as_ref().map_or(0, String::len);
    ROW + row.delivery.state.len() + notice + row.hand_over.as_ref().map_or(0, hand_over_bytes)
}

fn entry_bytes(entry: &Entry) -> usize {
    let lists = [&entry.snapshot_refs, &entry.memory_ids].into_iter().flatten().map(|text| 24 + text.len());
    let attributes = entry.attributes.iter().map(|(name, value)| 48 + name.len() + value.len());
    ROW + entry.action.len() + entry.outcome.len() + lists.sum::<usize>() + attributes.sum::<usize>()
}

fn each<T>(bytes: impl Fn(&T) -> usize) -> impl Fn(&Vec<T>) -> usize {
    move |rows| rows.iter().map(&bytes).sum()
}

impl<S: Store> wit::types::Host for State<S> {
    fn convert_store_error(&mut self, fault: Fault) -> wasmtime::Result<StoreError> {
        match fault {
            Fault::Failure(failure) => Ok(failure.into()),
            Fault::Trap(error) => Err(error),
        }
    }
}

impl<S: Store> wit::memories::Host for State<S> {
    fn get(&mut self, ids: Vec<String>, max_bytes: u32) -> Result<Vec<Option<Memory>>, Fault> {
        self.enter(Import::Read)?;
        self.expect(ids.len())?;
        let readable = self.readable(max_bytes);
        let rows = self.memories().memories(&ids, readable)?;
        let rows: Vec<Option<Memory>> = rows.into_iter().map(|row| row.filter(is_readable)).collect();
        if readable < max_bytes {
            self.complete(max_bytes, rows.iter().flatten())?;
        }
        let rows = self.hand_in(rows, each(|row: &Option<Memory>| row.as_ref().map_or(8, memory_bytes)))?;
        self.unit.seen.got(&rows);
        Ok(rows)
    }

    fn search(
        &mut self,
        filter: SearchFilter,
        query: String,
        limit: u32,
        max_bytes: u32,
    ) -> Result<Vec<Memory>, Fault> {
        self.enter(Import::Read)?;
        self.at_most(limit, MOST)?;
        let readable = self.readable(max_bytes);
        let mut rows = self.memories().search(&filter, &query, limit, readable)?;
        rows.retain(is_readable);
        if readable < max_bytes {
            self.complete(max_bytes, rows.iter())?;
        }
        let rows = self.hand_in(rows, each(memory_bytes))?;
        self.unit.seen.found(&rows);
        Ok(rows)
    }

    fn record_access(&mut self, ids: Vec<String>, at: Instant) -> Result<(), Fault> {
        self.enter(Import::RecordAccess)?;
        Ok(self.memories().record_access(&ids, at)?)
    }
}

impl<S: Store> wit::directory::Host for State<S> {
    fn sessions(&mut self, keys: Vec<SessionKey>) -> Result<Vec<Option<Session>>, Fault> {
        self.enter(Import::Read)?;
        self.expect(keys.len())?;
        Ok(overlay::sessions(&mut self.store, self.memories.as_deref_mut(), &keys)?)
    }

    fn projects(&mut self, ids: Vec<String>) -> Result<Vec<Option<Project>>, Fault> {
        self.enter(Import::Read)?;
        self.expect(ids.len())?;
        Ok(overlay::projects(&mut self.store, self.memories.as_deref_mut(), &ids)?)
    }

    fn workspace_projects(&mut self, workspace: String) -> Result<Vec<Project>, Fault> {
        self.enter(Import::Read)?;
        let rows = overlay::workspace_projects(&mut self.store, self.memories.as_deref_mut(), &workspace)?;
        self.hand_in(rows, each(|row: &Project| 64 + row.id.len()))
    }

    fn links(&mut self, agent: String, others: Vec<String>) -> Result<Vec<Link>, Fault> {
        self.enter(Import::Read)?;
        let rows = self.store.links(&agent, &others)?;
        self.hand_in(rows, each(|row: &Link| 64 + row.from_agent.len() + row.to_agent.len() + row.kind.len()))
    }
}

impl<S: Store> wit::snapshots::Host for State<S> {
    fn insert_snapshot(&mut self, frozen: Frozen) -> Result<(), Fault> {
        self.enter(Import::InsertSnapshot)?;
        self.store.insert_snapshot(&frozen)?;
        self.unit.seen.inserted(&frozen.snapshot);
        Ok(())
    }

    fn get(&mut self, refs: Vec<String>, pages: Selection) -> Result<Vec<Option<Frozen>>, Fault> {
        self.enter(Import::Read)?;
        self.expect(refs.len())?;
        let mut rows = Vec::new();
        // The same ref may stand there a thousand times.
        for some in refs.chunks(MOST_WHOLE as usize) {
            let found = self.store.snapshots(some, pages)?;
            rows.extend(self.hand_in(found, each(|row: &Option<Frozen>| row.as_ref().map_or(8, frozen_bytes)))?);
        }
        rows.iter().flatten().for_each(|row| self.unit.seen.snapshot(&row.snapshot));
        Ok(rows)
    }

    fn revoke(&mut self, refs: Vec<String>, at: Instant) -> Result<(), Fault> {
        self.enter(Import::Revoke)?;
        Ok(self.store.revoke(&refs, at)?)
    }

    fn overwrite(&mut self, frozen: Vec<Frozen>) -> Result<(), Fault> {
        self.enter(Import::Overwrite)?;
        self.store.overwrite(&frozen)?;
        self.unit.seen.overwritten(frozen.len());
        Ok(())
    }

    fn pinned(&mut self, memory_ids: Vec<String>, at: Instant) -> Result<Vec<String>, Fault> {
        self.enter(Import::Read)?;
        Ok(self.store.pinned(&memory_ids, at)?)
    }

    fn holding(&mut self, memory_ids: Vec<String>, limit: u32) -> Result<Vec<Frozen>, Fault> {
        self.enter(Import::Read)?;
        self.at_most(limit, MOST_WHOLE)?;
        let rows = self.store.holding(&memory_ids, limit)?;
        self.hand_in(rows, each(frozen_bytes))
    }

    fn expired(&mut self, at: Instant, limit: u32) -> Result<Vec<Snapshot>, Fault> {
        self.enter(Import::Read)?;
        self.at_most(limit, MOST)?;
        let rows = self.store.expired(at, limit)?;
        self.hand_in(rows, each(|row: &Snapshot| 256 + row.state.len()))
    }

    fn strip(&mut self, refs: Vec<String>, keep_until: Instant) -> Result<(), Fault> {
        self.enter(Import::Remove)?;
        Ok(self.store.strip(&refs, keep_until)?)
    }

    fn remove(&mut self, refs: Vec<String>) -> Result<(), Fault> {
        self.enter(Import::Remove)?;
        Ok(self.store.remove(&refs)?)
    }

    fn insert_hand_over(&mut self, hand_over: HandOver) -> Result<bool, Fault> {
        self.enter(Import::InsertHandOver)?;
        Ok(self.store.insert_hand_over(&hand_over)?)
    }

    fn find_hand_overs(&mut self, filter: OfferFilter, limit: u32) -> Result<Vec<Offer>, Fault> {
        self.enter(Import::Read)?;
        self.at_most(limit, MOST)?;
        let rows = self.store.find_hand_overs(&filter, limit)?;
        let rows = self.hand_in(rows, each(|row: &Offer| hand_over_bytes(&row.hand_over)))?;
        self.unit.seen.offers(&filter, &rows);
        Ok(rows)
    }

    fn insert_delivery(&mut self, delivery: Delivery) -> Result<bool, Fault> {
        self.enter(Import::InsertDelivery)?;
        Ok(self.store.insert_delivery(&delivery)?)
    }

    fn deliveries(&mut self, child: SessionKey) -> Result<Vec<Given>, Fault> {
        self.enter(Import::Read)?;
        let rows = self.store.deliveries(&child)?;
        let rows = self.hand_in(rows, each(given_bytes))?;
        rows.iter().for_each(|row| self.unit.seen.given(row));
        Ok(rows)
    }

    fn replay(
        &mut self,
        child: SessionKey,
        snapshot_ref: Option<String>,
        page: u32,
        at: Instant,
    ) -> Result<Vec<StoredPage>, Fault> {
        self.enter(Import::Read)?;
        let rows = self.store.replay(&child, snapshot_ref.as_deref(), page, at)?;
        let rows = self.hand_in(rows, each(|row: &StoredPage| 128 + row.text.len()))?;
        rows.iter().for_each(|row| self.unit.seen.page(row));
        Ok(rows)
    }

    fn end_deliveries(&mut self, child: SessionKey, at: Instant) -> Result<(), Fault> {
        self.enter(Import::EndDeliveries)?;
        Ok(self.store.end_deliveries(&child, at)?)
    }

    fn remove_unattached(&mut self, at: Instant, limit: u32) -> Result<u32, Fault> {
        self.enter(Import::Remove)?;
        Ok(self.store.remove_unattached(at, limit)?)
    }
}

impl<S: Store> wit::environment::Host for State<S> {
    fn now(&mut self) -> wasmtime::Result<Instant> {
        self.enter(Import::Environment)?;
        Ok(self.now())
    }

    fn random_hex(&mut self, bytes: u32) -> wasmtime::Result<String> {
        const MAX: usize = 64;
        self.enter(Import::Environment)?;
        let mut random = [0u8; MAX];
        let random = usize::try_from(bytes).ok().and_then(|bytes| random.get_mut(..bytes));
        let random = random.ok_or(Stopped::BadArgument)?;
        getrandom::fill(random).map_err(|error| wasmtime::Error::msg(format!("no randomness: {error}")))?;
        Ok(hex(random))
    }

    fn sha256(&mut self, texts: Vec<String>) -> wasmtime::Result<Vec<String>> {
        self.enter(Import::Environment)?;
        self.hand_out(texts.iter().map(String::len).sum())?;
        Ok(texts.iter().map(|text| sha256(text.as_bytes())).collect())
    }

    fn count_tokens(&mut self, model: String, texts: Vec<String>) -> wasmtime::Result<Option<Vec<u32>>> {
        self.enter(Import::Environment)?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        Ok((self.tokens)(&model, &texts))
    }

    fn settings(&mut self, project: Option<String>, names: Vec<String>) -> wasmtime::Result<Vec<Option<String>>> {
        self.enter(Import::Settings)?;
        let rows: Rows<_> = self.store.settings(project.as_deref(), &names);
        Ok(rows.unwrap_or_else(|failure| {
            // The contract's `settings` cannot fail; what holds where nothing is set is safe.
            log::warn!("settings could not be read: {failure}");
            vec![None; names.len()]
        }))
    }

    fn log(&mut self, level: Level, line: String) -> wasmtime::Result<()> {
        self.enter(Import::Log)?;
        let level = match level {
            Level::Debug => log::Level::Debug,
            Level::Info => log::Level::Info,
            Level::Warn => log::Level::Warn,
            Level::Error => log::Level::Error,
        };
        log::log!(target: "memory_prefetch::component", level, "{}", line.escape_debug());
        Ok(())
    }
}

impl<S: Store> wit::audit::Host for State<S> {
    fn append(&mut self, entries: Vec<Entry>) -> wasmtime::Result<()> {
        self.enter(Import::AppendAudit)?;
        self.hand_out(entries.iter().map(entry_bytes).sum())?;
        self.unit.audit.extend(entries);
        Ok(())
    }
}
