//! Whether one memory is visible to one session: the single predicate of every entry point (R1, R7 to R12). It sees
//! rows and decides; reading them is for `resolver`.

use crate::contract::*;
use crate::session::{may_share, memory_on};

/// Why a memory is not visible. For the operator's audit only: callers learn `unavailable`, whatever it is (R5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// No row.
    Missing,
    /// R7: archived, deleted or superseded.
    Inactive,
    /// R7: expired.
    Expired,
    /// R7: no owner.
    Ownerless,
    /// R7: its project is not known.
    NoProject,
    /// R8: memory is off for the session or for the memory's project.
    Off,
    /// R9: its source is not trusted.
    Untrusted,
    /// R10: its project does not share with the session's.
    OtherWorkspace,
    /// R10, R11: the session has no agent, or nothing lets its agent read the owner.
    Audience,
}

impl Hidden {
    /// One word for the audit.
    pub fn word(self) -> &'static str {
        match self {
            Hidden::Missing => "missing",
            Hidden::Inactive => "inactive",
            Hidden::Expired => "expired",
            Hidden::Ownerless => "ownerless",
            Hidden::NoProject => "no-project",
            Hidden::Off => "memory-off",
            Hidden::Untrusted => "untrusted",
            Hidden::OtherWorkspace => "other-workspace",
            Hidden::Audience => "audience",
        }
    }
}

/// R7 to R12: whether `session` may see `memory` at `now`. `project` is the memory's, `links` all that have the
/// session's agent at one end.
pub fn visible(
    memory: &Memory,
    project: Option<&Project>,
    session: &Session,
    links: &[Link],
    now: Instant,
) -> Result<(), Hidden> {
    if !memory.active {
        return Err(Hidden::Inactive);
    }
    if memory.expires_at.is_some_and(|at| at <= now) {
        return Err(Hidden::Expired);
    }
    let Some(owner) = memory.owner.as_deref().filter(|owner| !owner.is_empty()) else {
        return Err(Hidden::Ownerless);
    };
    let Some(project) = project.filter(|project| Some(&project.id) == memory.project.as_ref()) else {
        return Err(Hidden::NoProject);
    };
    let (Some(own), true, true) = (&session.project, memory_on(session), project.memory_on) else {
        return Err(Hidden::Off);
    };
    if !memory.trusted || !project.trusted {
        return Err(Hidden::Untrusted);
    }
    if !may_share(own, project) {
        return Err(Hidden::OtherWorkspace);
    }
    // R10: an absent scope never means "all".
    let Some(agent) = session.agent.as_deref().filter(|agent| !agent.is_empty()) else {
        return Err(Hidden::Audience);
    };
    let audience = match memory.audience {
        Audience::Agent => false,
        Audience::Project => own.id == project.id,
        Audience::Workspace => true,
    };
    if owner == agent || audience || may_read(agent, owner, links) { Ok(()) } else { Err(Hidden::Audience) }
}

/// R12: whether a link lets `reader` read `owner`. Any allowing link suffices, whatever their order.
pub fn may_read(reader: &str, owner: &str, links: &[Link]) -> bool {
    links.iter().any(|link| {
        let forward = link.from_agent == reader && link.to_agent == owner;
        let backward = link.from_agent == owner && link.to_agent == reader;
        forward || (backward && link.direction == Direction::TwoWay)
    })
}
