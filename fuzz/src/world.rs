//! A host without a sandbox: rows in lists, time and randomness as the test wants them. It does what `wit/` says of each
//! import, and nothing fast.

use std::collections::BTreeSet;

use memory_prefetch_component::Imports;
use memory_prefetch_component::contract::*;
use sha2::{Digest, Sha256};

type Rows<T> = Result<T, StoreError>;

/// How a text's tokens are counted.
pub type Counter = fn(&str) -> u32;

/// All rows of a store, and what else a host has.
#[derive(Default)]
pub struct World {
    /// With their bodies.
    pub memories: Vec<Memory>,
    /// By their canonical keys.
    pub sessions: Vec<Session>,
    /// All projects.
    pub projects: Vec<Project>,
    /// All links.
    pub links: Vec<Link>,
    /// Project, name, value.
    pub settings: Vec<(Option<String>, String, String)>,
    /// Snapshots with their pages.
    pub snapshots: Vec<Frozen>,
    /// In the order in which they were inserted.
    pub hand_overs: Vec<HandOver>,
    /// In the order in which they were inserted.
    pub deliveries: Vec<Delivery>,
    /// The time.
    pub now: Instant,
    /// Tokens of a text, for every model.
    pub counter: Option<Counter>,
    /// "Random" numbers, the last one first. Where there are none, they are counted.
    pub random: Vec<u64>,
    /// How many were given out beside these.
    pub counted: u64,
}

impl World {
    fn snapshot(&mut self, name: &str) -> Option<&mut Frozen> {
        self.snapshots.iter_mut().find(|frozen| frozen.snapshot.snapshot_ref == name)
    }

    fn offer(&self, row: &HandOver, with_task: bool) -> Offer {
        let of: Vec<&Delivery> =
            self.deliveries.iter().filter(|delivery| delivery.hand_over.as_ref() == Some(&row.id)).collect();
        let children: BTreeSet<_> = of.iter().map(|row| (&row.child.harness, &row.child.id)).collect();
        let mut hand_over = row.clone();
        if !with_task {
            hand_over.task.clear();
        }
        Offer { hand_over, taken: children.len() as u32, next_place: of.len() as u32 }
    }
}

const NOT_ASKED: &str = "no target asks for this";

