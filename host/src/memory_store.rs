//! [`MemoryStore`]: everything in plain collections, lost with the store. It is the shortest complete answer to "what
//! must a harness implement", and the second store that the store suite runs against.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::allowance::Allowance;
use crate::contract::*;
use crate::operator::{AuditFilter, Listed, MemoryEdit, NewMemory, NewSession, Operator};
use crate::search::{Query, admits};
use crate::store::{Access, AuditRow, Memories, Rows, Store, StoreFailure};

/// A store without a file. One process, one thread, and nothing is kept.
#[derive(Debug, Default)]
pub struct MemoryStore {
    now: State,
    /// Whether somebody else writes, for `conformance`.
    locked: Arc<AtomicBool>,
    /// What access the open unit of work has, and what the state was before it.
    unit: Option<(Access, State)>,
}

/// Somebody else's long write.
#[derive(Debug)]
pub struct Lock(Arc<AtomicBool>);

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[derive(Debug, Default, Clone)]
struct State {
    agents: BTreeSet<String>,
    projects: BTreeMap<String, Project>,
    sessions: BTreeMap<Key, NewSession>,
    /// From an alias to the canonical key.
    aliases: BTreeMap<Key, SessionKey>,
    links: Vec<Link>,
    /// With their bodies, oldest first.
    memories: Vec<Memory>,
    /// How often memories were used by their owners, and when last.
    uses: BTreeMap<String, (u32, Instant)>,
    /// Every id that was ever a memory's (R2).
    used_ids: BTreeSet<String>,
    snapshots: Vec<Frozen>,
    hand_overs: Vec<HandOver>,
    deliveries: Vec<Delivery>,
    settings: BTreeMap<(Option<String>, String), String>,
    audit: Vec<AuditRow>,
}

/// A session key that can be looked up.
type Key = (String, String);

fn key(of: &SessionKey) -> Key {
    (of.harness.clone(), of.id.clone())
}

impl State {
    /// R24: the canonical key of a session.
    fn canonical(&self, of: &SessionKey) -> SessionKey {
        self.aliases.get(&key(of)).unwrap_or(of).clone()
    }

    fn session(&self, row: &NewSession) -> Session {
        Session {
            key: row.key.clone(),
            memory_on: row.memory_on,
            agent: row.agent.clone(),
            project: row.project.as_ref().and_then(|id| self.projects.get(id)).cloned(),
            parent: row.parent.as_ref().map(|parent| self.canonical(parent)),
            attributes: Vec::new(),
        }
    }

    /// How often a memory was used, and when last.
    fn uses(&self, id: &str) -> (u32, Option<Instant>) {
        self.uses.get(id).map_or((0, None), |(uses, at)| (*uses, Some(*at)))
    }

    fn snapshot(&mut self, snapshot_ref: &str) -> Option<&mut Frozen> {
        self.snapshots.iter_mut().find(|frozen| frozen.snapshot.snapshot_ref == snapshot_ref)
    }

    /// Those of these snapshots that are there.
    fn snapshots_in<'a>(&'a mut self, refs: &'a [String]) -> impl Iterator<Item = &'a mut Frozen> {
        self.snapshots.iter_mut().filter(|frozen| refs.contains(&frozen.snapshot.snapshot_ref))
    }

    fn hand_over(&mut self, id: &str) -> Option<&mut HandOver> {
        self.hand_overs.iter_mut().find(|row| row.id == id)
    }

    fn offer(&self, row: &HandOver, with_task: bool) -> Offer {
        let deliveries = || self.deliveries.iter().filter(|delivery| delivery.hand_over.as_deref() == Some(&row.id));
        let children: BTreeSet<Key> = deliveries().map(|delivery| key(&delivery.child)).collect();
        Offer {
            hand_over: if with_task { row.clone() } else { without_task(row) },
            taken: children.len() as u32,
            next_place: deliveries().count() as u32,
        }
    }

    /// Refuse a row that names a snapshot or a hand-over which is not there.
    fn check_references(&mut self, snapshot_ref: Option<&str>, hand_over: Option<&str>) -> Rows<()> {
        let snapshot = snapshot_ref.is_none_or(|name| self.snapshot(name).is_some());
        if snapshot && hand_over.is_none_or(|id| self.hand_over(id).is_some()) {
            return Ok(());
        }
        Err(StoreFailure::Damaged("a row names another that is not there".into()))
    }

