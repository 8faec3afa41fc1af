//! What the rules say, in the plainest form: rows in lists, everything looked for by brute force. Nothing is measured,
//! rendered or frozen here; the model is told which texts there are, and says who may have which.

use std::collections::{BTreeMap, BTreeSet};

pub type Time = u64;

pub const HOUR: Time = 3_600_000;
/// How long a hand-over waits (R18).
pub const TTL: Time = HOUR;
/// How long a delivery is replayed (R18).
pub const RETENTION: Time = 30 * 24 * HOUR;

#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    pub workspace: Option<&'static str>,
    pub on: bool,
    pub trusted: bool,
}

#[derive(Debug, Clone)]
pub struct Session {
    pub agent: Option<&'static str>,
    pub project: &'static str,
    pub parent: Option<String>,
    pub on: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Audience {
    Agent,
    Project,
    Workspace,
}

#[derive(Debug, Clone)]
pub struct Memory {
    pub id: String,
    pub owner: Option<&'static str>,
    pub project: &'static str,
    pub audience: Audience,
    pub active: bool,
    pub trusted: bool,
    pub expires: Option<Time>,
    pub version: u32,
    pub body: String,
    pub uses: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    pub from: &'static str,
    pub to: &'static str,
    pub two_way: bool,
}

/// How large a child's room is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Room {
    /// All that a test can fill.
    Ample,
    /// About two bodies.
    Narrow,
    /// Nothing fits.
    None,
}

impl Room {
    pub fn bytes(self) -> u32 {
        match self {
            Room::Ample => 200_000,
            Room::Narrow => 900,
            Room::None => 100,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Overflow {
    Refuse,
    Trim,
    Paginate,
}

/// Ids with what they are resolved for.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub ids: Vec<String>,
    pub room: Room,
    pub overflow: Overflow,
    pub strict: bool,
}

/// One frozen memory: its id, and what it was; `None`: erased.
pub type Item = (String, Option<(u32, String)>);

#[derive(Debug, Clone)]
pub struct Snapshot {
    pub owner: String,
    pub expires: Time,
    pub keep: Time,
    pub revoked: bool,
    /// Empty: a tombstone.
    pub pages: Vec<String>,
    pub items: Vec<Item>,
    /// Which memories it holds, for pinning and erasure.
    pub holds: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Frozen(String),
    Live(Order),
    Nothing,
    Off,
    Refused,
}

#[derive(Debug, Clone)]
pub struct HandOver {
    pub number: u32,
    pub parent: String,
    pub call: Option<&'static str>,
    pub agent_type: Option<&'static str>,
    pub task: &'static str,
    /// Ids and whether they were live.
    pub asked: Option<(Vec<String>, bool)>,
    pub children: usize,
    pub expires: Time,
    pub keep: Time,
    pub kind: Kind,
    /// Equal for those that give the same.
    pub content: String,
    pub room: Option<Room>,
}

/// What a child is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// With the ref.
    Delivered(String),
    /// With the order, and whose eyes it is resolved with.
    Live(Order, String),
    Nothing,
    Off,
    Ambiguous(u32),
    Taken,
    Expired,
    Revoked,
    Refused,
}

#[derive(Debug, Clone)]
pub struct Delivery {
    pub child: String,
    pub occasion: &'static str,
    pub outcome: Outcome,
    pub hand_over: Option<u32>,
    pub keep: Time,
    /// Bytes of the child's room that it takes.
    pub bytes: Option<u32>,
    /// What it was given or told.
    pub text: Option<String>,
}

/// What an error says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    Malformed,
    Unavailable,
    Expired,
    Revoked,
    NoLink,
    WrongDirection,
}

#[derive(Debug, Clone)]
pub enum Claim {
    Ref(String),
    Ids { ids: Vec<String>, live: bool, capacity: Option<(Room, Overflow)> },
    Parent { text: Option<&'static str>, agent_type: Option<&'static str>, registers_all: bool },
}

#[derive(Debug, Default, Clone)]
pub struct Model {
    pub now: Time,
    pub projects: BTreeMap<&'static str, Project>,
    pub sessions: BTreeMap<String, Session>,
    pub aliases: BTreeMap<String, String>,
    pub links: Vec<Link>,
    pub memories: Vec<Memory>,
    pub used: BTreeSet<String>,
    pub snapshots: BTreeMap<String, Snapshot>,
    pub hand_overs: Vec<HandOver>,
    pub deliveries: Vec<Delivery>,
    pub next: u32,
}

