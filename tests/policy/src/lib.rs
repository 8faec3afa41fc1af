//! A policy of one's own: the built-in one, but a memory of the category `secret` is not there for anybody. See
//! docs/policy.md.

// Its exports have names that only a component can have.
#![cfg(target_arch = "wasm32")]

use memory_prefetch_component::contract::*;
use memory_prefetch_component::{Host, Imports, component};

component!(imports: NoSecrets, name: "no-secrets", version: env!("CARGO_PKG_VERSION"));

struct NoSecrets;

impl Imports for NoSecrets {
    /// Not there, rather than refused: nobody learns that there is a secret (R5).
    fn memories(&mut self, ids: &[String], max_bytes: u32) -> Result<Vec<Option<Memory>>, StoreError> {
        let rows = Host.memories(ids, max_bytes)?;
        Ok(rows.into_iter().map(|row| row.filter(|row| !is_secret(row))).collect())
    }

    fn search(
        &mut self,
        filter: &SearchFilter,
        query: &str,
        limit: u32,
        max_bytes: u32,
    ) -> Result<Vec<Memory>, StoreError> {
        let mut rows = Host.search(filter, query, limit, max_bytes)?;
        rows.retain(|row| !is_secret(row));
        Ok(rows)
    }
}

fn is_secret(memory: &Memory) -> bool {
    memory.category == "secret"
}