    /// Delete what hangs on snapshots and hand-overs that are gone.
    fn cascade(&mut self) {
        let State { snapshots, hand_overs, deliveries, .. } = self;
        let there = |name: &Option<String>| {
            name.as_ref().is_none_or(|name| snapshots.iter().any(|frozen| frozen.snapshot.snapshot_ref == *name))
        };
        hand_overs.retain(|row| there(&row.snapshot_ref));
        deliveries.retain(|row| {
            there(&row.snapshot_ref)
                && row.hand_over.as_ref().is_none_or(|id| hand_overs.iter().any(|hand_over| hand_over.id == *id))
        });
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// For `conformance`: a memory as it is held, with how often it was used and when last.
    pub(crate) fn memory_row(&self, id: &str) -> Option<serde_json::Value> {
        let row = self.now.memories.iter().find(|row| row.id == id)?;
        let (uses, used_at) = self.now.uses(id);
        Some(serde_json::json!({ "row": row, "uses": uses, "used-at": used_at }))
    }

    /// For `conformance`: as if another process were writing, until the answer is dropped.
    pub(crate) fn lock(&mut self) -> Lock {
        self.locked.store(true, Ordering::Relaxed);
        Lock(self.locked.clone())
    }

    /// For `conformance`: change a stored page behind its checksum's back.
    pub(crate) fn damage_page(&mut self, snapshot_ref: &str, number: u32) -> bool {
        let frozen = self.now.snapshot(snapshot_ref);
        let page = frozen.and_then(|frozen| frozen.pages.iter_mut().find(|page| page.number == number));
        page.map(|page| page.text.push('.')).is_some()
    }

    /// The state, to be changed by a storage function.
    fn change(&mut self) -> Rows<&mut State> {
        match self.unit {
            Some((access, _)) if access.writes() => Ok(&mut self.now),
            _ => Err(StoreFailure::Other("this writes, and no unit of work that writes is open".into())),
        }
    }
}

fn without_task(row: &HandOver) -> HandOver {
    HandOver { task: String::new(), ..row.clone() }
}

fn with_body(row: &Memory, allowance: &mut Allowance) -> Memory {
    let mut row = row.clone();
    if !allowance.admits(row.bytes as usize) {
        row.body = None;
    }
    row
}

impl Memories for MemoryStore {
    fn memories(&mut self, ids: &[String], max_bytes: u32) -> Rows<Vec<Option<Memory>>> {
        let mut allowance = Allowance::of(max_bytes);
        let find = |id: &String| self.now.memories.iter().find(|row| row.id == *id);
        Ok(ids.iter().map(|id| find(id).map(|row| with_body(row, &mut allowance))).collect())
    }

    fn search(&mut self, filter: &SearchFilter, query: &str, limit: u32, max_bytes: u32) -> Rows<Vec<Memory>> {
        let query = Query::parse(query);
        let mut allowance = Allowance::of(max_bytes);
        let admitted = self.now.memories.iter().rev().filter(|row| admits(filter, row));
        let scored = admitted.map(|row| (query.score(row.body.as_deref().unwrap_or_default()), row));
        let mut found: Vec<(u32, &Memory)> = scored.filter(|(score, _)| *score > 0).collect();
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        Ok(found.into_iter().take(limit as usize).map(|(_, row)| with_body(row, &mut allowance)).collect())
    }

    fn erase(&mut self, ids: &[String]) -> Rows<Vec<String>> {
        let state = self.change()?;
        let there = state.memories.iter().filter(|row| ids.contains(&row.id)).map(|row| row.id.clone()).collect();
        state.memories.retain(|row| !ids.contains(&row.id));
        state.uses.retain(|id, _| !ids.contains(id));
        Ok(there)
    }

    fn record_access(&mut self, ids: &[String], at: Instant) -> Rows<()> {
        let uses = &mut self.change()?.uses;
        for id in ids {
            let (count, last) = uses.entry(id.clone()).or_default();
            *count += 1;
            *last = at.max(*last);
        }
        Ok(())
    }
}

impl Store for MemoryStore {
    fn begin_unit(&mut self, access: Access) -> Rows<()> {
        if self.unit.is_some() {
            return Err(StoreFailure::Other("a unit of work is open already".into()));
        }
        if access.writes() && self.locked.load(Ordering::Relaxed) {
            return Err(StoreFailure::Busy("somebody else is writing".into()));
        }
        let before = if access.writes() { self.now.clone() } else { State::default() };
        self.unit = Some((access, before));
        Ok(())
    }

