//! What an agent's own memory tool calls by id (R1). Search is for `recall`.

use crate::contract::*;
use crate::resolver::{Resolution, resolve};
use crate::{Imports, ids, session, settings};

/// `tools.get`.
pub fn get<I: Imports>(imports: &mut I, key: &SessionKey, names: &[String]) -> Result<Found, Error> {
    let caller = session::find(imports, key)?;
    let settings = settings::load(imports, caller.project.as_ref().map(|project| project.id.as_str()));
    let ids = ids::list(names, settings.max_ids)?;
    match resolve(imports, &caller, &ids, &settings, None)? {
        Resolution::TooLarge(sizes, _) => {
            let bytes = sizes.iter().fold(0u64, |sum, (_, bytes)| sum + u64::from(*bytes));
            let max = settings.max_body_bytes;
            Err(Error::Store(StoreError::TooLarge(format!(
                "these memories have {bytes} bytes together, {max} are allowed in one call (max-body-bytes): ask for fewer"
            ))))
        }
        Resolution::Done(resolved) => Ok(Found {
            memories: resolved.found.into_iter().map(|found| view(found.row, found.body.unwrap_or_default())).collect(),
            unavailable: resolved.unavailable,
        }),
    }
}

/// A memory as its tool shows it.
pub fn view(row: Memory, body: String) -> View {
    View {
        id: row.id,
        owner: row.owner.unwrap_or_default(),
        project: row.project.unwrap_or_default(),
        category: row.category,
        version: row.version,
        updated_at: row.updated_at,
        body,
        attributes: Vec::new(),
    }
}
