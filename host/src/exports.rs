//! Which exported function may do what: whether its unit of work reads or writes, and which imports it may call. A
//! component that calls another one is stopped, whatever its policy says.

use crate::store::Access;

/// An exported function of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each is the function of that name in wit/
pub enum Export {
    Estimate,
    Delegate,
    Revalidate,
    Revoke,
    Deliver,
    Replay,
    Page,
    Get,
    Recall,
    Evictable,
    Sweep,
    SessionEnded,
    Forget,
    Encode,
    Decode,
    ParseMarkers,
    Describe,
}

/// An imported function, as far as it matters who may call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Import {
    Log,
    Settings,
    /// `environment` but for `log` and `settings`.
    Environment,
    AppendAudit,
    /// Any function that only reads rows.
    Read,
    RecordAccess,
    InsertSnapshot,
    InsertHandOver,
    InsertDelivery,
    Revoke,
    Overwrite,
    EndDeliveries,
    /// `strip`, `remove` and `remove-unattached`.
    Remove,
}

impl Export {
    /// Every export.
    pub const ALL: [Export; 17] = [
        Export::Estimate,
        Export::Delegate,
        Export::Revalidate,
        Export::Revoke,
        Export::Deliver,
        Export::Replay,
        Export::Page,
        Export::Get,
        Export::Recall,
        Export::Evictable,
        Export::Sweep,
        Export::SessionEnded,
        Export::Forget,
        Export::Encode,
        Export::Decode,
        Export::ParseMarkers,
        Export::Describe,
    ];

    /// `interface.function`, as in `wit/`.
    pub fn name(self) -> &'static str {
        match self {
            Export::Estimate => "orchestrator.estimate",
            Export::Delegate => "orchestrator.delegate",
            Export::Revalidate => "orchestrator.revalidate",
            Export::Revoke => "orchestrator.revoke",
            Export::Deliver => "child.deliver",
            Export::Replay => "child.replay",
            Export::Page => "child.page",
            Export::Get => "tools.get",
            Export::Recall => "tools.recall",
            Export::Evictable => "upkeep.evictable",
            Export::Sweep => "upkeep.sweep",
            Export::SessionEnded => "upkeep.session-ended",
            Export::Forget => "upkeep.forget",
            Export::Encode => "wire.encode",
            Export::Decode => "wire.decode",
            Export::ParseMarkers => "wire.parse-markers",
            Export::Describe => "about.describe",
        }
    }

    /// The export with this `interface.function` name.
    pub fn by_name(name: &str) -> Option<Export> {
        Export::ALL.into_iter().find(|export| export.name() == name)
    }

    /// What its unit of work does. `None`: it needs no store.
    pub fn access(self) -> Option<Access> {
        use Export::*;
        match self {
            Delegate | Revoke | Deliver | Sweep | SessionEnded | Forget => Some(Access::Write),
            Recall => Some(Access::Relaxed),
            Estimate | Revalidate | Replay | Page | Get | Evictable => Some(Access::Read),
            Encode | Decode | ParseMarkers | Describe => None,
        }
    }

    /// How many times as much time and as many imports as [`Limits`](crate::limits::Limits) allow one call this one may
    /// take. An erasure reads and writes every snapshot that holds a memory, in one unit of work.
    pub(crate) fn patience(self) -> u32 {
        if self == Export::Forget { 60 } else { 1 }
    }

    /// Whether it may call this import.
    pub(crate) fn allows(self, import: Import) -> bool {
        use Export::*;
        match import {
            Import::Log => true,
            Import::Settings => self.access().is_some() || self == ParseMarkers,
            Import::Environment | Import::AppendAudit | Import::Read => self.access().is_some(),
            Import::RecordAccess => self == Recall,
            Import::InsertSnapshot => matches!(self, Delegate | Deliver),
            Import::InsertHandOver => self == Delegate,
            Import::InsertDelivery => self == Deliver,
            Import::Revoke => self == Revoke,
            Import::Overwrite => self == Forget,
            Import::EndDeliveries => self == SessionEnded,
            Import::Remove => self == Sweep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_exports_cannot_write() {
        let writing = [
            Import::RecordAccess,
            Import::InsertSnapshot,
            Import::InsertHandOver,
            Import::InsertDelivery,
            Import::Revoke,
            Import::Overwrite,
            Import::EndDeliveries,
            Import::Remove,
        ];
        for export in Export::ALL {
            assert_eq!(Export::by_name(export.name()), Some(export));
            for import in writing {
                let allowed = export.allows(import);
                assert!(!allowed || export.access().is_some_and(Access::writes), "{export:?} {import:?}");
            }
        }
        assert!(!Export::Deliver.allows(Import::Remove) && !Export::Delegate.allows(Import::Overwrite));
    }
}