    fn commit(&mut self) -> Rows<()> {
        match self.unit.take() {
            Some(_) => Ok(()),
            None => Err(StoreFailure::Other("no unit of work is open".into())),
        }
    }

    fn roll_back(&mut self) {
        if let Some((access, before)) = self.unit.take()
            && access.writes()
        {
            self.now = before;
        }
    }

    fn sessions(&mut self, keys: &[SessionKey]) -> Rows<Vec<Option<Session>>> {
        let find = |asked| self.now.sessions.get(&key(&self.now.canonical(asked)));
        Ok(keys.iter().map(|asked| find(asked).map(|row| self.now.session(row))).collect())
    }

    fn projects(&mut self, ids: &[String]) -> Rows<Vec<Option<Project>>> {
        Ok(ids.iter().map(|id| self.now.projects.get(id).cloned()).collect())
    }

    fn workspace_projects(&mut self, workspace: &str) -> Rows<Vec<Project>> {
        let inside = |project: &&Project| project.workspace.as_deref() == Some(workspace);
        Ok(self.now.projects.values().filter(inside).cloned().collect())
    }

    fn links(&mut self, agent: &str, others: &[String]) -> Rows<Vec<Link>> {
        let between = |link: &&Link| {
            (link.from_agent == agent && others.contains(&link.to_agent))
                || (link.to_agent == agent && others.contains(&link.from_agent))
        };
        Ok(self.now.links.iter().filter(between).cloned().collect())
    }

    fn insert_snapshot(&mut self, frozen: &Frozen) -> Rows<()> {
        let state = self.change()?;
        let name = &frozen.snapshot.snapshot_ref;
        if state.snapshot(name).is_some() {
            return Err(StoreFailure::Damaged(format!("there is a snapshot {name} already")));
        }
        if frozen.pages.len() != frozen.snapshot.pages as usize {
            return Err(StoreFailure::Damaged(format!("{name} has another number of pages than it says")));
        }
        let mut frozen = frozen.clone();
        frozen.snapshot.owner = state.canonical(&frozen.snapshot.owner);
        frozen.pages.sort_by_key(|page| page.number);
        state.snapshots.push(frozen);
        Ok(())
    }

    fn snapshots(&mut self, refs: &[String], pages: Selection) -> Rows<Vec<Option<Frozen>>> {
        let select = |frozen: &Frozen| {
            let mut frozen = frozen.clone();
            frozen.pages.retain(|page| match pages {
                Selection::None => false,
                Selection::One(number) => page.number == number,
                Selection::All => true,
            });
            frozen
        };
        let find = |name: &String| self.now.snapshots.iter().find(|frozen| frozen.snapshot.snapshot_ref == *name);
        Ok(refs.iter().map(|name| find(name).map(select)).collect())
    }

    fn revoke(&mut self, refs: &[String], at: Instant) -> Rows<()> {
        for frozen in self.change()?.snapshots_in(refs) {
            if frozen.snapshot.revoked_at.is_none() {
                frozen.snapshot.revoked_at = Some(at);
                if frozen.snapshot.pages > 0 {
                    frozen.snapshot.keep_until = frozen.snapshot.keep_until.min(at);
                }
            }
        }
        Ok(())
    }

    fn overwrite(&mut self, frozen: &[Frozen]) -> Rows<()> {
        let state = self.change()?;
        for new in frozen {
            let Some(old) = state.snapshot(&new.snapshot.snapshot_ref) else { continue };
            old.snapshot.memory_ids.clone_from(&new.snapshot.memory_ids);
            old.snapshot.state.clone_from(&new.snapshot.state);
            for page in &new.pages {
                if let Some(old) = old.pages.iter_mut().find(|old| old.number == page.number) {
                    old.clone_from(page);
                }
            }
        }
        Ok(())
    }

    fn pinned(&mut self, memory_ids: &[String], at: Instant) -> Rows<Vec<String>> {
        let living = |snapshot: &&Snapshot| snapshot.revoked_at.is_none() && snapshot.keep_until > at;
        let pinned: Vec<&Snapshot> = self.now.snapshots.iter().map(|frozen| &frozen.snapshot).filter(living).collect();
        let holds = |id: &&String| pinned.iter().any(|snapshot| snapshot.memory_ids.contains(id));
        Ok(memory_ids.iter().filter(holds).cloned().collect())
    }

