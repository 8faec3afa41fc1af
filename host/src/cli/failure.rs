//! Why a command did not do what it was asked: exit code, a word for scripts, a sentence for people and a hint what to
//! try. What the library answers becomes one of these here, and nowhere else.

use std::process::ExitCode;

use memory_prefetch::contract::{self, StoreError};
use memory_prefetch::limits::Stopped;
use memory_prefetch::runtime::explain;
use memory_prefetch::store::StoreFailure;
use memory_prefetch::{CallError, LoadError};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::terminal;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The answer could not be written out.
    Output = 1,
    /// The request is malformed.
    Malformed = 2,
    /// It is refused: by the policy, or since what it names is not there.
    Refused = 3,
    /// The store.
    Store = 4,
    /// The component.
    Component = 5,
}

/// Why a command ends early.
#[derive(Debug)]
pub enum Failure {
    /// Whoever read the output has gone (`memory-prefetch … | head`): there is nobody to tell.
    Closed,
    /// Something is to be told.
    Told(Box<Report>),
}

/// What is told.
#[derive(Debug)]
pub struct Report {
    exit: Exit,
    code: String,
    message: String,
    hint: Option<String>,
    /// For scripts: a JSON object.
    details: Box<RawValue>,
    /// For people: lines below the message.
    lines: Vec<String>,
}

impl Failure {
    /// A failure with this word and this sentence.
    pub fn new(exit: Exit, code: &str, message: impl Into<String>) -> Failure {
        Failure::Told(Box::new(Report {
            exit,
            code: code.to_owned(),
            message: message.into(),
            hint: None,
            details: raw(&json!({})),
            lines: Vec::new(),
        }))
    }

    /// The request itself is wrong.
    pub fn malformed(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Malformed, "malformed", message)
    }

    /// What to try.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        if let Failure::Told(report) = &mut self {
            report.hint = Some(hint.into());
        }
        self
    }

    /// What a script may want to know.
    pub fn details(mut self, details: impl Serialize) -> Failure {
        if let Failure::Told(report) = &mut self {
            report.details = raw(&details);
        }
        self
    }

    /// What a person may want to know, below the message.
    pub fn lines(mut self, lines: Vec<String>) -> Failure {
        if let Failure::Told(report) = &mut self {
            report.lines = lines;
        }
        self
    }

    /// Tell it on stderr. A closed stderr is no reason to fail in another way.
    pub fn tell(self, as_json: bool) -> ExitCode {
        let Failure::Told(report) = self else { return ExitCode::SUCCESS };
        let Report { exit, code, message, hint, details, lines } = *report;
        if as_json {
            #[derive(Serialize)]
            struct Body {
                code: String,
                message: String,
                details: Box<RawValue>,
            }
            #[derive(Serialize)]
            struct Error {
                error: Body,
            }
            let error = Error { error: Body { code, message, details } };
            terminal::stderr(&serde_json::to_string(&error).unwrap_or_default());
        } else {
            let mut text = format!("error: {}", terminal::escaped(&message));
            for line in lines {
                text += &format!("\n  {}", terminal::escaped(&line));
            }
            if let Some(hint) = hint {
                text += &format!("\nhint: {}", terminal::escaped(&hint));
            }
            terminal::stderr(&text);
        }
        ExitCode::from(exit as u8)
    }
}

/// Fields keep their order.
fn raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