/// What a claim comes to before it is kept: what is told, the place that is taken, and own ids that are to be frozen.
#[derive(Debug)]
pub struct Finding {
    pub outcome: Outcome,
    pub hand_over: Option<u32>,
    pub freeze: Option<Order>,
}

fn say(outcome: Outcome) -> Finding {
    Finding { outcome, hand_over: None, freeze: None }
}

impl Model {
    pub fn canonical(&self, key: &str) -> String {
        self.aliases.get(key).cloned().unwrap_or_else(|| key.to_owned())
    }

    pub fn session(&self, key: &str) -> Option<(String, &Session)> {
        let key = self.canonical(key);
        self.sessions.get(&key).map(|session| (key, session))
    }

    fn project_of(&self, session: &Session) -> Option<&Project> {
        self.projects.get(session.project)
    }

    pub fn on(&self, session: &Session) -> bool {
        session.on && self.project_of(session).is_some_and(|project| project.on)
    }

    /// R10.
    fn share(&self, one: &str, other: &str) -> bool {
        let workspace = |id| self.projects.get(id).and_then(|project| project.workspace);
        self.projects.contains_key(one)
            && self.projects.contains_key(other)
            && (one == other || workspace(one).is_some() && workspace(one) == workspace(other))
    }

    /// R12.
    fn linked(&self, reader: &str, owner: &str) -> bool {
        self.links.iter().any(|link| {
            link.from == reader && link.to == owner || link.two_way && link.to == reader && link.from == owner
        })
    }

    /// R7 to R12.
    pub fn sees(&self, session: &Session, memory: &Memory) -> bool {
        self.sees_by(session, memory, true)
    }

    fn sees_by(&self, session: &Session, memory: &Memory, links: bool) -> bool {
        let (Some(owner), Some(project), Some(agent)) =
            (memory.owner, self.projects.get(memory.project), session.agent)
        else {
            return false;
        };
        let shared = match memory.audience {
            Audience::Agent => false,
            Audience::Project => memory.project == session.project,
            Audience::Workspace => true,
        };
        memory.active
            && memory.expires.is_none_or(|end| end > self.now)
            && self.on(session)
            && project.on
            && memory.trusted
            && project.trusted
            && self.share(session.project, memory.project)
            && (owner == agent || shared || links && self.linked(agent, owner))
    }

    pub fn memory(&self, id: &str) -> Option<&Memory> {
        self.memories.iter().find(|memory| memory.id == id)
    }

    /// R2, R4: the visible ones with their versions and bodies, and the others.
    pub fn resolve(&self, session: &Session, ids: &[String]) -> (Vec<Item>, Vec<String>) {
        let (mut found, mut unavailable) = (Vec::new(), Vec::new());
        for id in distinct(ids) {
            match self.memory(&id).filter(|memory| self.sees(session, memory)) {
                Some(memory) => found.push((id, Some((memory.version, memory.body.clone())))),
                None => unavailable.push(id),
            }
        }
        (found, unavailable)
    }

    pub fn is_over(&self, name: &str) -> Option<Outcome> {
        let snapshot = &self.snapshots[name];
        if snapshot.revoked {
            Some(Outcome::Revoked)
        } else if snapshot.pages.is_empty() || snapshot.expires <= self.now {
            Some(Outcome::Expired)
        } else {
            None
        }
    }

    /// R23: what a hand-over of this snapshot gives.
    pub fn content(&self, name: &str) -> String {
        let snapshot = &self.snapshots[name];
        let items: Vec<_> = snapshot.items.iter().map(|(id, was)| (id, was.as_ref().map(|was| was.0))).collect();
        let sizes: Vec<_> = snapshot.pages.iter().map(String::len).collect();
        format!("{items:?} {sizes:?}")
    }

    /// R19.
    pub fn pinned(&self, id: &str) -> bool {
        let holds = |of: &Snapshot| of.holds.iter().any(|held| held == id) && !of.revoked && of.keep > self.now;
        self.snapshots.values().any(holds)
    }

    fn given<'a>(&'a self, child: &'a str) -> impl Iterator<Item = &'a Delivery> {
        self.deliveries.iter().filter(move |row| row.child == child)
    }

    pub fn hand_over(&self, number: u32) -> Option<&HandOver> {
        self.hand_overs.iter().find(|row| row.number == number)
    }

    fn taken(&self, number: u32) -> usize {
        let rows = self.deliveries.iter().filter(|row| row.hand_over == Some(number));
        rows.map(|row| &row.child).collect::<BTreeSet<_>>().len()
    }