    fn holding(&mut self, memory_ids: &[String], limit: u32) -> Rows<Vec<Frozen>> {
        let holds = |frozen: &&Frozen| frozen.snapshot.memory_ids.iter().any(|id| memory_ids.contains(id));
        Ok(self.now.snapshots.iter().filter(holds).take(limit as usize).cloned().collect())
    }

    fn expired(&mut self, at: Instant, limit: u32) -> Rows<Vec<Snapshot>> {
        let rows = self.now.snapshots.iter().map(|frozen| &frozen.snapshot);
        let mut expired: Vec<Snapshot> = rows.filter(|row| row.keep_until <= at).cloned().collect();
        expired.sort_by_key(|row| row.keep_until);
        expired.truncate(limit as usize);
        Ok(expired)
    }

    fn strip(&mut self, refs: &[String], keep_until: Instant) -> Rows<()> {
        for frozen in self.change()?.snapshots_in(refs) {
            frozen.pages.clear();
            frozen.snapshot.pages = 0;
            frozen.snapshot.state.clear();
            frozen.snapshot.memory_ids.clear();
            frozen.snapshot.keep_until = keep_until;
        }
        Ok(())
    }

    fn remove(&mut self, refs: &[String]) -> Rows<()> {
        let state = self.change()?;
        state.snapshots.retain(|frozen| !refs.contains(&frozen.snapshot.snapshot_ref));
        state.cascade();
        Ok(())
    }

    fn insert_hand_over(&mut self, hand_over: &HandOver) -> Rows<bool> {
        let state = self.change()?;
        let parent = state.canonical(&hand_over.parent);
        let same_call = |row: &HandOver| row.parent == parent && row.call_id == hand_over.call_id;
        if hand_over.call_id.is_some() && state.hand_overs.iter().any(same_call) {
            return Ok(false);
        }
        if state.hand_over(&hand_over.id).is_some() {
            return Err(StoreFailure::Damaged(format!("there is a hand-over {} already", hand_over.id)));
        }
        state.check_references(hand_over.snapshot_ref.as_deref(), None)?;
        state.hand_overs.push(HandOver { parent, ..hand_over.clone() });
        Ok(true)
    }

    fn find_hand_overs(&mut self, filter: &OfferFilter, limit: u32) -> Rows<Vec<Offer>> {
        let OfferFilter {
            parent,
            call_id,
            snapshot_ref,
            ids_key,
            task_digest,
            within,
            agent_type,
            open_only,
            with_task,
        } = filter;
        let state = &self.now;
        let parent = state.canonical(parent);
        let matches = |row: &HandOver| {
            row.parent == parent
                && (call_id.is_none() || row.call_id == *call_id)
                && (snapshot_ref.is_none() || row.snapshot_ref == *snapshot_ref)
                && (ids_key.is_none() || row.ids_key == *ids_key)
                && task_digest.as_ref().is_none_or(|digest| *digest == row.task_digest)
                && within.as_ref().is_none_or(|text| text.contains(&row.task_head))
                && (agent_type.is_none() || row.agent_type.is_none() || row.agent_type == *agent_type)
        };
        let mut offers: Vec<Offer> = state
            .hand_overs
            .iter()
            .rev()
            .filter(|row| matches(row))
            .map(|row| state.offer(row, *with_task))
            .filter(|offer| !open_only || offer.taken < offer.hand_over.children)
            .take(limit as usize)
            .collect();
        offers.reverse();
        Ok(offers)
    }

    fn insert_delivery(&mut self, delivery: &Delivery) -> Rows<bool> {
        let state = self.change()?;
        let row = Delivery { child: state.canonical(&delivery.child), ..delivery.clone() };
        let taken = |old: &Delivery| {
            let same_place = row.hand_over.is_some() && old.hand_over == row.hand_over && old.place == row.place;
            same_place || (old.child == row.child && old.occasion == row.occasion)
        };
        if state.deliveries.iter().any(taken) {
            return Ok(false);
        }
        state.check_references(row.snapshot_ref.as_deref(), row.hand_over.as_deref())?;
        if let Some(frozen) = row.snapshot_ref.as_deref().and_then(|name| state.snapshot(name)) {
            frozen.snapshot.keep_until = frozen.snapshot.keep_until.max(row.keep_until);
        }
        if let Some(hand_over) = row.hand_over.as_deref().and_then(|id| state.hand_over(id)) {
            hand_over.keep_until = hand_over.keep_until.max(row.keep_until);
        }
        state.deliveries.push(row);
        Ok(true)
    }