impl From<StoreFailure> for Failure {
    fn from(failure: StoreFailure) -> Failure {
        let message = failure.to_string();
        match failure {
            StoreFailure::Busy(_) => Failure::new(Exit::Store, "store-busy", message)
                .hint("nothing was stored: try again, or wait longer with --busy-timeout"),
            StoreFailure::Absent(_) => Failure::new(Exit::Store, "store-absent", message)
                .hint("check --store; commands that add something make a new store, `memory-prefetch agent add` first"),
            StoreFailure::Damaged(_) => Failure::new(Exit::Store, "store-damaged", message)
                .hint("the store is left as it is: restore it from a copy, or choose another one with --store"),
            StoreFailure::TooLarge(_) => Failure::new(Exit::Refused, "too-large", message),
            StoreFailure::Other(_) => Failure::new(Exit::Store, "store", message),
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Failure {
        let message = error.to_string();
        let failure = |code| Failure::new(Exit::Component, code, message.clone());
        const BUILT_IN: &str = "leave --component out to run the built-in one; `memory-prefetch component export PATH` \
                                writes it to a file";
        match error {
            LoadError::Read { .. } => failure("component-unreadable").hint("check the path after --component"),
            LoadError::OtherDigest { expected, found } => failure("component-digest")
                .details(json!({ "expected": expected, "found": found }))
                .hint("`memory-prefetch component inspect` shows what a component is and its digest"),
            LoadError::NotAComponent(_) => failure("not-a-component").hint(BUILT_IN),
            LoadError::OtherWorld { needs, offers, .. } => {
                failure("component-world").details(json!({ "needs": needs, "offers": offers })).hint(BUILT_IN)
            }
            LoadError::Engine(_) => failure("engine"),
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Failure {
        let message = error.to_string();
        let failure = |exit, code| Failure::new(exit, code, message.clone());
        const INSPECT: &str = "nothing was stored; `memory-prefetch component inspect` shows which component this is";
        match error {
            CallError::Policy(error) => policy(error),
            CallError::Store(error) => error.into(),
            CallError::Stopped { why, .. } => {
                let word = match why {
                    Stopped::OutOfTime => "out-of-time",
                    Stopped::TooManyHostCalls => "too-many-host-calls",
                    Stopped::TooMuch => "too-much",
                    Stopped::ForbiddenImport => "forbidden-import",
                    Stopped::BadArgument => "bad-argument",
                    Stopped::TooManyInstances => "too-many-instances",
                };
                failure(Exit::Component, "component-stopped").details(json!({ "why": word })).hint(INSPECT)
            }
            CallError::Trapped { .. } => failure(Exit::Component, "component-failed").hint(INSPECT),
            CallError::Nonsense { .. } => failure(Exit::Component, "component-nonsense").hint(INSPECT),
            CallError::RequestTooLarge { bytes, limit } => {
                failure(Exit::Malformed, "request-too-large").details(json!({ "bytes": bytes, "limit": limit }))
            }
        }
    }
}

/// What the policy answers as an error.
fn policy(error: contract::Error) -> Failure {
    use contract::Error as E;
    let message = explain(&error);
    let failure = |exit, code| Failure::new(exit, code, message.clone());
    const LINK: &str = "`memory-prefetch link list` shows the links; `memory-prefetch link add READER OWNER --direction \
                        one-way` lets one agent read another one";
    match error {
        E::Malformed(_) => failure(Exit::Malformed, "malformed"),
        E::Unavailable(names) => {
            let refs = names.iter().any(|name| name.starts_with("snap_"));
            failure(Exit::Refused, "unavailable").details(json!({ "names": names })).hint(if refs {
                "a snapshot is for the session that made it and for the children of that session; `memory-prefetch \
                 snapshots list` shows all"
            } else {
                "`memory-prefetch session list` shows the sessions, `memory-prefetch session add` adds one"
            })
        }
        E::Expired => failure(Exit::Refused, "expired"),
        E::Revoked => failure(Exit::Refused, "revoked").hint("delegate again"),
        E::Corrupt(name) => failure(Exit::Store, "corrupt")
            .details(json!({ "name": name }))
            .hint("delegate again; `memory-prefetch snapshots verify` checks all snapshots"),
        E::NoLink => failure(Exit::Refused, "no-link").hint(LINK),
        E::WrongDirection => failure(Exit::Refused, "wrong-direction").hint(LINK),
        E::StoreNotAvailable => failure(Exit::Store, "store-not-available"),
        E::Store(error) => match error {
            StoreError::Busy(why) => StoreFailure::Busy(why).into(),
            StoreError::Absent(why) => StoreFailure::Absent(why).into(),
            StoreError::Damaged(why) => StoreFailure::Damaged(why).into(),
            StoreError::TooLarge(why) => StoreFailure::TooLarge(why).into(),
            StoreError::Other(why) => StoreFailure::Other(why).into(),
        },
        E::Other(why) if why == "unsupported" => failure(Exit::Component, "unsupported")
            .hint("`memory-prefetch component inspect` shows which component this is"),
        E::Other(_) => failure(Exit::Component, "other"),
    }
}
