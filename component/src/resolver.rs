//! From ids to bodies, for every entry point (R1): reads the rows, asks `visibility` about each, then reads the bodies
//! of those that are visible. The bodies of others never enter the component.

use std::collections::BTreeSet;

use crate::contract::*;
use crate::session::damaged;
use crate::visibility::{Hidden, visible};
use crate::{Imports, settings::Settings};

/// A visible memory.
pub struct Visible {
    /// The row; its `body` has been taken out.
    pub row: Memory,
    /// The original text (R3). `None`: it was left out ([`LeaveOut`]).
    pub body: Option<String>,
}

/// Which of these visible rows are not read, so that the bodies of the others are at most so many bytes together.
pub type LeaveOut<'a> = &'a dyn Fn(&[Memory], u32) -> Vec<usize>;

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
    /// The visible bodies are more than `max-body-bytes` together, and none was to be left out; none was read. Ids and
    /// sizes of all visible ones, and why others are not, for the audit.
    TooLarge(Vec<(String, u32)>, Vec<(String, Hidden)>),
}

/// R1, R4, R5: what `session` may see of `ids`. Five store calls, whatever the ids are and whatever becomes of them.
pub fn resolve<I: Imports>(
    imports: &mut I,
    session: &Session,
    ids: &[String],
    settings: &Settings,
    leave_out: Option<LeaveOut>,
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

    let mut unread = Vec::new();
    if seen.iter().fold(0u64, |sum, row| sum + u64::from(row.bytes)) > u64::from(settings.max_body_bytes) {
        match leave_out {
            Some(leave_out) => unread = leave_out(&seen, settings.max_body_bytes),
            None => {
                let sizes = seen.into_iter().map(|row| (row.id, row.bytes)).collect();
                return Ok(Resolution::TooLarge(sizes, reasons));
            }
        }
    }
    let read: Vec<&Memory> =
        (0..seen.len()).filter(|index| !unread.contains(index)).map(|index| &seen[index]).collect();
    let mut bodies = bodies(imports, &read, settings.max_body_bytes)?.into_iter();
    let mut found = Vec::new();
    for (index, row) in seen.into_iter().enumerate() {
        let body = if unread.contains(&index) { None } else { bodies.next() };
        found.push(Visible { row, body });
    }
    Ok(Resolution::Done(Resolved { found, unavailable, reasons }))
}

/// R3: the original texts of rows that were found visible, which are at most so many bytes together.
pub fn bodies<I: Imports>(imports: &mut I, rows: &[&Memory], max_bytes: u32) -> Result<Vec<String>, Error> {
    let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    let read = imports.memories(&ids, max_bytes)?;
    check_rows(&ids, &read)?;
    let mut bodies = Vec::new();
    for (row, read) in rows.iter().zip(read) {
        match read {
            Some(Memory { body: Some(body), version, .. })
                if version == row.version && body.len() == row.bytes as usize =>
            {
                bodies.push(body);
            }
            _ => return Err(damaged("one id was answered twice in one unit of work, and differently")),
        }
    }
    Ok(bodies)
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
