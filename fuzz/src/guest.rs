//! The host against a guest that hands over anything: it calls any imports with any arguments, and answers with any
//! bytes of its memory. The host answers with a typed error or with what it checked; whatever is not kept is not
//! written, and the next caller is served (docs/hosts.md, "Answers").
//!
//! The guest is assembled here from the contract's signatures. Its program is the input: a list of calls, each a byte
//! that says which import and two bytes for each argument, then two bytes for the address of the answer.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use memory_prefetch::contract::*;
use memory_prefetch::exports::Export;
use memory_prefetch::limits::Limits;
use memory_prefetch::operator::{NewMemory, NewSession, Operator};
use memory_prefetch::store::Access;
use memory_prefetch::{CallError, MemoryStore, Prefetch, Runtime, SqliteStore};
use wasm_encoder as wasm;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::abi::{AbiVariant, WasmType};
use wit_parser::{Resolve, WorldItem};

/// Where the program lies in the guest's memory.
const PROGRAM: i32 = 0x1000;
/// How long it may be.
const LONGEST: usize = 0x800;
/// Where what the host hands over begins.
const HEAP: i32 = 0x2000;
/// What the guest asks the setting of for its program.
const SETTING: &str = "program";
/// Where the list of that one name lies, and where its answer goes.
const NAMES: i32 = 0x100;
const ANSWER: i32 = 0x200;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let limits = Limits {
        memory: 1 << 20,
        table_elements: 100,
        time: Duration::from_secs(1),
        host_calls: 100,
        bytes_in: 1 << 18,
        bytes_out: 1 << 18,
        ..Limits::default()
    };
    Runtime::builder().component_bytes(component()).limits(limits).build().expect("the guest fits the world")
});

/// Any bytes: the store, the export, and the program.
pub fn run(data: &[u8]) {
    let Some((&[kind, number, limit], program)) = data.split_first_chunk() else { return };
    let program = &program[..program.len().min(LONGEST)];
    let export = Export::ALL[usize::from(number) % Export::ALL.len()];
    if kind % 16 == 1 {
        let store = SqliteStore::in_memory().expect("a store");
        call(store, export, u32::from(limit), program, false);
    } else {
        call(MemoryStore::new(), export, u32::from(limit), program, true);
    }
}

fn key(id: &str) -> SessionKey {
    SessionKey { harness: "h".into(), id: id.into() }
}

const REF: &str = "snap_000000000000000000000000000000000000001";
const OTHER: &str = "snap_000000000000000000000000000000000000002";
const BODY: &str = "a body";

fn seed<S: Operator>(store: &mut S, program: &[u8]) {
    let project = Project { id: "p".into(), workspace: None, memory_on: true, trusted: true, attributes: Vec::new() };
    store.put_project(&project).expect("to write");
    for (id, parent) in [("s", None), ("c", Some(key("s")))] {
        let session =
            NewSession { key: key(id), agent: Some("a".into()), project: Some("p".into()), parent, memory_on: true };
        store.put_session(&session).expect("to write");
    }
    for id in ["1", "2"] {
        let memory = NewMemory { id: Some(id.into()), ..NewMemory::new("a", "p", BODY) };
        store.add_memory(&memory, 0).expect("to write");
    }
    store.begin_unit(Access::Write).expect("to begin");
    for name in [REF, OTHER] {
        let snapshot = Snapshot {
            snapshot_ref: name.into(),
            owner: key("s"),
            created_at: 0,
            expires_at: 1 << 40,
            keep_until: 1 << 40,
            revoked_at: None,
            memory_ids: vec!["1".into()],
            pages: 1,
            state: String::new(),
        };
        let page = Page { number: 1, text: "a page".into(), check: String::new(), state: String::new() };
        store.insert_snapshot(&Frozen { snapshot, pages: vec![page] }).expect("to write");
        let delivery = Delivery {
            child: key("c"),
            occasion: name.into(),
            snapshot_ref: Some(name.into()),
            hand_over: None,
            place: 0,
            at: 0,
            keep_until: 1 << 40,
            state: String::new(),
            check: None,
            notice: None,
        };
        assert!(store.insert_delivery(&delivery).expect("to write"));
    }
    store.commit().expect("to commit");
    store.put_setting(None, SETTING, Some(&blank(program))).expect("to write");
}

