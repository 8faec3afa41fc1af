//! The directory as it is seen where memories lie in a source of their own: a source that keeps workspaces (R10) says
//! where its projects stand; everything else stays what the user's directory says.

use crate::contract::*;
use crate::store::{Memories, Place, Rows, Store, StoreFailure};

/// `directory.projects`
pub(crate) fn projects(
    store: &mut dyn Store,
    source: Option<&mut (dyn Memories + 'static)>,
    ids: &[String],
) -> Rows<Vec<Option<Project>>> {
    let mut projects = store.projects(ids)?;
    if let Some(source) = source {
        for ((slot, place), id) in projects.iter_mut().zip(places(source, ids)?).zip(ids) {
            place_project(slot, place, id);
        }
    }
    Ok(projects)
}

/// `directory.sessions`
pub(crate) fn sessions(
    store: &mut dyn Store,
    source: Option<&mut (dyn Memories + 'static)>,
    keys: &[SessionKey],
) -> Rows<Vec<Option<Session>>> {
    let mut sessions = store.sessions(keys)?;
    if let Some(source) = source {
        let known = || sessions.iter().flatten().filter_map(|session| session.project.as_ref());
        let ids: Vec<String> = known().map(|project| project.id.clone()).collect();
        let mut places = places(source, &ids)?.into_iter();
        for session in sessions.iter_mut().flatten().filter(|session| session.project.is_some()) {
            let id = session.project.as_ref().map(|project| project.id.clone()).unwrap_or_default();
            place_project(&mut session.project, places.next().flatten(), &id);
        }
    }
    Ok(sessions)
}

/// `directory.workspace-projects`
pub(crate) fn workspace_projects(
    store: &mut dyn Store,
    source: Option<&mut (dyn Memories + 'static)>,
    workspace: &str,
) -> Rows<Vec<Project>> {
    let inside = store.workspace_projects(workspace)?;
    let Some(source) = source else { return Ok(inside) };
    let mut ids: Vec<String> = inside.into_iter().map(|project| project.id).collect();
    ids.extend(or_nothing(source.members(workspace))?.unwrap_or_default());
    ids.sort();
    ids.dedup();
    let all = projects(store, Some(source), &ids)?;
    Ok(all.into_iter().flatten().filter(|project| project.workspace.as_deref() == Some(workspace)).collect())
}

fn places(source: &mut dyn Memories, ids: &[String]) -> Rows<Vec<Option<Place>>> {
    let Some(places) = or_nothing(source.places(ids))? else { return Ok(vec![None; ids.len()]) };
    if places.len() == ids.len() {
        return Ok(places);
    }
    Err(StoreFailure::Damaged(
        "the source of memories answered for another number of projects than was asked for".into(),
    ))
}

/// What a source that is gone knows is nothing: what was frozen goes on without it, by what the user's directory says.
fn or_nothing<T>(answer: Rows<T>) -> Rows<Option<T>> {
    match answer {
        Err(StoreFailure::Absent(why)) => {
            log::warn!("the source of memories is not there: {why}");
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

fn place_project(slot: &mut Option<Project>, place: Option<Place>, id: &str) {
    match (slot, place) {
        (_, None) => {}
        (Some(project), Some(place)) => project.workspace = place.workspace,
        (slot @ None, Some(place)) => {
            let id = id.to_owned();
            let workspace = place.workspace;
            *slot = Some(Project { id, workspace, memory_on: true, trusted: true, attributes: Vec::new() });
        }
    }
}
