//! A host for unit tests: a fixed clock, counted "random" digits, and a tokenizer if the test wants one.

use crate::Imports;
use crate::contract::*;

/// Nothing but what blocks are made with; rows are for the scenarios.
#[derive(Default)]
pub struct Fake {
    /// Tokens of a text.
    pub counter: Option<fn(&str) -> u32>,
    /// How many random names were given out.
    pub random: u64,
    /// How often tokens were counted.
    pub counts: u32,
}

const NONE: &str = "unit tests of blocks ask for no rows";

impl Imports for Fake {
    fn memories(&mut self, _: &[String], _: u32) -> Result<Vec<Option<Memory>>, StoreError> {
        unimplemented!("{NONE}")
    }
    fn search(&mut self, _: &SearchFilter, _: &str, _: u32, _: u32) -> Result<Vec<Memory>, StoreError> {
        unimplemented!("{NONE}")
    }
    fn record_access(&mut self, _: &[String], _: Instant) -> Result<(), StoreError> {
        unimplemented!("{NONE}")
    }
    fn sessions(&mut self, _: &[SessionKey]) -> Result<Vec<Option<Session>>, StoreError> {
        unimplemented!("{NONE}")
    }
    fn projects(&mut self, _: &[String]) -> Result<Vec<Option<Project>>, StoreError> {
        unimplemented!("{NONE}")
    }
    fn workspace_projects(&mut self, _: &str) -> Result<Vec<Project>, StoreError> {
        unimplemented!("{NONE}")
    }
    fn links(&mut self, _: &str, _: &[String]) -> Result<Vec<Link>, StoreError> {
        unimplemented!("{NONE}")
    }
    fn insert_snapshot(&mut self, _: &Frozen) -> Result<(), StoreError> {
        unimplemented!("{NONE}")
    }
    fn snapshots(&mut self, _: &[String], _: Selection) -> Result<Vec<Option<Frozen>>, StoreError> {
        unimplemented!("{NONE}")
    }
    fn revoke(&mut self, _: &[String], _: Instant) -> Result<(), StoreError> {
        unimplemented!("{NONE}")
    }
    fn overwrite(&mut self, _: &[Frozen]) -> Result<(), StoreError> {
        unimplemented!("{NONE}")
    }
    fn pinned(&mut self, _: &[String], _: Instant) -> Result<Vec<String>, StoreError> {
        unimplemented!("{NONE}")
    }
    fn holding(&mut self, _: &[String], _: u32) -> Result<Vec<Frozen>, StoreError> {
        unimplemented!("{NONE}")
    }
    fn expired(&mut self, _: Instant, _: u32) -> Result<Vec<Snapshot>, StoreError> {
        unimplemented!("{NONE}")
    }
    fn strip(&mut self, _: &[String], _: Instant) -> Result<(), StoreError> {
        unimplemented!("{NONE}")
    }
    fn remove(&mut self, _: &[String]) -> Result<(), StoreError> {
        unimplemented!("{NONE}")
    }
    fn insert_hand_over(&mut self, _: &HandOver) -> Result<bool, StoreError> {
        unimplemented!("{NONE}")
    }
    fn find_hand_overs(&mut self, _: &OfferFilter, _: u32) -> Result<Vec<Offer>, StoreError> {
        unimplemented!("{NONE}")
    }
    fn insert_delivery(&mut self, _: &Delivery) -> Result<bool, StoreError> {
        unimplemented!("{NONE}")
    }
    fn deliveries(&mut self, _: &SessionKey) -> Result<Vec<Given>, StoreError> {
        unimplemented!("{NONE}")
    }
    fn replay(&mut self, _: &SessionKey, _: Option<&str>, _: u32, _: Instant) -> Result<Vec<StoredPage>, StoreError> {
        unimplemented!("{NONE}")
    }
    fn end_deliveries(&mut self, _: &SessionKey, _: Instant) -> Result<(), StoreError> {
        unimplemented!("{NONE}")
    }
    fn remove_unattached(&mut self, _: Instant, _: u32) -> Result<u32, StoreError> {
        unimplemented!("{NONE}")
    }
    fn now(&mut self) -> Instant {
        0
    }
    fn random_hex(&mut self, bytes: u32) -> String {
        self.random += 1;
        format!("{:0width$x}", self.random * 7_919, width = 2 * bytes as usize)
    }
    fn sha256(&mut self, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| format!("{:064x}", text.len())).collect()
    }
    fn count_tokens(&mut self, _: &str, texts: &[String]) -> Option<Vec<u32>> {
        self.counts += 1;
        self.counter.map(|count| texts.iter().map(|text| count(text)).collect())
    }
    fn settings(&mut self, _: Option<&str>, names: &[String]) -> Vec<Option<String>> {
        vec![None; names.len()]
    }
    fn log(&mut self, _: Level, _: &str) {}
    fn append_audit(&mut self, _: &[Entry]) {}
}

/// A visible row.
pub fn memory(id: &str, body: &str) -> Memory {
    Memory {
        id: id.into(),
        owner: Some("a".into()),
        project: Some("p".into()),
        audience: Audience::Agent,
        active: true,
        expires_at: None,
        trusted: true,
        category: String::new(),
        priority: 0,
        version: "1".into(),
        updated_at: Some(1_767_225_600_000),
        bytes: body.len() as u32,
        body: None,
        attributes: Vec::new(),
    }
}