/// The program as white space, a character for each bit, so that it can stand behind JSON.
fn blank(program: &[u8]) -> String {
    program.iter().flat_map(|byte| (0..8).map(move |bit| if byte >> bit & 1 == 1 { '\t' } else { ' ' })).collect()
}

fn call<S: Operator + 'static>(mut store: S, export: Export, limit: u32, program: &[u8], shows: bool)
where
    Prefetch<S>: Rows,
{
    seed(&mut store, program);
    let mut prefetch = RUNTIME.open(store).expect("it was opened before");
    let before = if shows { prefetch.rows() } else { String::new() };
    let ids: Vec<String> = ["1", "#2", "missing", "1"].map(String::from).into();
    let named = || MemoryField::PrefetchIds(NamedIds { ids: ids.clone(), mode: Mode::Frozen });
    let request = Request::new("a task").with_memory(named(), Capacity::bytes(1_000));
    let (parent, child) = (key("s"), key("c"));
    let claim = Claim::SnapshotRef(REF.into());
    let json = format!(r##"{{"task":"t","memory":{{"prefetch_ids":["11","#55",7]}}}}{}"##, blank(program));
    let text = format!("⟦mc-mem: 11, 55⟧ {}", blank(program));
    let mut stays = true;
    let answer = match export {
        Export::Estimate => prefetch.estimate(&parent, &request).map(outcome),
        Export::Delegate => {
            stays = false;
            prefetch.delegate(&parent, &request).map(outcome)
        }
        Export::Revalidate => prefetch.revalidate(&parent, REF).map(|receipt| receipt_names(&receipt)),
        Export::Revoke => {
            stays = false;
            prefetch.revoke(&parent, REF).map(|()| Vec::new())
        }
        Export::Deliver => {
            stays = false;
            prefetch.deliver(&child, "later", &claim).map(|answer| {
                let mut names = answer.receipt.as_ref().map(receipt_names).unwrap_or_default();
                names.extend(answer.block.and_then(|block| block.snapshot_ref));
                names
            })
        }
        Export::Replay => {
            prefetch.replay(&child).map(|blocks| blocks.into_iter().filter_map(|block| block.snapshot_ref).collect())
        }
        Export::Page => prefetch.page(&child, REF, limit).map(|block| {
            assert_eq!((block.page, block.snapshot_ref.as_deref()), (limit, Some(REF)));
            assert!(block.page <= block.pages);
            Vec::new()
        }),
        Export::Get => prefetch.get(&parent, &ids).map(|found| {
            let all: Vec<_> = found.memories.iter().map(|view| &view.id).chain(&found.unavailable).collect();
            assert!(all.len() == 3 && ["1", "2", "missing"].iter().all(|id| all.iter().any(|name| name == id)));
            assert!(found.memories.iter().all(|view| view.id != "missing"), "the store did not show it");
            Vec::new()
        }),
        Export::Recall => {
            stays = false;
            prefetch.recall(&parent, None, "body", limit).map(|views| {
                assert!(views.len() <= limit as usize && views.len() <= 2);
                assert!(views.iter().all(|view| view.id == "1" || view.id == "2"));
                Vec::new()
            })
        }
        Export::Evictable => prefetch.evictable(&ids).map(|free| {
            assert!(free.len() <= 3 && free.iter().all(|id| ["1", "2", "missing"].contains(&id.as_str())));
            Vec::new()
        }),
        Export::Sweep => {
            stays = false;
            prefetch.sweep(limit).map(|swept| {
                assert!(swept.removed <= 4 * limit);
                Vec::new()
            })
        }
        Export::SessionEnded => {
            stays = false;
            prefetch.session_ended(&child).map(|()| Vec::new())
        }
        Export::Forget => {
            stays = false;
            prefetch.forget(&ids).map(|erased| {
                assert_eq!(erased.memories, ["1", "2"]);
                Vec::new()
            })
        }
        Export::Encode => {
            prefetch.encode(&Delegation { task: blank(program), memory: Some(named()) }).map(|_| Vec::new())
        }
        Export::Decode => prefetch.decode(&json).map(|delegation| {
            match delegation.memory {
                Some(MemoryField::PrefetchIds(named)) => {
                    assert!(named.ids.iter().all(|id| ["11", "55", "7"].contains(&plain(id))), "{:?}", named.ids);
                }
                Some(MemoryField::SnapshotRef(name)) => panic!("{name} is not in the text"),
                None => {}
            }
            Vec::new()
        }),
        Export::ParseMarkers => prefetch.parse_markers(&text).map(|marked| {
            assert!(marked.ids.iter().all(|id| text.contains(id.as_str())));
            Vec::new()
        }),
        Export::Describe => prefetch.describe().map(|_| Vec::new()),
    };
    let inserted = if shows { prefetch.rows() } else { String::new() };
    match &answer {
        Ok(names) => {
            for name in names {
                assert!(!shows || inserted.contains(name.as_str()) || name == "missing", "{name} is nobody's");
            }
        }
        Err(CallError::Policy(Error::Unavailable(names))) => {
            let known = |name: &String| [REF, OTHER, "s", "c", "h/s", "h/c"].contains(&name.as_str());
            // What it inserted before it failed was a row of this unit.
            assert!(!stays || names.iter().all(known), "{names:?}");
        }
        Err(_) => {}
    }
    if shows && (stays || answer.is_err()) {
        assert!(inserted == before, "{export:?} has written something, and {answer:?}");
    }
    // Whatever became of it, the next caller is served, by an instance that has nothing of this one.
    match prefetch.revalidate(&key("other"), REF) {
        Ok(_)
        | Err(
            CallError::Policy(_) | CallError::Stopped { .. } | CallError::Trapped { .. } | CallError::Nonsense { .. },
        ) => {}
        Err(other) => panic!("{other:?}"),
    }
}

fn outcome(outcome: DelegationOutcome) -> Vec<String> {
    match outcome {
        DelegationOutcome::HandedOver(delegated) => {
            let mut names = delegated.receipt.as_ref().map(receipt_names).unwrap_or_default();
            match delegated.memory {
                Some(MemoryField::SnapshotRef(name)) => names.push(name),
                Some(MemoryField::PrefetchIds(named)) => names.extend(named.ids.iter().map(|id| plain(id).to_owned())),
                None => {}
            }
            names
        }
        DelegationOutcome::Refused(Refusal::Unavailable(ids)) => ids,
        DelegationOutcome::Refused(_) | DelegationOutcome::MemoryOff => Vec::new(),
    }
}

/// R2: as it is read.
fn plain(id: &str) -> &str {
    id.strip_prefix('#').unwrap_or(id)
}

fn receipt_names(receipt: &Receipt) -> Vec<String> {
    assert!(receipt.pages > 0);
    // What was erased, and what is told of a stored snapshot's state, is the component's own.
    let items = receipt.items.iter().filter(|item| !item.removed).map(|item| item.id.clone());
    items.chain(receipt.snapshot_ref.clone()).collect()
}

/// Everything that a store has, but for the audit.
trait Rows {
    fn rows(&mut self) -> String;
}

impl Rows for Prefetch<MemoryStore> {
    fn rows(&mut self) -> String {
        let all = format!("{:?}", self.store());
        all.split_once("audit: [").expect("a field for the audit").0.to_owned()
    }
}

impl Rows for Prefetch<SqliteStore> {
    fn rows(&mut self) -> String {
        String::new()
    }
}

/// The guest.
fn component() -> Vec<u8> {
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit");
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit).expect("the contract can be read");
    let world = resolve.select_world(&[package], None).expect("it has one world");
    let mut module = module(&resolve, world).finish();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("to embed");
    let mut encoder = ComponentEncoder::default().validate(true).module(&module).expect("a core module");
    encoder.encode().expect("a component")
}