    /// R26: has it, or holds a place of it without having got anything.
    fn place(&self, child: &str, number: u32) -> Option<bool> {
        let rows: Vec<&Delivery> = self.given(child).filter(|row| row.hand_over == Some(number)).collect();
        let kind = self.hand_over(number).map(|row| matches!(row.kind, Kind::Frozen(_) | Kind::Live(_)));
        let served =
            rows.iter().any(|row| kind == Some(false) || !matches!(row.outcome, Outcome::Off | Outcome::Refused));
        (!rows.is_empty()).then_some(served)
    }

    fn has(&self, child: &str, of: &HandOver) -> bool {
        // A child may have come to both.
        self.place(child, of.number) == Some(true)
    }

    fn holds(&self, child: &str, of: &HandOver) -> bool {
        let kept = |row: &&Delivery| {
            row.hand_over == Some(of.number) && matches!(row.outcome, Outcome::Off | Outcome::Refused)
        };
        matches!(of.kind, Kind::Frozen(_) | Kind::Live(_)) && self.given(child).filter(kept).count() > 0
    }

    fn open(&self, child: &str, of: &HandOver) -> bool {
        self.taken(of.number) < of.children || self.holds(child, of)
    }

    fn over(&self, of: &HandOver) -> Option<Outcome> {
        match &of.kind {
            Kind::Frozen(name) if self.snapshots.get(name).is_some_and(|row| row.revoked) => Some(Outcome::Revoked),
            _ if of.expires <= self.now => Some(Outcome::Expired),
            _ => None,
        }
    }

    /// R23, R26: of those that give the same: the oldest that waits, or why none does. `Err`: which one waits.
    fn pick(&self, child: &str, offers: &[&HandOver]) -> Result<Outcome, u32> {
        if let Some(own) = offers.iter().rev().find(|of| self.has(child, of)) {
            return Ok(self.over(own).unwrap_or(Outcome::Nothing));
        }
        let waits = |of: &&&HandOver| self.open(child, of) && self.over(of).is_none();
        let held = offers.iter().filter(|of| self.holds(child, of)).find(waits);
        if let Some(first) = held.or_else(|| offers.iter().find(waits)) {
            return Err(first.number);
        }
        match offers.iter().rev().find(|of| self.open(child, of)) {
            Some(youngest) => Ok(self.over(youngest).expect("it does not wait")),
            None => Ok(if offers.is_empty() { Outcome::Nothing } else { Outcome::Taken }),
        }
    }

    fn contents<'a>(offers: impl Iterator<Item = &'a &'a HandOver>) -> BTreeSet<&'a str> {
        offers.map(|of| of.content.as_str()).collect()
    }

