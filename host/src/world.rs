//! Whether a component fits this host, found out before anything of it runs, and in words that name both sides.

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::runtime::LoadError;

/// The version of the contract that this host offers and calls.
pub const CONTRACT: &str = "0.1.0";

const PACKAGE: &str = "agent-memory:prefetch/";
const IMPORTS: [&str; 6] = ["types", "memories", "snapshots", "directory", "environment", "audit"];
const EXPORTS: [&str; 6] = ["orchestrator", "child", "tools", "upkeep", "wire", "about"];

/// A component's imports and exports, by full name, `agent-memory:prefetch/memories@0.1.0` for instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// In the component's order.
    pub imports: Vec<String>,
    /// In the component's order.
    pub exports: Vec<String>,
}

/// What the component has, if this host can serve its imports and finds its own exports there.
pub(crate) fn check(engine: &Engine, component: &Component) -> Result<World, LoadError> {
    let ty = component.component_type();
    let world = World {
        imports: ty.imports(engine).map(|(name, _)| name.to_owned()).collect(),
        exports: ty.exports(engine).map(|(name, _)| name.to_owned()).collect(),
    };
    for name in &world.imports {
        let offered = IMPORTS.iter().any(|interface| fits(name, interface));
        if !offered {
            return Err(world.other_world(format!("it imports {name}")));
        }
    }
    for interface in EXPORTS {
        if !world.exports.iter().any(|name| fits(name, interface)) {
            return Err(world.other_world(format!("it does not export {PACKAGE}{interface}@{CONTRACT}")));
        }
    }
    Ok(world)
}

/// Whether `name` is this interface in this host's version. Before 1.0 a version with another middle number is another
/// contract.
fn fits(name: &str, interface: &str) -> bool {
    let Some((path, version)) = name.split_once('@') else { return false };
    let series = |version: &str| version.rsplit_once('.').map(|(series, _)| series.to_owned());
    path.strip_prefix(PACKAGE) == Some(interface) && series(version) == series(CONTRACT)
}

impl World {
    pub(crate) fn other_world(&self, why: String) -> LoadError {
        let list = |names: &[String]| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        let full = |names: &[&str]| {
            names.iter().map(|name| format!("{PACKAGE}{name}@{CONTRACT}")).collect::<Vec<_>>().join(", ")
        };
        LoadError::OtherWorld {
            why,
            needs: format!("[imports] {}; and has [exports] {}", list(&self.imports), list(&self.exports)),
            offers: format!("[imports] {}; and calls [exports] {}", full(&IMPORTS), full(&EXPORTS)),
        }
    }
}
