//! Markers in task texts (R39): taken out where they are whole, and nothing else is lost.

use memory_prefetch_component::contract::Marked;
use memory_prefetch_component::{ids, markers};

use crate::world::World;

/// Any text.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut world = World::default();
    let Marked { text: rest, ids } = markers::parse(&mut world, text);
    assert!(rest == text && ids.is_empty(), "nobody switched it on");

    world.settings.push((None, "markers".into(), "on".into()));
    let marked = markers::parse(&mut world, text);
    assert_eq!(marked, read(text));
    // They are named as a request names them (R2).
    assert!(marked.ids.iter().all(|id| text.contains(id.as_str())));
}

/// By brackets: a marker is what stands between an opening one and a closing one without any between them.
fn read(text: &str) -> Marked {
    let mut parts: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['⟦', '⟧']) {
        let bracket = '⟦'.len_utf8();
        parts.extend([&rest[..at], &rest[at..at + bracket]]);
        rest = &rest[at + bracket..];
    }
    parts.push(rest);

    let mut marked = Marked { text: String::new(), ids: Vec::new() };
    let mut at = 0;
    while at < parts.len() {
        let names = match parts[at..] {
            ["⟦", inside, "⟧", ..] => inside.strip_prefix("mc-mem:").and_then(names),
            _ => None,
        };
        match names {
            Some(names) => {
                for name in names {
                    if !marked.ids.contains(&name) {
                        marked.ids.push(name);
                    }
                }
                at += 3;
            }
            None => {
                marked.text.push_str(parts[at]);
                at += 1;
            }
        }
    }
    marked
}

fn names(inside: &str) -> Option<Vec<String>> {
    inside.split(',').map(|name| ids::id(name.trim()).ok().map(|id| ids::name(&id))).collect()
}