    fn deliveries(&mut self, child: &SessionKey) -> Rows<Vec<Given>> {
        let child = self.now.canonical(child);
        let hand_over = |row: &Delivery| self.now.hand_overs.iter().find(|of| Some(&of.id) == row.hand_over.as_ref());
        let given = |row: &Delivery| Given { delivery: row.clone(), hand_over: hand_over(row).map(without_task) };
        Ok(self.now.deliveries.iter().filter(|row| row.child == child).map(given).collect())
    }

    fn replay(
        &mut self,
        child: &SessionKey,
        snapshot_ref: Option<&str>,
        page: u32,
        at: Instant,
    ) -> Rows<Vec<StoredPage>> {
        let state = &self.now;
        let child = state.canonical(child);
        let text = |row: &Delivery| {
            if let Some(notice) = &row.notice {
                let check = row.check.clone().unwrap_or_default();
                let notice = StoredPage { snapshot_ref: None, revoked_at: None, pages: 1, check, text: notice.clone() };
                return (page == 1 && snapshot_ref.is_none()).then_some(notice);
            }
            let name = row.snapshot_ref.as_ref()?;
            let Frozen { snapshot, pages } =
                state.snapshots.iter().find(|frozen| frozen.snapshot.snapshot_ref == *name)?;
            let stored = pages.iter().find(|stored| stored.number == page)?;
            (snapshot_ref.is_none_or(|asked| asked == name)).then(|| StoredPage {
                snapshot_ref: Some(name.clone()),
                revoked_at: snapshot.revoked_at,
                pages: snapshot.pages,
                check: stored.check.clone(),
                text: stored.text.clone(),
            })
        };
        let texts = state.deliveries.iter().filter(|row| row.child == child && row.keep_until > at).filter_map(text);
        Ok(texts.take(if snapshot_ref.is_some() { 1 } else { usize::MAX }).collect())
    }

    fn end_deliveries(&mut self, child: &SessionKey, at: Instant) -> Rows<()> {
        let state = self.change()?;
        let child = state.canonical(child);
        for row in state.deliveries.iter_mut().filter(|row| row.child == child) {
            row.keep_until = row.keep_until.min(at);
        }
        let State { snapshots, hand_overs, deliveries, .. } = state;
        // The latest of its own end and of every delivery's, for what this child has a delivery of.
        let latest = |of: &dyn Fn(&Delivery) -> bool, expires_at: Instant| {
            deliveries.iter().any(|row| of(row) && row.child == child).then(|| {
                let kept = deliveries.iter().filter(|row| of(row)).map(|row| row.keep_until);
                kept.fold(expires_at, Instant::max)
            })
        };
        for Frozen { snapshot, .. } in snapshots.iter_mut().filter(|frozen| frozen.snapshot.pages > 0) {
            let of = |row: &Delivery| row.snapshot_ref.as_ref() == Some(&snapshot.snapshot_ref);
            if let Some(latest) = latest(&of, snapshot.expires_at) {
                snapshot.keep_until = snapshot.keep_until.min(latest);
            }
        }
        for hand_over in hand_overs {
            let of = |row: &Delivery| row.hand_over.as_ref() == Some(&hand_over.id);
            if let Some(latest) = latest(&of, hand_over.expires_at) {
                hand_over.keep_until = hand_over.keep_until.min(latest);
            }
        }
        Ok(())
    }

    fn remove_unattached(&mut self, at: Instant, limit: u32) -> Rows<u32> {
        let state = self.change()?;
        let oldest = |mut over: Vec<(Instant, usize)>| {
            over.sort_unstable();
            over.truncate(limit as usize);
            over.into_iter().map(|(_, index)| index).collect::<BTreeSet<usize>>()
        };
        let rows = state.hand_overs.iter().enumerate();
        let over = rows.filter(|(_, row)| row.snapshot_ref.is_none() && row.keep_until <= at);
        let hand_overs = oldest(over.map(|(index, row)| (row.keep_until, index)).collect());
        let rows = state.deliveries.iter().enumerate();
        let over =
            rows.filter(|(_, row)| row.snapshot_ref.is_none() && row.hand_over.is_none() && row.keep_until <= at);
        let deliveries = oldest(over.map(|(index, row)| (row.keep_until, index)).collect());
        retain_others(&mut state.hand_overs, &hand_overs);
        retain_others(&mut state.deliveries, &deliveries);
        state.cascade();
        Ok((hand_overs.len() + deliveries.len()) as u32)
    }

