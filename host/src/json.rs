//! The contract's values as JSON, in the notation of the scenarios (tests/scenarios/README.md), and calls by name: so a
//! scenario can call any export, and every language's runner reads the same files.

use serde_json::{Map, Value, json};
use thiserror::Error;
use wasmtime::component::{Type, Val};

use crate::answers::{self, Seen};
use crate::contract::{self, Block, SessionKey, View};
use crate::exports::Export;
use crate::runtime::{CallError, Prefetch};
use crate::store::{Store, StoreFailure};
use crate::world::CONTRACT;

/// Why a call by name did not come about or fail.
#[derive(Debug, Error)]
pub enum JsonError {
    /// There is no such function, or the arguments are not of its type.
    #[error("{0}")]
    Call(String),
    /// The call failed.
    #[error(transparent)]
    Failed(#[from] CallError),
}

/// Call the export `name` (`child.deliver`) with these arguments by name. Answers `{"ok": …}` or
/// `{"error": {"tag": …, "val": …}}`; functions that cannot fail answer `{"ok": …}` too.
pub fn call<S: Store + 'static>(
    prefetch: &mut Prefetch<S>,
    name: &str,
    args: &Map<String, Value>,
) -> Result<Value, JsonError> {
    let export = Export::by_name(name).ok_or_else(|| JsonError::Call(format!("there is no export {name}")))?;
    let (interface, function) = name.split_once('.').unwrap_or_default();
    let session = ["session", "child"].iter().find_map(|arg| args.get(*arg)).map(session_key);
    let bytes = Value::Object(args.clone()).to_string().len();

    // What a policy answers as an error must undo the unit, so it goes through `call` as one and comes back below.
    let called = prefetch.call(export, session.as_ref(), bytes, |run| {
        let path = format!("agent-memory:prefetch/{interface}@{CONTRACT}");
        let index = run.instance.get_export_index(&mut run.wasm, None, &path);
        let index = index.and_then(|index| run.instance.get_export_index(&mut run.wasm, Some(&index), function));
        let func = index.and_then(|index| run.instance.get_func(&mut run.wasm, index));
        let Some(func) = func else { return Ok(Ok(Err(format!("the component has no {name}")))) };
        let ty = func.ty(&run.wasm);
        let mut params = Vec::new();
        for (param, ty) in ty.params() {
            match to_val(args.get(param).unwrap_or(&Value::Null), &ty, param) {
                Ok(val) => params.push(val),
                Err(why) => return Ok(Ok(Err(why))),
            }
        }
        if let Some(unknown) = args.keys().find(|arg| !ty.params().any(|(param, _)| param == arg.as_str())) {
            return Ok(Ok(Err(format!("{name} has no argument {unknown:?}"))));
        }
        if export == Export::Forget {
            let ids = args.get("memory-ids").and_then(Value::as_array).into_iter().flatten();
            let ids: Vec<String> = ids.filter_map(Value::as_str).map(String::from).collect();
            run.wasm.data_mut().state().unit.erase(&ids);
        }
        let request: Vec<Value> = params.iter().map(typed).collect();
        name_refs(run.seen(), export, &request)?;
        let mut results = vec![Val::Bool(false); ty.results().len()];
        func.call(&mut run.wasm, &params, &mut results)?;
        let result = results.pop().unwrap_or(Val::Bool(false));
        check(run.seen(), export, session.as_ref(), &request, &result)?;
        Ok(match result {
            Val::Result(Err(error)) => {
                Err(contract::Error::Other(error.map_or(Value::Null, |error| from_val(&error)).to_string()))
            }
            Val::Result(Ok(value)) => Ok(Ok(value.map_or(Value::Null, |value| from_val(&value)))),
            value => Ok(Ok(from_val(&value))),
        })
    });
    match called {
        Ok(Ok(value)) => Ok(json!({ "ok": value })),
        Ok(Err(why)) => Err(JsonError::Call(why)),
        Err(CallError::Policy(contract::Error::Other(error))) => {
            let error: Value = serde_json::from_str(&error).map_err(|error| JsonError::Call(error.to_string()))?;
            Ok(json!({ "error": error }))
        }
        // What the component would have been told, had the unit been opened for it.
        Err(CallError::Store(failure)) => {
            let (tag, why) = match failure {
                StoreFailure::Busy(why) => ("busy", why),
                StoreFailure::Absent(why) => ("absent", why),
                StoreFailure::Damaged(why) => ("damaged", why),
                StoreFailure::TooLarge(why) => ("too-large", why),
                StoreFailure::Other(why) => ("other", why),
            };
            Ok(json!({ "error": { "tag": "store", "val": { "tag": tag, "val": why } } }))
        }
        Err(error) => Err(error.into()),
    }
}

