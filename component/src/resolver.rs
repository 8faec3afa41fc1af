//! From ids to bodies, for every entry point (R1): reads the rows, asks `visibility` about each, then reads the bodies
//! of those that are visible. The bodies of others never enter the component.

use std::collections::BTreeSet;

use crate::contract::*;
use crate::session::damaged;
use crate::visibility::{Hidden, visible};
use crate::{Imports, settings::Settings};

/// A visible memory with its body.
pub struct Visible {
    /// The row; its `body` has been taken out.
    pub row: Memory,
    /// The original text (R3).
    pub body: String,
}

/// What became of the ids of a request, each list in its order (R4).
pub struct Resolved {
    /// The visible ones.
    pub found: Vec<Visible>,
    /// All others, for whatever reason (R5).
    pub unavailable: Vec<String>,
    /// Why, for the audit.
    pub reasons: Vec<(String, Hidden)>,
}

/// The answer of [`resolve`].
pub enum Resolution {
    /// Bodies in hand.
    Done(Resolved),
    /// The visible bodies are more than `max-body-bytes` together; none was read. Ids and sizes of all visible ones.
    TooLarge(Vec<(String, u32)>),
}

/// R1, R4, R5: what `session` may see of `ids`. Five store calls, whatever the ids are and whatever becomes of them.
pub fn resolve<I: Imports>(
    imports: &mut I,
    session: &Session,
    ids: &[String],
    settings: &Settings,
) -> Result<Resolution, Error> {
    let now = imports.now();
    let rows = imports.memories(ids, 0)?;
    check_rows(ids, &rows)?;

    let project_ids = distinct(rows.iter().flatten().filter_map(|row| row.project.as_ref()));
    let projects = imports.projects(&project_ids)?;
    let agent = session.agent.as_deref().unwrap_or_default();
    let owners = distinct(rows.iter().flatten().filter_map(|row| row.owner.as_ref()).filter(|owner| *owner != agent));
    let links = imports.links(agent, &owners)?;

    let mut seen = Vec::new();
    let mut unavailable = Vec::new();
    let mut reasons = Vec::new();
    for (id, row) in ids.iter().zip(rows) {
        let verdict = match &row {
            None => Err(Hidden::Missing),
            Some(row) => {
                let project = projects.iter().flatten().find(|project| Some(&project.id) == row.project.as_ref());
                visible(row, project, session, &links, now)
            }
        };
        match (row, verdict) {
            (Some(row), Ok(())) => seen.push(row),
            (_, verdict) => {
                unavailable.push(id.clone());
                reasons.push((id.clone(), verdict.err().unwrap_or(Hidden::Missing)));
            }
        }
    }

    let visible_ids: Vec<String> = seen.iter().map(|row| row.id.clone()).collect();
    let total = seen.iter().fold(0u64, |sum, row| sum + u64::from(row.bytes));
    if total > u64::from(settings.max_body_bytes) {
        return Ok(Resolution::TooLarge(seen.into_iter().map(|row| (row.id, row.bytes)).collect()));
    }
    let bodies = imports.memories(&visible_ids, settings.max_body_bytes)?;
    check_rows(&visible_ids, &bodies)?;
    let mut found = Vec::new();
    for (seen, row) in seen.into_iter().zip(bodies) {
        match row {
            Some(Memory { body: Some(body), version, .. })
                if version == seen.version && body.len() == seen.bytes as usize =>
            {
                found.push(Visible { row: seen, body });
            }
            _ => return Err(damaged("memories.get answered twice for one id in one unit of work, and differently")),
        }
    }
    Ok(Resolution::Done(Resolved { found, unavailable, reasons }))
}

/// A host that answers with rows that were not asked for, or in another order, must not be believed.
fn check_rows(ids: &[String], rows: &[Option<Memory>]) -> Result<(), Error> {
    if ids.len() == rows.len() && ids.iter().zip(rows).all(|(id, row)| row.as_ref().is_none_or(|row| row.id == *id)) {
        return Ok(());
    }
    Err(damaged("memories.get answered with other rows than were asked for"))
}

fn distinct<'a>(values: impl Iterator<Item = &'a String>) -> Vec<String> {
    // Not `collect`: that would sort, and every sort is 4 KB of the component.
    let mut set = BTreeSet::new();
    for value in values {
        set.insert(value.as_str());
    }
    set.into_iter().map(String::from).collect()
}