impl Imports for World {
    fn memories(&mut self, ids: &[String], max_bytes: u32) -> Rows<Vec<Option<Memory>>> {
        let mut room = max_bytes;
        let mut rows = Vec::new();
        for id in ids {
            let mut row = self.memories.iter().find(|row| row.id == *id).cloned();
            if let Some(row) = &mut row {
                if row.bytes <= room {
                    room -= row.bytes;
                } else {
                    (row.body, room) = (None, 0);
                }
            }
            rows.push(row);
        }
        Ok(rows)
    }
    fn search(&mut self, _: &SearchFilter, _: &str, _: u32, _: u32) -> Rows<Vec<Memory>> {
        unimplemented!("{NOT_ASKED}")
    }
    fn record_access(&mut self, _: &[String], _: Instant) -> Rows<()> {
        unimplemented!("{NOT_ASKED}")
    }
    fn sessions(&mut self, keys: &[SessionKey]) -> Rows<Vec<Option<Session>>> {
        Ok(keys.iter().map(|key| self.sessions.iter().find(|row| row.key == *key).cloned()).collect())
    }
    fn projects(&mut self, ids: &[String]) -> Rows<Vec<Option<Project>>> {
        Ok(ids.iter().map(|id| self.projects.iter().find(|row| row.id == *id).cloned()).collect())
    }
    fn workspace_projects(&mut self, workspace: &str) -> Rows<Vec<Project>> {
        Ok(self.projects.iter().filter(|row| row.workspace.as_deref() == Some(workspace)).cloned().collect())
    }
    fn links(&mut self, agent: &str, others: &[String]) -> Rows<Vec<Link>> {
        let ends = |one: &str, other: &String| one == agent && others.contains(other);
        let between = |row: &&Link| ends(&row.from_agent, &row.to_agent) || ends(&row.to_agent, &row.from_agent);
        Ok(self.links.iter().filter(between).cloned().collect())
    }
    fn insert_snapshot(&mut self, frozen: &Frozen) -> Rows<()> {
        if self.snapshot(&frozen.snapshot.snapshot_ref).is_some() {
            return Err(StoreError::Damaged("this ref was given out before".into()));
        }
        assert_eq!(frozen.pages.len(), frozen.snapshot.pages as usize);
        self.snapshots.push(frozen.clone());
        Ok(())
    }
    fn snapshots(&mut self, refs: &[String], pages: Selection) -> Rows<Vec<Option<Frozen>>> {
        let select = |frozen: &mut Frozen| {
            let mut frozen = frozen.clone();
            frozen.pages.retain(|page| match pages {
                Selection::None => false,
                Selection::One(number) => page.number == number,
                Selection::All => true,
            });
            frozen
        };
        Ok(refs.iter().map(|name| self.snapshot(name).map(select)).collect())
    }
    fn revoke(&mut self, refs: &[String], at: Instant) -> Rows<()> {
        for name in refs {
            if let Some(frozen) = self.snapshot(name) {
                frozen.snapshot.revoked_at.get_or_insert(at);
            }
        }
        Ok(())
    }
    fn overwrite(&mut self, frozen: &[Frozen]) -> Rows<()> {
        for new in frozen {
            if let Some(old) = self.snapshot(&new.snapshot.snapshot_ref) {
                old.clone_from(new);
            }
        }
        Ok(())
    }
    fn pinned(&mut self, _: &[String], _: Instant) -> Rows<Vec<String>> {
        unimplemented!("{NOT_ASKED}")
    }
    fn holding(&mut self, memory_ids: &[String], limit: u32) -> Rows<Vec<Frozen>> {
        let holds = |frozen: &&Frozen| frozen.snapshot.memory_ids.iter().any(|id| memory_ids.contains(id));
        Ok(self.snapshots.iter().filter(holds).take(limit as usize).cloned().collect())
    }
    fn expired(&mut self, _: Instant, _: u32) -> Rows<Vec<Snapshot>> {
        unimplemented!("{NOT_ASKED}")
    }
    fn strip(&mut self, _: &[String], _: Instant) -> Rows<()> {
        unimplemented!("{NOT_ASKED}")
    }
    fn remove(&mut self, _: &[String]) -> Rows<()> {
        unimplemented!("{NOT_ASKED}")
    }
    fn insert_hand_over(&mut self, row: &HandOver) -> Rows<bool> {
        let same = |old: &HandOver| old.parent == row.parent && old.call_id == row.call_id;
        if row.call_id.is_some() && self.hand_overs.iter().any(same) {
            return Ok(false);
        }
        self.hand_overs.push(row.clone());
        Ok(true)
    }
    fn find_hand_overs(&mut self, filter: &OfferFilter, limit: u32) -> Rows<Vec<Offer>> {
        let matches = |row: &&HandOver| {
            row.parent == filter.parent
                && (filter.call_id.is_none() || row.call_id == filter.call_id)
                && (filter.snapshot_ref.is_none() || row.snapshot_ref == filter.snapshot_ref)
                && (filter.ids_key.is_none() || row.ids_key == filter.ids_key)
                && filter.task_digest.as_ref().is_none_or(|digest| *digest == row.task_digest)
                && filter.within.as_ref().is_none_or(|text| text.contains(&row.task_head))
                && (filter.agent_type.is_none() || row.agent_type.is_none() || row.agent_type == filter.agent_type)
        };
        let rows = self.hand_overs.iter().rev().filter(matches).map(|row| self.offer(row, filter.with_task));
        let mut offers: Vec<Offer> = rows
            .filter(|offer| !filter.open_only || offer.taken < offer.hand_over.children)
            .take(limit as usize)
            .collect();
        offers.reverse();
        Ok(offers)
    }
    fn insert_delivery(&mut self, row: &Delivery) -> Rows<bool> {
        let taken = |old: &Delivery| {
            (row.hand_over.is_some() && old.hand_over == row.hand_over && old.place == row.place)
                || (old.child == row.child && old.occasion == row.occasion)
        };
        if self.deliveries.iter().any(taken) {
            return Ok(false);
        }
        self.deliveries.push(row.clone());
        Ok(true)
    }
    fn deliveries(&mut self, child: &SessionKey) -> Rows<Vec<Given>> {
        let hand_over = |row: &Delivery| {
            let mut hand_over = self.hand_overs.iter().find(|of| Some(&of.id) == row.hand_over.as_ref()).cloned()?;
            hand_over.task.clear();
            Some(hand_over)
        };
        let rows = self.deliveries.iter().filter(|row| row.child == *child);
        Ok(rows.map(|row| Given { delivery: row.clone(), hand_over: hand_over(row) }).collect())
    }
    fn replay(
        &mut self,
        child: &SessionKey,
        snapshot_ref: Option<&str>,
        page: u32,
        at: Instant,
    ) -> Rows<Vec<StoredPage>> {
        let mut found = Vec::new();
        for row in self.deliveries.iter().filter(|row| row.child == *child && row.keep_until > at) {
            if let Some(text) = row.notice.clone() {
                if page == 1 && snapshot_ref.is_none() {
                    let check = row.check.clone().unwrap_or_default();
                    found.push(StoredPage { snapshot_ref: None, revoked_at: None, pages: 1, check, text });
                }
                continue;
            }
            let of = |frozen: &&Frozen| Some(&frozen.snapshot.snapshot_ref) == row.snapshot_ref.as_ref();
            let Some(Frozen { snapshot, pages }) = self.snapshots.iter().find(of) else { continue };
            let Some(stored) = pages.iter().find(|stored| stored.number == page) else { continue };
            if snapshot_ref.is_none_or(|asked| asked == snapshot.snapshot_ref) {
                found.push(StoredPage {
                    snapshot_ref: Some(snapshot.snapshot_ref.clone()),
                    revoked_at: snapshot.revoked_at,
                    pages: snapshot.pages,
                    check: stored.check.clone(),
                    text: stored.text.clone(),
                });
            }
        }
        if snapshot_ref.is_some() {
            found.truncate(1);
        }
        Ok(found)
    }
    fn end_deliveries(&mut self, _: &SessionKey, _: Instant) -> Rows<()> {
        unimplemented!("{NOT_ASKED}")
    }
    fn remove_unattached(&mut self, _: Instant, _: u32) -> Rows<u32> {
        unimplemented!("{NOT_ASKED}")
    }
    fn now(&mut self) -> Instant {
        self.now
    }
    fn random_hex(&mut self, bytes: u32) -> String {
        let number = self.random.pop().unwrap_or_else(|| {
            self.counted += 1;
            self.counted
        });
        format!("{number:0width$x}", width = 2 * bytes as usize)
    }
    fn sha256(&mut self, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| digest(text)).collect()
    }
    fn count_tokens(&mut self, _: &str, texts: &[String]) -> Option<Vec<u32>> {
        self.counter.map(|count| texts.iter().map(|text| count(text)).collect())
    }
    fn settings(&mut self, project: Option<&str>, names: &[String]) -> Vec<Option<String>> {
        let value = |project: Option<&str>, name: &String| {
            let row = self.settings.iter().rev().find(|row| row.0.as_deref() == project && row.1 == *name);
            row.map(|row| row.2.clone())
        };
        let own = |name| project.and_then(|project| value(Some(project), name));
        names.iter().map(|name| own(name).or_else(|| value(None, name))).collect()
    }
    fn log(&mut self, _: Level, _: &str) {}
    fn append_audit(&mut self, entries: &[Entry]) {
        // R28: never a body. What stands there is an id, a ref, a reason or a name of a session.
        for entry in entries {
            for body in self.memories.iter().filter_map(|row| row.body.as_ref()).filter(|body| body.len() > 16) {
                let values = entry.attributes.iter().map(|(_, value)| value);
                assert!(!values.chain(&entry.memory_ids).any(|text| text.contains(body)), "a body is in the audit");
            }
        }
    }
}

/// SHA-256 in hex.
pub fn digest(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