    /// R20, R22 to R28: what this claim comes to.
    pub fn find(&self, key: &str, claim: &Claim) -> Result<Finding, Fault> {
        let (me, session) = self.session(key).ok_or(Fault::Unavailable)?;
        let parent = session.parent.as_ref().map(|parent| self.canonical(parent));
        let all: Vec<&HandOver> = self.hand_overs.iter().filter(|of| Some(&of.parent) == parent.as_ref()).collect();
        let picked = match claim {
            Claim::Ref(name) => {
                let snapshot = self.snapshots.get(name).ok_or(Fault::Unavailable)?;
                if snapshot.owner == me {
                    if !self.on(session) {
                        return Ok(say(Outcome::Off));
                    }
                    return Ok(say(self.is_over(name).unwrap_or_else(|| Outcome::Delivered(name.clone()))));
                }
                if parent.as_ref() != Some(&snapshot.owner) {
                    return Err(Fault::Unavailable);
                }
                let offers: Vec<_> = all.into_iter().filter(|of| of.kind == Kind::Frozen(name.clone())).collect();
                match self.is_over(name) {
                    Some(over) if offers.is_empty() => return Ok(say(over)),
                    _ => self.pick(&me, &offers),
                }
            }
            Claim::Ids { ids, live, capacity } => {
                let ids = distinct(ids);
                if ids.is_empty() {
                    return Err(Fault::Malformed);
                }
                let equal: Vec<_> =
                    all.into_iter().filter(|of| of.asked.as_ref().is_some_and(|asked| asked.0 == ids)).collect();
                if equal.is_empty() {
                    return self.own(&me, session, ids, *live, *capacity);
                }
                let prefer = |offers: Vec<&'_ HandOver>, what: &dyn Fn(&HandOver) -> bool| -> Vec<u32> {
                    let chosen: Vec<u32> = offers.iter().filter(|of| what(of)).map(|of| of.number).collect();
                    if chosen.is_empty() { offers.iter().map(|of| of.number).collect() } else { chosen }
                };
                let rows = |numbers: Vec<u32>| -> Vec<&HandOver> {
                    numbers.into_iter().filter_map(|number| self.hand_over(number)).collect()
                };
                let equal = rows(prefer(equal, &|of| of.asked.as_ref().is_some_and(|asked| asked.1 == *live)));
                let equal = rows(prefer(equal, &|of| of.kind != Kind::Refused));
                let open: Vec<_> = equal.iter().copied().filter(|of| self.open(&me, of)).collect();
                let contents = Self::contents(open.iter());
                match contents.len() {
                    0 => self.pick(&me, &equal),
                    1 => {
                        let alike: Vec<_> =
                            equal.iter().copied().filter(|of| contents.contains(of.content.as_str())).collect();
                        self.pick(&me, &alike)
                    }
                    n => Ok(Outcome::Ambiguous(n as u32)),
                }
            }
            Claim::Parent { .. } if parent.is_none() => return Ok(say(Outcome::Nothing)),
            Claim::Parent { text: Some(text), agent_type, .. } => {
                let mut group: Vec<_> = all.iter().copied().filter(|of| of.task == *text).collect();
                if group.is_empty() {
                    group = all.into_iter().filter(|of| !of.task.is_empty() && text.contains(of.task)).collect();
                    let longest = group.iter().map(|of| of.task.len()).max().unwrap_or(0);
                    group.retain(|of| of.task.len() == longest);
                }
                group.retain(|of| agent_type.is_none() || of.agent_type.is_none() || of.agent_type == *agent_type);
                match Self::contents(group.iter()).len() {
                    0 | 1 => self.pick(&me, &group),
                    n => Ok(Outcome::Ambiguous(n as u32)),
                }
            }
            Claim::Parent { text: None, agent_type, registers_all } => {
                let fits =
                    |of: &&HandOver| agent_type.is_none() || of.agent_type.is_none() || of.agent_type == *agent_type;
                let mut open: Vec<&HandOver> =
                    all.iter().copied().filter(fits).filter(|of| self.taken(of.number) < of.children).collect();
                // Those of which it holds the last place, of whatever kind of agent.
                for row in self.given(&me) {
                    let held = row.hand_over.and_then(|number| self.hand_over(number)).filter(|of| self.holds(&me, of));
                    if let Some(of) = held.filter(|of| Some(&of.parent) == parent.as_ref())
                        && self.taken(of.number) >= of.children
                        && !open.iter().any(|other| other.number == of.number)
                    {
                        open.push(of);
                    }
                }
                let waiting: Vec<_> = open.iter().copied().filter(|of| self.over(of).is_none()).collect();
                match (waiting.len(), open.len()) {
                    (1, _) if *registers_all => self.pick(&me, &waiting),
                    (0, 0 | 1) => self.pick(&me, &open),
                    (0, n) | (n, _) => Ok(Outcome::Ambiguous(n as u32)),
                }
            }
        };
        Ok(match picked {
            Ok(outcome) => say(outcome),
            Err(number) => self.take(&me, session, number),
        })
    }

    /// R20: what a hand-over that waits gives to this child.
    fn take(&self, me: &str, session: &Session, number: u32) -> Finding {
        let of = self.hand_over(number).expect("it was found");
        let told = |outcome| Finding { outcome, hand_over: Some(number), freeze: None };
        match &of.kind {
            Kind::Nothing => return told(Outcome::Nothing),
            Kind::Off => return told(Outcome::Off),
            Kind::Refused => return told(Outcome::Refused),
            Kind::Frozen(_) | Kind::Live(_) => {}
        }
        let Some(owner) = self.sessions.get(&of.parent) else { return told(Outcome::Refused) };
        if let Some(outcome) = self.barred(session, owner) {
            return told(outcome);
        }
        match &of.kind {
            Kind::Live(order) => told(Outcome::Live(order.clone(), of.parent.clone())),
            Kind::Frozen(name) => {
                if let Some(over) = self.is_over(name) {
                    return say(over);
                }
                let fits = self.beside(me, None, self.snapshots[name].pages[0].len(), of.room);
                told(if fits { Outcome::Delivered(name.clone()) } else { Outcome::Refused })
            }
            _ => unreachable!(),
        }
    }

    pub fn barred(&self, me: &Session, owner: &Session) -> Option<Outcome> {
        if !self.on(me) || !self.on(owner) {
            Some(Outcome::Off)
        } else if !self.share(me.project, owner.project) {
            Some(Outcome::Refused)
        } else {
            None
        }
    }

    /// R27.
    pub fn beside(&self, child: &str, but: Option<&str>, bytes: usize, room: Option<Room>) -> bool {
        let others: Vec<u32> =
            self.given(child).filter(|row| Some(row.occasion) != but).filter_map(|row| row.bytes).collect();
        let sum = others.iter().map(|bytes| *bytes as usize).sum::<usize>() + bytes;
        others.is_empty() || room.is_none_or(|room| sum <= room.bytes() as usize)
    }

    /// R22: no hand-over names these.
    fn own(
        &self,
        me: &str,
        session: &Session,
        ids: Vec<String>,
        live: bool,
        capacity: Option<(Room, Overflow)>,
    ) -> Result<Finding, Fault> {
        if !self.on(session) {
            return Ok(say(Outcome::Off));
        }
        let (room, overflow) = capacity.ok_or(Fault::Malformed)?;
        if live && overflow == Overflow::Paginate {
            return Err(Fault::Malformed);
        }
        let order = Order { ids, room, overflow, strict: false };
        if live {
            return Ok(say(Outcome::Live(order, me.to_owned())));
        }
        // Its name, and whether it fits, is for the test to say.
        Ok(Finding { outcome: Outcome::Delivered(String::new()), hand_over: None, freeze: Some(order) })
    }

    /// What a child may have replayed, in order: ref and text.
    pub fn replays(&self, key: &str) -> Vec<(Option<String>, String)> {
        let child = self.canonical(key);
        let mut texts = Vec::new();
        for row in self.given(&child).filter(|row| row.keep > self.now) {
            match &row.outcome {
                Outcome::Delivered(name) => {
                    let snapshot = &self.snapshots[name];
                    if let Some(first) = snapshot.pages.first().filter(|_| !snapshot.revoked) {
                        texts.push((Some(name.clone()), first.clone()));
                    }
                }
                Outcome::Live(..) => {}
                _ => texts.extend(row.text.clone().map(|text| (None, text))),
            }
        }
        texts
    }

    /// R18, R32: one page.
    pub fn page(&self, key: &str, name: &str, number: usize) -> Result<String, Fault> {
        let on = self.session(key).is_some_and(|(_, session)| self.on(session));
        let child = self.canonical(key);
        let of_it = |row: &&Delivery| row.outcome == Outcome::Delivered(name.to_owned());
        let Some(snapshot) = self.snapshots.get(name).filter(|_| on) else { return Err(Fault::Unavailable) };
        let given = self.given(&child).filter(of_it).count() > 0;
        if self.given(&child).filter(of_it).any(|row| row.keep > self.now) && !snapshot.pages.is_empty() {
            return match snapshot.pages.get(number.wrapping_sub(1)) {
                Some(_) if snapshot.revoked => Err(Fault::Revoked),
                Some(page) => Ok(page.clone()),
                None => Err(Fault::Malformed),
            };
        }
        Err(match given {
            false => Fault::Unavailable,
            true if snapshot.revoked => Fault::Revoked,
            true => Fault::Expired,
        })
    }

    /// R15, R20.
    pub fn revalidate(&self, key: &str, name: &str) -> Result<(), Fault> {
        let (me, session) = self.session(key).ok_or(Fault::Unavailable)?;
        let snapshot = self.snapshots.get(name).ok_or(Fault::Unavailable)?;
        let owner = if snapshot.owner == me {
            session
        } else if session.parent.as_ref().map(|parent| self.canonical(parent)).as_ref() == Some(&snapshot.owner) {
            let owner = self.sessions.get(&snapshot.owner).ok_or(Fault::Unavailable)?;
            if self.barred(session, owner).is_some() {
                return Err(Fault::Unavailable);
            }
            owner
        } else {
            return Err(Fault::Unavailable);
        };
        if !self.on(owner) {
            return Err(Fault::Unavailable);
        }
        match self.is_over(name) {
            None => Ok(()),
            Some(Outcome::Revoked) => Err(Fault::Revoked),
            Some(_) => Err(Fault::Expired),
        }
    }

    /// R40, R41: ids, and whether the uses of one's own are counted.
    pub fn recall(&self, key: &str, target: Option<&str>) -> Result<(BTreeSet<String>, bool), Fault> {
        let (_, session) = self.session(key).ok_or(Fault::Unavailable)?;
        if !self.on(session) {
            return Ok((BTreeSet::new(), false));
        }
        let ids = |memories: &dyn Fn(&Memory) -> bool| {
            self.memories.iter().filter(|memory| memories(memory)).map(|memory| memory.id.clone()).collect()
        };
        let agent = session.agent.unwrap_or_default();
        match target.filter(|target| *target != agent) {
            None => Ok((ids(&|memory| self.sees_by(session, memory, false)), true)),
            Some(target) if self.linked(agent, target) => {
                Ok((ids(&|memory| memory.owner == Some(target) && self.sees(session, memory)), false))
            }
            Some(target) => {
                let reverse = self.links.iter().any(|link| link.from == target && link.to == agent);
                Err(if reverse { Fault::WrongDirection } else { Fault::NoLink })
            }
        }
    }

    /// R18, R19: how many rows go.
    pub fn sweep(&mut self) -> u32 {
        let now = self.now;
        let over: Vec<String> =
            self.snapshots.iter().filter(|(_, row)| row.keep <= now).map(|(name, _)| name.clone()).collect();
        for name in &over {
            let snapshot = self.snapshots.get_mut(name).expect("it was found");
            if snapshot.pages.is_empty() {
                self.snapshots.remove(name);
            } else {
                snapshot.pages.clear();
                snapshot.items.clear();
                snapshot.holds.clear();
                snapshot.keep = now + RETENTION;
            }
        }
        self.cascade();
        let unattached = |row: &HandOver| !matches!(row.kind, Kind::Frozen(_)) && row.keep <= now;
        let hand_overs = self.hand_overs.iter().filter(|row| unattached(row)).count();
        let alone = |row: &Delivery| {
            row.hand_over.is_none() && !matches!(row.outcome, Outcome::Delivered(_)) && row.keep <= now
        };
        let deliveries = self.deliveries.iter().filter(|row| alone(row)).count();
        self.hand_overs.retain(|row| !unattached(row));
        self.deliveries.retain(|row| !alone(row));
        self.cascade();
        (over.len() + hand_overs + deliveries) as u32
    }

    fn cascade(&mut self) {
        let Model { snapshots, hand_overs, deliveries, .. } = self;
        hand_overs.retain(|row| if let Kind::Frozen(name) = &row.kind { snapshots.contains_key(name) } else { true });
        deliveries.retain(|row| {
            let there = if let Outcome::Delivered(name) = &row.outcome { snapshots.contains_key(name) } else { true };
            there && row.hand_over.is_none_or(|number| hand_overs.iter().any(|of| of.number == number))
        });
    }

    /// R18: what only this child still needed is needed no more.
    pub fn end(&mut self, key: &str) {
        let (child, now) = (self.canonical(key), self.now);
        for row in self.deliveries.iter_mut().filter(|row| row.child == child) {
            row.keep = row.keep.min(now);
        }
        let Model { snapshots, hand_overs, deliveries, .. } = self;
        let latest = |of: &dyn Fn(&Delivery) -> bool, expires| {
            let its = || deliveries.iter().filter(|row| of(row));
            its().any(|row| row.child == child).then(|| its().map(|row| row.keep).fold(expires, Time::max))
        };
        for (name, snapshot) in snapshots.iter_mut().filter(|(_, snapshot)| !snapshot.pages.is_empty()) {
            let its = |row: &Delivery| row.outcome == Outcome::Delivered(name.clone());
            if let Some(latest) = latest(&its, snapshot.expires) {
                snapshot.keep = snapshot.keep.min(latest);
            }
        }
        for of in hand_overs {
            if let Some(latest) = latest(&|row| row.hand_over == Some(of.number), of.expires) {
                of.keep = of.keep.min(latest);
            }
        }
    }

    /// Keep a delivery, and what it needs as long.
    pub fn keep(&mut self, row: Delivery) {
        if let Outcome::Delivered(name) = &row.outcome {
            let snapshot = self.snapshots.get_mut(name).expect("it was delivered");
            snapshot.keep = snapshot.keep.max(row.keep);
        }
        for of in self.hand_overs.iter_mut().filter(|of| Some(of.number) == row.hand_over) {
            of.keep = of.keep.max(row.keep);
        }
        self.deliveries.push(row);
    }
}

/// R2: the first of each, without one leading `#`.
pub fn distinct(ids: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for id in ids {
        let id = id.strip_prefix('#').unwrap_or(id);
        if !out.iter().any(|other| other == id) {
            out.push(id.to_owned());
        }
    }
    out
}
