//! The operator's changes and lists. Each is a transaction of its own.

use rusqlite::named_params;

use crate::allowance::Allowance;
use crate::contract::*;
use crate::operator::{AuditFilter, Listed, MemoryEdit, NewMemory, NewSession, Operator};
use crate::store::{Access, AuditRow, Rows, Store, StoreFailure};

use super::{SqliteStore, rows, sql};

impl SqliteStore {
    /// A transaction around `work`; a list may also be asked for inside an open unit.
    pub(super) fn unit_of<T>(&mut self, access: Access, work: impl FnOnce(&mut SqliteStore) -> Rows<T>) -> Rows<T> {
        if access == Access::Read && self.unit.is_some() {
            return work(self);
        }
        self.begin_unit(access)?;
        match work(self) {
            Ok(done) => self.commit().map(|()| done),
            Err(failure) => {
                self.roll_back();
                Err(failure)
            }
        }
    }
}

impl Operator for SqliteStore {
    fn add_agent(&mut self, agent: &str) -> Rows<bool> {
        let params = named_params! { ":agent": agent };
        self.unit_of(Access::Write, |store| Ok(store.change(sql!("operator_add_agent"), params)? > 0))
    }

    fn agents(&mut self) -> Rows<Vec<String>> {
        self.unit_of(Access::Read, |store| store.read(sql!("operator_agents"), &[], |row| row.get(0)))
    }

    fn remove_agent(&mut self, agent: &str) -> Rows<bool> {
        let params = named_params! { ":agent": agent };
        self.unit_of(Access::Write, |store| {
            store.change(sql!("operator_remove_agent_1"), params)?;
            store.change(sql!("operator_remove_agent_2"), params)?;
            Ok(store.change(sql!("operator_remove_agent_3"), params)? > 0)
        })
    }

    fn put_project(&mut self, project: &Project) -> Rows<()> {
        let params = named_params! {
            ":project": project.id,
            ":workspace": project.workspace,
            ":memory_on": project.memory_on,
            ":trusted": project.trusted,
            ":attributes": rows::json(&project.attributes)?,
        };
        self.unit_of(Access::Write, |store| store.change(sql!("operator_put_project"), params).map(drop))
    }

    fn all_projects(&mut self) -> Rows<Vec<Project>> {
        self.unit_of(Access::Read, |store| store.read(sql!("operator_all_projects"), &[], |row| rows::project(row, 0)))
    }

    fn remove_project(&mut self, id: &str) -> Rows<bool> {
        let params = named_params! { ":project": id };
        self.unit_of(Access::Write, |store| Ok(store.change(sql!("operator_remove_project"), params)? > 0))
    }

    fn put_session(&mut self, session: &NewSession) -> Rows<()> {
        let params = named_params! {
            ":harness": session.key.harness,
            ":session": session.key.id,
            ":agent": session.agent,
            ":project": session.project,
            ":parent_harness": session.parent.as_ref().map(|key| &key.harness),
            ":parent_session": session.parent.as_ref().map(|key| &key.id),
            ":memory_on": session.memory_on,
        };
        let put = self.unit_of(Access::Write, |store| store.change(sql!("operator_put_session"), params))?;
        if put == 0 {
            return Err(StoreFailure::Other("this key is an alias of another session".into()));
        }
        Ok(())
    }

    fn add_alias(&mut self, alias: &SessionKey, canonical: &SessionKey) -> Rows<bool> {
        let asked = named_params! {
            ":alias_harness": alias.harness,
            ":alias_session": alias.id,
            ":harness": canonical.harness,
            ":session": canonical.id,
        };
        self.unit_of(Access::Write, |store| {
            let state = store.read(sql!("operator_alias_state"), asked, |row| {
                let key = |first: usize| Ok::<_, rusqlite::Error>((row.get(first)?, row.get(first + 1)?));
                let canonical: (Option<String>, Option<String>) = key(0)?;
                let old: (Option<String>, Option<String>) = key(3)?;
                Ok((canonical, row.get::<_, bool>(2)?, old))
            })?;
            let Some((found, is_session, old)) = state.into_iter().next() else { return Ok(false) };
            let (Some(harness), Some(session)) = &found else { return Ok(false) };
            if is_session {
                return Err(StoreFailure::Other("this key is a session of its own already".into()));
            }
            if old == found {
                return Ok(true);
            }
            if old.0.is_some() {
                return Err(StoreFailure::Other("this key is an alias of another session".into()));
            }
            let params = named_params! {
                ":alias_harness": alias.harness,
                ":alias_session": alias.id,
                ":harness": harness,
                ":session": session,
            };
            store.change(sql!("operator_add_alias"), params)?;
            Ok(true)
        })
    }

    fn all_sessions(&mut self) -> Rows<Vec<Session>> {
        self.unit_of(Access::Read, |store| store.read(sql!("operator_all_sessions"), &[], |row| rows::session(row, 0)))
    }

    fn remove_session(&mut self, key: &SessionKey) -> Rows<bool> {
        let params = named_params! { ":harness": key.harness, ":session": key.id };
        self.unit_of(Access::Write, |store| Ok(store.change(sql!("operator_remove_session"), params)? > 0))
    }