/// As the typed calls of [`Prefetch`] do before they call.
fn name_refs(seen: &mut Seen, export: Export, request: &[Value]) -> wasmtime::Result<()> {
    match (export, request) {
        (Export::Estimate | Export::Delegate, [_, request]) => seen.request(&of(request)?),
        (Export::Deliver, [_, _, claim]) => seen.claim(&of(claim)?),
        (Export::Revalidate | Export::Revoke | Export::Page, [_, name, ..]) => seen.named(&of::<String>(name)?),
        _ => {}
    }
    Ok(())
}

/// As the typed calls of [`Prefetch`] do with the answer.
fn check(
    seen: &Seen,
    export: Export,
    session: Option<&SessionKey>,
    request: &[Value],
    answer: &Val,
) -> wasmtime::Result<()> {
    let answer = match answer {
        Val::Result(Err(error)) => {
            let error = error.as_deref().map_or(Value::Null, typed);
            return Ok(answers::error(seen, session, &of(&error)?)?);
        }
        Val::Result(Ok(answer)) => answer.as_deref().map_or(Value::Null, typed),
        answer => typed(answer),
    };
    match (export, request) {
        (Export::Estimate | Export::Delegate, [_, request]) => answers::delegation(seen, &of(request)?, &of(&answer)?)?,
        (Export::Revalidate, [_, name]) => answers::revalidated(seen, &of::<String>(name)?, &of(&answer)?)?,
        (Export::Deliver, [_, _, claim]) => answers::delivery(seen, &of(claim)?, &of(&answer)?)?,
        (Export::Replay, _) => answers::replayed(seen, &of::<Vec<Block>>(&answer)?)?,
        (Export::Page, [_, name, number]) => answers::page(seen, &of::<String>(name)?, of(number)?, &of(&answer)?)?,
        (Export::Get, [_, ids]) => answers::found(seen, &of::<Vec<String>>(ids)?, &of(&answer)?)?,
        (Export::Recall, [.., limit]) => answers::recalled(seen, of(limit)?, &of::<Vec<View>>(&answer)?)?,
        (Export::Evictable, [ids]) => answers::evictable(&of::<Vec<String>>(ids)?, &of::<Vec<String>>(&answer)?)?,
        (Export::Sweep, [limit]) => answers::swept(of(limit)?, &of(&answer)?)?,
        (Export::Forget, _) => answers::forgotten(seen, &of(&answer)?)?,
        (Export::Decode, [json]) => answers::decoded(&of::<String>(json)?, &of(&answer)?)?,
        (Export::ParseMarkers, [text]) => answers::marked(&of::<String>(text)?, &of(&answer)?)?,
        (Export::Revoke | Export::SessionEnded | Export::Encode | Export::Describe, _) => {}
        (export, _) => return Err(wasmtime::Error::msg(format!("{} has other arguments", export.name()))),
    }
    Ok(())
}

/// A value of the contract from what [`typed`] made.
fn of<T: serde::de::DeserializeOwned>(value: &Value) -> wasmtime::Result<T> {
    T::deserialize(value).map_err(|error| wasmtime::Error::msg(format!("not a value of the contract: {error}")))
}

/// A value as the JSON that serde reads the contract's Rust types from.
fn typed(val: &Val) -> Value {
    let case = |name: &str| name.split('-').map(capitalised).collect::<String>();
    match val {
        Val::List(values) | Val::Tuple(values) => values.iter().map(typed).collect(),
        Val::Record(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.replace('-', "_"), typed(value))).collect())
        }
        Val::Enum(name) | Val::Variant(name, None) => json!(case(name)),
        Val::Variant(name, Some(value)) => json!({ case(name): typed(value) }),
        Val::Option(value) => value.as_deref().map_or(Value::Null, typed),
        other => from_val(other),
    }
}

fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
}

fn session_key(value: &Value) -> SessionKey {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    SessionKey { harness: text("harness"), id: text("id") }
}

