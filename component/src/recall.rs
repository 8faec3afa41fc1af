//! Search: among what a session sees without a link, or in a linked agent's memories (R40, R41). The store's filter
//! narrows; whether a row is visible is for `visibility`, as everywhere (R1).

use crate::contract::*;
use crate::resolver::bodies;
use crate::session::{may_share, memory_on};
use crate::settings::{self, Settings};
use crate::tools::view;
use crate::visibility::{may_read, visible};
use crate::{Imports, audit, ids, session};

/// The most results of one search.
const MAX: u32 = 100;

/// The most rows that a search asks for where some are left out.
const MOST: u32 = 1_600;

/// `tools.recall`.
pub fn recall<I: Imports>(
    imports: &mut I,
    key: &SessionKey,
    target: Option<&str>,
    query: &str,
    limit: u32,
) -> Result<Vec<View>, Error> {
    if !(1..=MAX).contains(&limit) {
        return Err(Error::Malformed(format!("limit {limit}: 1 to {MAX} are allowed")));
    }
    if let Some(target) = target {
        ids::check("agent", target, ids::MAX_BYTES)?;
    }
    let caller = session::find(imports, key)?;
    // R13: memory off is nobody's failure.
    let Some(own) = caller.project.as_ref().filter(|_| memory_on(&caller)) else {
        if let Some(target) = target {
            note(imports, target, "memory-off", Vec::new());
        }
        return Ok(Vec::new());
    };
    let settings = settings::load(imports, Some(&own.id));
    let agent = caller.agent.as_deref().unwrap_or_default();
    let search = Search { caller: &caller, own, query, limit, settings: &settings };
    match target.filter(|target| *target != agent) {
        None => search.local(imports, agent),
        Some(target) => {
            let found = search.linked(imports, agent, target);
            let (outcome, ids) = outcome(&found);
            note(imports, target, outcome, ids);
            found
        }
    }
}

struct Search<'a> {
    caller: &'a Session,
    /// The caller's project.
    own: &'a Project,
    query: &'a str,
    limit: u32,
    settings: &'a Settings,
}

impl Search<'_> {
    /// R40: the normal path. Only the caller's own memories are counted as used.
    fn local<I: Imports>(&self, imports: &mut I, agent: &str) -> Result<Vec<View>, Error> {
        // R10: an absent scope never means "all".
        if agent.is_empty() {
            return Ok(Vec::new());
        }
        let views = self.run(imports, agent, Some(self.own.id.clone()), &[])?;
        let used: Vec<String> = views.iter().filter(|view| view.owner == agent).map(|view| view.id.clone()).collect();
        if !used.is_empty() {
            let now = imports.now();
            imports.record_access(&used, now)?;
        }
        Ok(views)
    }

    /// R40, R41: the link first. Nothing of the target's changes.
    fn linked<I: Imports>(&self, imports: &mut I, agent: &str, target: &str) -> Result<Vec<View>, Error> {
        let links = if agent.is_empty() { Vec::new() } else { imports.links(agent, &[target.to_owned()])? };
        if !may_read(agent, target, &links) {
            let between = |link: &Link| link.from_agent == target && link.to_agent == agent;
            return Err(if links.iter().any(between) { Error::WrongDirection } else { Error::NoLink });
        }
        match self.run(imports, target, None, &links) {
            Err(Error::Store(StoreError::Absent(_))) => Err(Error::StoreNotAvailable),
            found => found,
        }
    }

    /// The rows of the owner, and of others where they are shared, that the caller sees (R7 to R12).
    fn run<I: Imports>(
        &self,
        imports: &mut I,
        owner: &str,
        shared_in: Option<String>,
        links: &[Link],
    ) -> Result<Vec<View>, Error> {
        let workspace = self.own.workspace.as_deref().filter(|name| !name.is_empty());
        let mut projects = match workspace {
            Some(workspace) => imports.workspace_projects(workspace)?,
            None => Vec::new(),
        };
        projects.retain(|project| project.id != self.own.id);
        projects.push(self.own.clone());
        // R8, R9, R10: what the predicate would say of every row of these projects.
        projects.retain(|project| project.memory_on && project.trusted && may_share(self.own, project));
        if projects.is_empty() {
            return Ok(Vec::new());
        }
        let filter = SearchFilter {
            owner: owner.to_owned(),
            shared_in,
            projects: projects.iter().map(|project| project.id.clone()).collect(),
            at: imports.now(),
            trusted_only: true,
        };
        let mut asked = self.limit;
        let mut rows = loop {
            let rows = imports.search(&filter, self.query, asked, 0)?;
            let all = rows.len() < asked as usize;
            let rows = self.admit(imports, rows, &filter, &projects, links);
            // What is left out must not stand in the place of what is not (R40: the limit comes last).
            if all || rows.len() >= self.limit as usize || asked >= MOST {
                break rows;
            }
            asked = asked.saturating_mul(4).min(MOST);
        };
        rows.truncate(self.limit as usize);
        let bodies = bodies(imports, &rows.iter().collect::<Vec<_>>(), self.settings.max_body_bytes)?;
        Ok(rows.into_iter().zip(bodies).map(|(row, body)| view(row, body)).collect())
    }

    /// Those that the caller sees, as far as their bodies may be read in one call.
    fn admit<I: Imports>(
        &self,
        imports: &mut I,
        mut rows: Vec<Memory>,
        filter: &SearchFilter,
        projects: &[Project],
        links: &[Link],
    ) -> Vec<Memory> {
        let mut room = self.settings.max_body_bytes;
        rows.retain(|row| {
            let project = projects.iter().find(|project| Some(&project.id) == row.project.as_ref());
            let asked = row.owner.as_ref() == Some(&filter.owner) || filter.shared_in.is_some();
            if !asked || visible(row, project, self.caller, links, filter.at).is_err() {
                imports.log(Level::Warn, "memories.search answered with a row that was not asked for");
                return false;
            }
            // One that is too large hides no other.
            let fits = row.bytes <= room;
            if fits {
                room -= row.bytes;
            }
            fits
        });
        rows
    }
}

/// The audit's word for it, and what was found.
fn outcome(found: &Result<Vec<View>, Error>) -> (&'static str, Vec<String>) {
    match found {
        Ok(views) => ("done", views.iter().map(|view| view.id.clone()).collect()),
        Err(Error::NoLink) => ("no-link", Vec::new()),
        Err(Error::WrongDirection) => ("wrong-direction", Vec::new()),
        Err(Error::StoreNotAvailable) => ("store-not-available", Vec::new()),
        Err(_) => ("store", Vec::new()),
    }
}

/// R28: who looked into whose memories, and what came of it. The query is the agent's own text and is not kept.
fn note<I: Imports>(imports: &mut I, target: &str, outcome: &str, ids: Vec<String>) {
    let target = vec![("target".to_owned(), target.to_owned())];
    audit::record(imports, "recall", outcome, None, ids, target);
}