    fn settings(&mut self, project: Option<&str>, names: &[String]) -> Rows<Vec<Option<String>>> {
        let value = |project: Option<&str>, name: &String| {
            self.now.settings.get(&(project.map(str::to_owned), name.clone())).cloned()
        };
        let own = |name| project.and_then(|project| value(Some(project), name));
        Ok(names.iter().map(|name| own(name).or_else(|| value(None, name))).collect())
    }

    fn append_audit(&mut self, rows: &[AuditRow]) -> Rows<()> {
        let own = self.unit.is_none();
        if own && self.locked.load(Ordering::Relaxed) {
            return Err(StoreFailure::Busy("somebody else is writing".into()));
        }
        let state = if own { &mut self.now } else { self.change()? };
        for row in rows {
            let session = row.session.as_ref().map(|key| state.canonical(key));
            state.audit.push(AuditRow { session, ..row.clone() });
        }
        Ok(())
    }
}

fn retain_others<T>(rows: &mut Vec<T>, but: &BTreeSet<usize>) {
    let mut index = 0;
    rows.retain(|_| {
        index += 1;
        !but.contains(&(index - 1))
    });
}

/// A part of a list.
fn part<T>(rows: impl Iterator<Item = T>, offset: u32, limit: u32) -> Vec<T> {
    rows.skip(offset as usize).take(limit as usize).collect()
}

fn other<T>(why: &str) -> Rows<T> {
    Err(StoreFailure::Other(why.into()))
}

impl Operator for MemoryStore {
    fn add_agent(&mut self, agent: &str) -> Rows<bool> {
        Ok(self.now.agents.insert(agent.to_owned()))
    }

    fn agents(&mut self) -> Rows<Vec<String>> {
        Ok(self.now.agents.iter().cloned().collect())
    }

    fn remove_agent(&mut self, agent: &str) -> Rows<bool> {
        self.now.links.retain(|link| link.from_agent != agent && link.to_agent != agent);
        for session in self.now.sessions.values_mut() {
            session.agent.take_if(|own| own == agent);
        }
        Ok(self.now.agents.remove(agent))
    }

    fn put_project(&mut self, project: &Project) -> Rows<()> {
        self.now.projects.insert(project.id.clone(), project.clone());
        Ok(())
    }

    fn all_projects(&mut self) -> Rows<Vec<Project>> {
        Ok(self.now.projects.values().cloned().collect())
    }

    fn remove_project(&mut self, id: &str) -> Rows<bool> {
        Ok(self.now.projects.remove(id).is_some())
    }

    fn put_session(&mut self, session: &NewSession) -> Rows<()> {
        if self.now.aliases.contains_key(&key(&session.key)) {
            return other("this key is an alias of another session");
        }
        let mut row = session.clone();
        row.agent.take_if(|agent| agent.is_empty());
        self.now.sessions.insert(key(&session.key), row);
        Ok(())
    }

    fn add_alias(&mut self, alias: &SessionKey, canonical: &SessionKey) -> Rows<bool> {
        let canonical = self.now.canonical(canonical);
        if !self.now.sessions.contains_key(&key(&canonical)) {
            return Ok(false);
        }
        if self.now.sessions.contains_key(&key(alias)) {
            return other("this key is a session of its own already");
        }
        match self.now.aliases.insert(key(alias), canonical.clone()) {
            Some(old) if old != canonical => {
                self.now.aliases.insert(key(alias), old);
                other("this key is an alias of another session")
            }
            _ => Ok(true),
        }
    }

    fn all_sessions(&mut self) -> Rows<Vec<Session>> {
        Ok(self.now.sessions.values().map(|row| self.now.session(row)).collect())
    }

    fn remove_session(&mut self, of: &SessionKey) -> Rows<bool> {
        let canonical = self.now.canonical(of);
        self.now.aliases.retain(|_, of| *of != canonical);
        Ok(self.now.sessions.remove(&key(&canonical)).is_some())
    }

    fn add_link(&mut self, link: &Link) -> Rows<()> {
        self.now.links.push(link.clone());
        Ok(())
    }

    fn all_links(&mut self) -> Rows<Vec<Link>> {
        Ok(self.now.links.clone())
    }