    fn add_link(&mut self, link: &Link) -> Rows<()> {
        let params = named_params! {
            ":from_agent": link.from_agent,
            ":to_agent": link.to_agent,
            ":two_way": link.direction == Direction::TwoWay,
            ":kind": link.kind,
            ":attributes": rows::json(&link.attributes)?,
        };
        self.unit_of(Access::Write, |store| store.change(sql!("operator_add_link"), params).map(drop))
    }

    fn all_links(&mut self) -> Rows<Vec<Link>> {
        self.unit_of(Access::Read, |store| store.read(sql!("operator_all_links"), &[], rows::link))
    }

    fn remove_links(&mut self, from_agent: &str, to_agent: &str) -> Rows<u32> {
        let params = named_params! { ":from_agent": from_agent, ":to_agent": to_agent };
        let removed = self.unit_of(Access::Write, |store| store.change(sql!("operator_remove_links"), params))?;
        Ok(u32::try_from(removed).unwrap_or(u32::MAX))
    }

    fn add_memory(&mut self, memory: &NewMemory, at: Instant) -> Rows<String> {
        let at = rows::instant(at)?;
        let expires_at = memory.expires_at.map(rows::instant).transpose()?;
        self.unit_of(Access::Write, |store| {
            let id = match &memory.id {
                Some(id) => id.clone(),
                None => store
                    .read(sql!("operator_free_memory_id"), &[], |row| row.get(0))?
                    .pop()
                    .ok_or_else(|| StoreFailure::Damaged("no free id".into()))?,
            };
            let params = named_params! {
                ":memory_id": id,
                ":owner": memory.owner,
                ":project": memory.project,
                ":audience": rows::audience_word(memory.audience),
                ":category": memory.category,
                ":priority": memory.priority,
                ":trusted": memory.trusted,
                ":expires_at": expires_at,
                ":body": memory.body,
                ":at": at,
            };
            if store.change(sql!("operator_add_memory"), params)? == 0 {
                return Err(StoreFailure::Other(format!("the id {id:?} is a memory's, or was one's")));
            }
            Ok(id)
        })
    }

    fn edit_memory(&mut self, id: &str, edit: &MemoryEdit, at: Instant) -> Rows<bool> {
        let params = named_params! {
            ":memory_id": id,
            ":body": edit.body,
            ":category": edit.category,
            ":audience": edit.audience.map(rows::audience_word),
            ":priority": edit.priority,
            ":trusted": edit.trusted,
            ":set_expires_at": edit.expires_at.is_some(),
            ":expires_at": edit.expires_at.flatten().map(rows::instant).transpose()?,
            ":at": rows::instant(at)?,
        };
        self.unit_of(Access::Write, |store| {
            if edit.body.is_some() {
                store.erasing()?;
            }
            Ok(store.change(sql!("operator_edit_memory"), params)? > 0)
        })
    }

    fn archive_memory(&mut self, id: &str, archived: bool) -> Rows<bool> {
        let params = named_params! { ":memory_id": id, ":active": !archived };
        self.unit_of(Access::Write, |store| Ok(store.change(sql!("operator_archive_memory"), params)? > 0))
    }

    fn all_memories(&mut self, offset: u32, limit: u32) -> Rows<Vec<Memory>> {
        let params = named_params! { ":offset": offset, ":limit": limit };
        let found = self.unit_of(Access::Read, |store| {
            store.read(sql!("operator_all_memories"), params, |row| {
                // A row that cannot be read is left out, as in `memories.get`.
                Ok(rows::memory(row, 0, &mut Allowance::of(u32::MAX)).ok())
            })
        })?;
        Ok(found.into_iter().flatten().collect())
    }

    fn memory_use(&mut self, id: &str) -> Rows<Option<(u32, Option<Instant>)>> {
        let params = named_params! { ":memory_id": id };
        self.unit_of(Access::Read, |store| Ok(store.read(sql!("operator_memory_use"), params, rows::uses)?.pop()))
    }

    fn all_snapshots(&mut self, offset: u32, limit: u32) -> Rows<Vec<Listed>> {
        let params = named_params! { ":offset": offset, ":limit": limit };
        self.unit_of(Access::Read, |store| {
            store.read(sql!("operator_all_snapshots"), params, |row| {
                Ok(Listed { snapshot: rows::snapshot(row, 0)?, deliveries: row.get(10)? })
            })
        })
    }

    fn put_setting(&mut self, project: Option<&str>, name: &str, value: Option<&str>) -> Rows<()> {
        self.unit_of(Access::Write, |store| {
            let params = named_params! { ":project": project, ":name": name };
            store.change(sql!("operator_unset_setting"), params)?;
            if let Some(value) = value {
                let params = named_params! { ":project": project, ":name": name, ":value": value };
                store.change(sql!("operator_set_setting"), params)?;
            }
            Ok(())
        })
    }

    fn all_settings(&mut self) -> Rows<Vec<(Option<String>, String, String)>> {
        self.unit_of(Access::Read, |store| {
            store.read(sql!("operator_all_settings"), &[], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        })
    }

    fn all_audit(&mut self, filter: &AuditFilter, limit: u32) -> Rows<Vec<AuditRow>> {
        let AuditFilter { session, since } = filter;
        let params = named_params! {
            ":harness": session.as_ref().map(|key| &key.harness),
            ":session": session.as_ref().map(|key| &key.id),
            ":since": since.map(rows::instant).transpose()?,
            ":limit": limit,
        };
        self.unit_of(Access::Read, |store| store.read(sql!("operator_all_audit"), params, rows::audit))
    }
}