/// JSON to a value of this type. Missing options are `none`, missing lists empty, missing booleans `false`; everything
/// else must be there. `path` names the place in the error.
fn to_val(value: &Value, ty: &Type, path: &str) -> Result<Val, String> {
    let wrong = |what: &str| format!("{path} is {value}, and {what} is needed");
    let number = |max: u64| value.as_u64().filter(|n| *n <= max).ok_or_else(|| wrong("a whole number that fits"));
    Ok(match ty {
        Type::Bool if value.is_null() => Val::Bool(false),
        Type::Bool => Val::Bool(value.as_bool().ok_or_else(|| wrong("true or false"))?),
        Type::U32 => Val::U32(u32::try_from(number(u32::MAX.into())?).map_err(|_| wrong("a smaller number"))?),
        Type::U64 => Val::U64(number(u64::MAX)?),
        Type::String => Val::String(value.as_str().ok_or_else(|| wrong("a string"))?.to_owned()),
        Type::List(_) if value.is_null() => Val::List(Vec::new()),
        Type::List(list) => {
            let values = value.as_array().ok_or_else(|| wrong("an array"))?;
            Val::List(each(values, |_| Some(list.ty()), path)?)
        }
        Type::Tuple(tuple) => {
            let types: Vec<Type> = tuple.types().collect();
            let values = value.as_array().filter(|values| values.len() == types.len());
            let values = values.ok_or_else(|| wrong("an array of the right length"))?;
            Val::Tuple(each(values, |index| types.get(index).cloned(), path)?)
        }
        Type::Option(_) if value.is_null() => Val::Option(None),
        Type::Option(option) => Val::Option(Some(Box::new(to_val(value, &option.ty(), path)?))),
        Type::Enum(names) => {
            let name = value.as_str().filter(|name| names.names().any(|known| known == *name));
            let known = || wrong(&format!("one of {}", names.names().collect::<Vec<_>>().join(", ")));
            Val::Enum(name.ok_or_else(known)?.to_owned())
        }
        Type::Record(record) => {
            let object = value.as_object().ok_or_else(|| wrong("an object"))?;
            if let Some(key) = object.keys().find(|key| !record.fields().any(|field| field.name == key.as_str())) {
                return Err(format!("{path} has the unknown field {key:?}"));
            }
            let mut fields = Vec::new();
            for field in record.fields() {
                let inner = object.get(field.name).unwrap_or(&Value::Null);
                fields.push((field.name.to_owned(), to_val(inner, &field.ty, &format!("{path}.{}", field.name))?));
            }
            Val::Record(fields)
        }
        Type::Variant(variant) => {
            let tag = value.get("tag").and_then(Value::as_str).ok_or_else(|| wrong("an object with a tag"))?;
            let case = variant.cases().find(|case| case.name == tag);
            let case = case.ok_or_else(|| {
                wrong(&format!("a tag of {}", variant.cases().map(|case| case.name).collect::<Vec<_>>().join(", ")))
            })?;
            let inner = match case.ty {
                None => None,
                Some(ty) => {
                    let val = value.get("val").unwrap_or(&Value::Null);
                    Some(Box::new(to_val(val, &ty, &format!("{path}.{tag}"))?))
                }
            };
            Val::Variant(tag.to_owned(), inner)
        }
        other => return Err(format!("{path}: the contract has no values of type {other:?}")),
    })
}

fn each(values: &[Value], ty: impl Fn(usize) -> Option<Type>, path: &str) -> Result<Vec<Val>, String> {
    let mut out = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let ty = ty(index).ok_or_else(|| format!("{path} is one too many"))?;
        out.push(to_val(value, &ty, &path)?);
    }
    Ok(out)
}

/// A value as JSON: records as objects, variants as `{"tag", "val"}`, enums as strings, `none` as `null`.
fn from_val(val: &Val) -> Value {
    match val {
        Val::Bool(value) => json!(value),
        Val::U32(value) => json!(value),
        Val::U64(value) => json!(value),
        Val::String(value) | Val::Enum(value) => json!(value),
        Val::List(values) | Val::Tuple(values) => values.iter().map(from_val).collect(),
        Val::Record(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), from_val(value))).collect())
        }
        Val::Variant(tag, None) => json!({ "tag": tag }),
        Val::Variant(tag, Some(value)) => json!({ "tag": tag, "val": from_val(value) }),
        Val::Option(value) => value.as_ref().map_or(Value::Null, |value| from_val(value)),
        // The portable subset has no others, and a result only as a whole answer.
        other => json!(format!("{other:?}")),
    }
}