/// A function of the contract: interface, name and core signature.
type Function = (String, String, Vec<wasm::ValType>, Vec<wasm::ValType>);

fn functions<'a>(
    resolve: &Resolve,
    items: impl Iterator<Item = (&'a wit_parser::WorldKey, &'a WorldItem)>,
    variant: AbiVariant,
) -> Vec<Function> {
    let types = |types: &[WasmType]| -> Vec<wasm::ValType> {
        types
            .iter()
            .map(|ty| match ty {
                WasmType::I64 | WasmType::PointerOrI64 => wasm::ValType::I64,
                WasmType::F32 | WasmType::F64 => unreachable!("the contract has no floats"),
                WasmType::I32 | WasmType::Pointer | WasmType::Length => wasm::ValType::I32,
            })
            .collect()
    };
    let mut all = Vec::new();
    for (key, item) in items {
        let WorldItem::Interface { id, .. } = item else { continue };
        for (name, function) in &resolve.interfaces[*id].functions {
            let signature = resolve.wasm_signature(variant, function);
            all.push((resolve.name_world_key(key), name.clone(), types(&signature.params), types(&signature.results)));
        }
    }
    all
}

fn module(resolve: &Resolve, world: wit_parser::WorldId) -> wasm::Module {
    use wasm::ValType::I32;
    let world = &resolve.worlds[world];
    let imports = functions(resolve, world.imports.iter(), AbiVariant::GuestImport);
    let exports = functions(resolve, world.exports.iter(), AbiVariant::GuestExport);
    let settings = imports.iter().position(|(_, name, ..)| name == "settings").expect("there are settings") as u32;

    let mut types = wasm::TypeSection::new();
    let mut imported = wasm::ImportSection::new();
    let mut functions = wasm::FunctionSection::new();
    let mut exported = wasm::ExportSection::new();
    let mut code = wasm::CodeSection::new();
    for (place, (interface, name, params, results)) in (0..).zip(&imports) {
        types.ty().function(params.iter().copied(), results.iter().copied());
        imported.import(interface, name, wasm::EntityType::Function(place));
    }
    let first = imports.len() as u32;

    // Gives out memory from HEAP on: (old, old size, alignment, size) -> address.
    types.ty().function([I32; 4], [I32]);
    functions.function(first);
    exported.export("cabi_realloc", wasm::ExportKind::Func, first);
    let mut body = wasm::Function::new([(1, I32)]);
    let mut at = body.instructions();
    at.global_get(0).local_get(2).i32_add().i32_const(1).i32_sub();
    at.i32_const(0).local_get(2).i32_sub().i32_and().local_tee(4);
    at.local_get(3).i32_add().global_set(0).local_get(4).end();
    code.function(&body);

    // Makes a program of white space: (address, length).
    let decode = first + 1;
    types.ty().function([I32; 2], []);
    functions.function(decode);
    code.function(&decoder());

    // Runs the program, and answers with the address of its answer.
    let run = first + 2;
    types.ty().function([], [I32]);
    functions.function(run);
    code.function(&interpreter(&imports));

    for (place, (interface, name, params, results)) in (run + 1..).zip(&exports) {
        assert_eq!(results, &[I32], "{interface}#{name} answers by an address");
        types.ty().function(params.iter().copied(), results.iter().copied());
        functions.function(place);
        exported.export(&format!("{interface}#{name}"), wasm::ExportKind::Func, place);
        let mut body = wasm::Function::new([]);
        let mut at = body.instructions();
        if interface.contains("/wire") {
            // The text is the first argument of each.
            at.local_get(0).local_get(1).call(decode);
        } else if !interface.contains("/about") {
            // settings(none, ["program"]), and the text of the first one.
            at.i32_const(0).i32_const(0).i32_const(0).i32_const(NAMES).i32_const(1).i32_const(ANSWER).call(settings);
            at.i32_const(ANSWER).i32_load(word(0)).i32_load(word(4));
            at.i32_const(ANSWER).i32_load(word(0)).i32_load(word(8)).call(decode);
        }
        at.call(run).end();
        code.function(&body);
    }

    let mut memories = wasm::MemorySection::new();
    memories.memory(wasm::MemoryType {
        minimum: 4,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    exported.export("memory", wasm::ExportKind::Memory, 0);
    let mut globals = wasm::GlobalSection::new();
    let number = wasm::GlobalType { val_type: I32, mutable: true, shared: false };
    globals.global(number, &wasm::ConstExpr::i32_const(HEAP)).global(number, &wasm::ConstExpr::i32_const(PROGRAM));
    let mut data = wasm::DataSection::new();
    let name = NAMES + 8;
    let names = [name.to_le_bytes(), (SETTING.len() as i32).to_le_bytes()].concat();
    data.active(0, &wasm::ConstExpr::i32_const(NAMES), [&names, SETTING.as_bytes()].concat());

    let mut module = wasm::Module::new();
    module.section(&types).section(&imported).section(&functions).section(&memories).section(&globals);
    module.section(&exported).section(&code).section(&data);
    module
}

fn word(offset: u64) -> wasm::MemArg {
    wasm::MemArg { offset, align: 0, memory_index: 0 }
}

/// From the last whole byte's worth of white space before the end of the text.
fn decoder() -> wasm::Function {
    use wasm::ValType::I32;
    const START: u32 = 2; // where the white space begins
    const OUT: u32 = 3; // where the next byte goes
    const END: u32 = 4;
    const BITS: u32 = 5;
    let mut body = wasm::Function::new([(4, I32)]);
    let mut at = body.instructions();
    at.local_get(0).local_get(1).i32_add().local_tee(END).local_set(START);
    at.block(wasm::BlockType::Empty).loop_(wasm::BlockType::Empty);
    at.local_get(START).local_get(0).i32_le_u().br_if(1);
    at.local_get(START).i32_const(1).i32_sub().i32_load8_u(word(0)).i32_const(0x20).i32_gt_u().br_if(1);
    at.local_get(START).i32_const(1).i32_sub().local_set(START).br(0).end().end();
    at.i32_const(PROGRAM).local_set(OUT);
    at.block(wasm::BlockType::Empty).loop_(wasm::BlockType::Empty);
    at.local_get(START).i32_const(8).i32_add().local_get(END).i32_gt_u().br_if(1);
    at.i32_const(0).local_set(BITS);
    for bit in 0..8 {
        at.local_get(START).i32_load8_u(word(bit)).i32_const(1).i32_and();
        at.i32_const(bit as i32).i32_shl().local_get(BITS).i32_or().local_set(BITS);
    }
    at.local_get(OUT).local_get(BITS).i32_store8(word(0));
    at.local_get(OUT).i32_const(1).i32_add().local_set(OUT);
    at.local_get(START).i32_const(8).i32_add().local_set(START).br(0).end().end();
    // What is left of a longer one is none.
    at.local_get(OUT).i32_const(0).i32_store(word(0)).end();
    body
}

fn interpreter(imports: &[Function]) -> wasm::Function {
    use wasm::ValType::I32;
    const PLACE: u32 = 0;
    const CALL: u32 = 1;
    let mut body = wasm::Function::new([(2, I32)]);
    let mut at = body.instructions();
    at.i32_const(PROGRAM).local_set(PLACE);
    at.block(wasm::BlockType::Empty).loop_(wasm::BlockType::Empty);
    at.local_get(PLACE).i32_load8_u(word(0)).local_set(CALL);
    at.local_get(PLACE).i32_const(1).i32_add().local_set(PLACE);
    // 0, and what is no import's number, ends it.
    at.local_get(CALL).i32_eqz().local_get(CALL).i32_const(imports.len() as i32).i32_gt_u().i32_or().br_if(1);
    for (place, (_, _, params, results)) in (0..).zip(imports) {
        at.local_get(CALL).i32_const(place + 1).i32_eq().if_(wasm::BlockType::Empty);
        for (offset, ty) in (0..).step_by(2).zip(params) {
            at.local_get(PLACE).i32_load16_u(word(offset));
            if *ty == wasm::ValType::I64 {
                at.i64_extend_i32_u();
            }
        }
        at.local_get(PLACE).i32_const(2 * params.len() as i32).i32_add().local_set(PLACE);
        at.call(place as u32);
        results.iter().for_each(|_| {
            at.drop();
        });
        at.br(1).end();
    }
    at.br(0).end().end();
    // The answer's address, as aligned as an answer must be. The next call's arguments lie where this one's did.
    at.i32_const(HEAP).global_set(0);
    at.local_get(PLACE).i32_load16_u(word(0)).i32_const(0xfff8).i32_and().end();
    body
}
