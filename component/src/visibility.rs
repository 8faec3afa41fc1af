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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::memory;

    const NOW: Instant = 1_000;

    fn project(id: &str, workspace: Option<&str>, memory_on: bool, trusted: bool) -> Project {
        let workspace = workspace.map(String::from);
        Project { id: id.into(), workspace, memory_on, trusted, attributes: Vec::new() }
    }

    /// R7 to R12 against a table made by brute force: every combination, and what the rules say of it in other words.
    #[test]
    fn the_predicate_agrees_with_the_rules_in_every_case() {
        const BOOLS: [bool; 2] = [false, true];
        let key = SessionKey { harness: "h".into(), id: "s".into() };
        let mut seen = [0; 2];
        for active in BOOLS {
            for expires_at in [None, Some(NOW - 1), Some(NOW), Some(NOW + 1)] {
                for owner in [None, Some(""), Some("a"), Some("a1"), Some("b")] {
                    for (own, other) in [("p", "p"), ("p", "p1"), ("p", "q")] {
                        for workspaces in
                            [(None, None), (Some("w"), None), (Some("w"), Some("w1")), (Some("w"), Some("w"))]
                        {
                            for flags in 0..32u32 {
                                let flag = |bit: u32| flags >> bit & 1 == 0;
                                for audience in [Audience::Agent, Audience::Project, Audience::Workspace] {
                                    for agent in [None, Some("a")] {
                                        for links in 0..4 {
                                            let own_project = project(own, workspaces.0, flag(0), true);
                                            let its = if own == other { workspaces.0 } else { workspaces.1 };
                                            let its = project(
                                                other,
                                                its,
                                                if own == other { flag(0) } else { flag(1) },
                                                flag(2),
                                            );
                                            let session = Session {
                                                key: key.clone(),
                                                memory_on: flag(3),
                                                agent: agent.map(String::from),
                                                project: Some(own_project.clone()),
                                                parent: None,
                                                attributes: Vec::new(),
                                            };
                                            let mut row = memory("1", "");
                                            row.active = active;
                                            row.expires_at = expires_at;
                                            row.owner = owner.map(String::from);
                                            row.project = Some(other.into());
                                            row.audience = audience;
                                            row.trusted = flag(4);
                                            let link = |from: &str, to: &str, direction| Link {
                                                from_agent: from.into(),
                                                to_agent: to.into(),
                                                direction,
                                                kind: "peer".into(),
                                                attributes: Vec::new(),
                                            };
                                            // F25: the denying one stands first.
                                            let rows = match links {
                                                0 => vec![],
                                                1 => vec![link("b", "a", Direction::OneWay)],
                                                2 => vec![
                                                    link("b", "a", Direction::OneWay),
                                                    link("a", "b", Direction::OneWay),
                                                ],
                                                _ => vec![
                                                    link("b", "a", Direction::OneWay),
                                                    link("b", "a", Direction::TwoWay),
                                                ],
                                            };
                                            let expected = active
                                                && (expires_at.is_none() || expires_at == Some(NOW + 1))
                                                && matches!(owner, Some("a" | "a1" | "b"))
                                                && flag(3)
                                                && own_project.memory_on
                                                && its.memory_on
                                                && flag(4)
                                                && its.trusted
                                                && (own == other || workspaces == (Some("w"), Some("w")))
                                                && agent == Some("a")
                                                && (owner == Some("a")
                                                    || matches!(audience, Audience::Workspace)
                                                    || (matches!(audience, Audience::Project) && own == other)
                                                    || (owner == Some("b") && links >= 2));
                                            let verdict = visible(&row, Some(&its), &session, &rows, NOW);
                                            assert_eq!(
                                                verdict.is_ok(),
                                                expected,
                                                "{row:?} {session:?} {its:?} {rows:?}: {verdict:?}"
                                            );
                                            seen[usize::from(expected)] += 1;
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        assert!(seen[0] > 100_000 && seen[1] > 500, "{seen:?}");
    }

    #[test]
    fn what_is_not_known_denies() {
        let its = project("p", None, true, true);
        let mut session = Session {
            key: SessionKey { harness: "h".into(), id: "s".into() },
            memory_on: true,
            agent: Some("a".into()),
            project: Some(its.clone()),
            parent: None,
            attributes: Vec::new(),
        };
        let row = memory("1", "");
        assert_eq!(visible(&row, Some(&its), &session, &[], NOW), Ok(()));
        assert_eq!(visible(&row, None, &session, &[], NOW), Err(Hidden::NoProject));
        // A host that hands over another project's row must not be believed.
        assert_eq!(visible(&row, Some(&project("q", None, true, true)), &session, &[], NOW), Err(Hidden::NoProject));
        session.project = None;
        assert_eq!(visible(&row, Some(&its), &session, &[], NOW), Err(Hidden::Off));
    }
}