    fn remove_links(&mut self, from_agent: &str, to_agent: &str) -> Rows<u32> {
        let before = self.now.links.len();
        self.now.links.retain(|link| link.from_agent != from_agent || link.to_agent != to_agent);
        Ok((before - self.now.links.len()) as u32)
    }

    fn add_memory(&mut self, memory: &NewMemory, at: Instant) -> Rows<String> {
        let used = &mut self.now.used_ids;
        let free = || (used.len() + 1..).map(|number| number.to_string()).find(|id| !used.contains(id));
        let Some(id) = memory.id.clone().or_else(free) else { return other("no id is left") };
        if !used.insert(id.clone()) {
            return other("this id is a memory's, or was one's");
        }
        self.now.memories.push(Memory {
            id: id.clone(),
            owner: memory.owner.clone().filter(|owner| !owner.is_empty()),
            project: memory.project.clone().filter(|project| !project.is_empty()),
            audience: memory.audience,
            active: true,
            expires_at: memory.expires_at,
            trusted: memory.trusted,
            category: memory.category.clone(),
            priority: memory.priority,
            version: "1".into(),
            updated_at: Some(at),
            bytes: memory.body.len() as u32,
            body: Some(memory.body.clone()),
            attributes: Vec::new(),
        });
        Ok(id)
    }

    fn edit_memory(&mut self, id: &str, edit: &MemoryEdit, at: Instant) -> Rows<bool> {
        let Some(row) = self.now.memories.iter_mut().find(|row| row.id == id) else { return Ok(false) };
        if let Some(body) = &edit.body {
            let version: u64 = row.version.parse().unwrap_or_default();
            row.version = (version + 1).to_string();
            row.updated_at = Some(at);
            row.bytes = body.len() as u32;
            row.body = Some(body.clone());
        }
        row.category = edit.category.clone().unwrap_or_else(|| row.category.clone());
        row.audience = edit.audience.unwrap_or(row.audience);
        row.priority = edit.priority.unwrap_or(row.priority);
        row.trusted = edit.trusted.unwrap_or(row.trusted);
        row.expires_at = edit.expires_at.unwrap_or(row.expires_at);
        Ok(true)
    }

    fn archive_memory(&mut self, id: &str, archived: bool) -> Rows<bool> {
        let Some(row) = self.now.memories.iter_mut().find(|row| row.id == id) else { return Ok(false) };
        row.active = !archived;
        Ok(true)
    }

    fn all_memories(&mut self, offset: u32, limit: u32) -> Rows<Vec<Memory>> {
        Ok(part(self.now.memories.iter().cloned(), offset, limit))
    }

    fn memory_use(&mut self, id: &str) -> Rows<Option<(u32, Option<Instant>)>> {
        let there = self.now.memories.iter().any(|row| row.id == id);
        Ok(there.then(|| self.now.uses(id)))
    }

    fn all_snapshots(&mut self, offset: u32, limit: u32) -> Rows<Vec<Listed>> {
        let listed = |frozen: &Frozen| {
            let of = |row: &&Delivery| row.snapshot_ref.as_ref() == Some(&frozen.snapshot.snapshot_ref);
            let deliveries = self.now.deliveries.iter().filter(of).count() as u32;
            Listed { snapshot: frozen.snapshot.clone(), deliveries }
        };
        Ok(part(self.now.snapshots.iter().rev().map(listed), offset, limit))
    }

    fn put_setting(&mut self, project: Option<&str>, name: &str, value: Option<&str>) -> Rows<()> {
        let place = (project.map(str::to_owned), name.to_owned());
        match value {
            Some(value) => self.now.settings.insert(place, value.to_owned()),
            None => self.now.settings.remove(&place),
        };
        Ok(())
    }

    fn all_settings(&mut self) -> Rows<Vec<(Option<String>, String, String)>> {
        let row = |((project, name), value): (&(Option<String>, String), &String)| {
            (project.clone(), name.clone(), value.clone())
        };
        Ok(self.now.settings.iter().map(row).collect())
    }

    fn all_audit(&mut self, filter: &AuditFilter, limit: u32) -> Rows<Vec<AuditRow>> {
        let session = filter.session.as_ref().map(|key| self.now.canonical(key));
        let admitted = |row: &&AuditRow| {
            (session.is_none() || row.session == session) && filter.since.is_none_or(|since| row.at >= since)
        };
        Ok(part(self.now.audit.iter().rev().filter(admitted).cloned(), 0, limit))
    }
}
