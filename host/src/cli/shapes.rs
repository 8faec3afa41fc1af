//! The library's answers as this program's JSON, field by field in the order in which they are written, and as tables
//! for people.

use memory_prefetch::contract::{Audience, Item, Memory, Omission, Receipt, Refusal, Shortfall, Size, Unit, View};
use serde::Serialize;

use super::failure::{Exit, Failure};
use super::terminal::{count, name, names, table};
use super::values::{rfc3339, shown};

/// One memory of a snapshot.
#[derive(Debug, Serialize)]
pub struct ItemShape {
    id: String,
    version: String,
    sha256: String,
    bytes: u32,
    tokens: u32,
    /// Only where it is: erased since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    removed: bool,
}

impl From<Item> for ItemShape {
    fn from(item: Item) -> ItemShape {
        let Item { id, version, sha256, size, removed } = item;
        ItemShape { id, version, sha256, bytes: size.bytes, tokens: size.tokens, removed }
    }
}

/// One memory that was left out.
#[derive(Debug, Serialize)]
pub struct OmittedShape {
    id: String,
    bytes: u32,
    tokens: u32,
    why: String,
}

impl From<Omission> for OmittedShape {
    fn from(omission: Omission) -> OmittedShape {
        let Omission { id, size, why } = omission;
        OmittedShape { id, bytes: size.bytes, tokens: size.tokens, why }
    }
}

/// What a delegation comprises.
#[derive(Debug, Serialize)]
pub struct ReceiptShape {
    snapshot_ref: Option<String>,
    frozen_at: String,
    expires_at: String,
    items: Vec<ItemShape>,
    unavailable: Vec<String>,
    omitted: Vec<OmittedShape>,
    bytes: u32,
    tokens: u32,
    pages: u32,
}

impl From<Receipt> for ReceiptShape {
    fn from(receipt: Receipt) -> ReceiptShape {
        ReceiptShape {
            snapshot_ref: receipt.snapshot_ref,
            frozen_at: rfc3339(receipt.frozen_at),
            expires_at: rfc3339(receipt.expires_at),
            items: receipt.items.into_iter().map(ItemShape::from).collect(),
            unavailable: receipt.unavailable,
            omitted: receipt.omitted.into_iter().map(OmittedShape::from).collect(),
            bytes: receipt.size.bytes,
            tokens: receipt.size.tokens,
            pages: receipt.pages,
        }
    }
}

/// A receipt for people.
pub fn receipt_text(receipt: &Receipt) -> String {
    let mut out = match &receipt.snapshot_ref {
        Some(name) => format!("Snapshot {name}\nFrozen   {}\n", shown(receipt.frozen_at)),
        None => format!("Read     {}, nothing is frozen\n", shown(receipt.frozen_at)),
    };
    out += &format!("Claim by {}\n", shown(receipt.expires_at));
    out += &format!("Size     {}, {}\n", size(receipt.size), count(receipt.pages as usize, "page", "pages"));
    if !receipt.items.is_empty() {
        let rows: Vec<Vec<String>> = receipt
            .items
            .iter()
            .map(|item| {
                let digest = item.sha256.chars().take(12).collect();
                let removed = if item.removed { "erased".to_owned() } else { String::new() };
                let (bytes, tokens) = (item.size.bytes.to_string(), item.size.tokens.to_string());
                vec![name(&item.id), name(&item.version), bytes, tokens, digest, removed]
            })
            .collect();
        out += "\n";
        out += &table(&["MEMORY", "VERSION", ">BYTES", ">TOKENS", "SHA-256", ""], &rows);
    }
    if !receipt.unavailable.is_empty() {
        out += &format!("\nUnavailable: {}\n", names(&receipt.unavailable));
    }
    if !receipt.omitted.is_empty() {
        out += "\nLeft out:\n";
        for line in omission_lines(&receipt.omitted) {
            out += &format!("  {line}\n");
        }
    }
    out
}

/// `812 bytes, 203 tokens`, or `at most 203 tokens` where they were not counted.
pub fn size(size: Size) -> String {
    let tokens = count(size.tokens as usize, "token", "tokens");
    format!("{}, {}{tokens}", count(size.bytes as usize, "byte", "bytes"), if size.counted { "" } else { "at most " })
}

/// What did not fit, a line each.
pub fn omission_lines(omitted: &[Omission]) -> Vec<String> {
    omitted.iter().map(|item| format!("{}: {}, {}", name(&item.id), size(item.size), item.why)).collect()
}

/// Why something is refused.
#[derive(Debug, Serialize)]
pub struct RefusalShape {
    /// Only where the error's code does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<Vec<String>>,
    #[serde(flatten)]
    shortfall: Option<ShortfallShape>,
}

#[derive(Debug, Serialize)]
struct ShortfallShape {
    unit: &'static str,
    budget: u32,
    needed: u32,
    sizes: Vec<OmittedShape>,
}

/// A refused delegation as a failure.
pub fn refused(refusal: &Refusal) -> Failure {
    let failure = |message: &str| {
        let code = refusal_word(refusal);
        Failure::new(Exit::Refused, code, format!("refused: {message}")).details(refusal_shape(refusal, None))
    };
    match refusal {
        Refusal::Unavailable(ids) => failure(&format!("not available: {}", names(ids)))
            .hint("leave --strict out to hand over the others, or name other memories"),
        Refusal::OtherWorkspace => failure("the child's project is not in the workspace of its parent's project")
            .hint("`memory-prefetch project set P --workspace W` puts a project into a workspace"),
        Refusal::OverCapacity(Shortfall { unit, budget, needed, sizes }) => {
            let unit = unit_word(*unit);
            failure(&format!("the memories take {needed} {unit} and {budget} are allowed"))
                .lines(omission_lines(sizes))
                .hint(
                    "name fewer memories, give a larger --budget, or use --overflow trim-priority, trim-recency or \
                     paginate",
                )
        }
        Refusal::Policy(why) => failure(why),
    }
}

/// The word for a refusal.
pub fn refusal_word(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Unavailable(_) => "unavailable",
        Refusal::OtherWorkspace => "other-workspace",
        Refusal::OverCapacity(_) => "over-capacity",
        Refusal::Policy(_) => "policy",
    }
}

/// A refusal for scripts.
pub fn refusal_shape(refusal: &Refusal, reason: Option<&'static str>) -> RefusalShape {
    let (mut unavailable, mut shortfall) = (None, None);
    match refusal {
        Refusal::Unavailable(ids) => unavailable = Some(ids.clone()),
        Refusal::OverCapacity(Shortfall { unit, budget, needed, sizes }) => {
            shortfall = Some(ShortfallShape {
                unit: unit_word(*unit),
                budget: *budget,
                needed: *needed,
                sizes: sizes.iter().cloned().map(OmittedShape::from).collect(),
            });
        }
        Refusal::OtherWorkspace | Refusal::Policy(_) => {}
    }
    RefusalShape { reason, unavailable, shortfall }
}

fn unit_word(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "bytes",
        Unit::Tokens => "tokens",
    }
}

/// A memory as an agent may see it.
#[derive(Debug, Serialize)]
pub struct ViewShape {
    id: String,
    owner: String,
    project: String,
    category: String,
    version: String,
    updated_at: Option<String>,
    body: String,
}

impl From<View> for ViewShape {
    fn from(view: View) -> ViewShape {
        let View { id, owner, project, category, version, updated_at, body, attributes: _ } = view;
        ViewShape { id, owner, project, category, version, updated_at: updated_at.map(rfc3339), body }
    }
}

/// A heading for a memory that is shown to a person.
pub fn view_heading(view: &View) -> String {
    let mut heading = format!("Memory {} of {} in {}", name(&view.id), name(&view.owner), name(&view.project));
    if !view.category.is_empty() {
        heading += &format!(", category {}", name(&view.category));
    }
    if let Some(at) = view.updated_at {
        heading += &format!(", updated {}", shown(at));
    }
    heading
}

/// A memory as the operator sees it, without its body.
#[derive(Debug, Serialize)]
pub struct MemoryShape {
    id: String,
    owner: Option<String>,
    project: Option<String>,
    audience: &'static str,
    category: String,
    priority: u32,
    active: bool,
    trusted: bool,
    version: String,
    updated_at: Option<String>,
    expires_at: Option<String>,
    bytes: u32,
}

impl From<Memory> for MemoryShape {
    fn from(row: Memory) -> MemoryShape {
        MemoryShape {
            id: row.id,
            owner: row.owner,
            project: row.project,
            audience: audience_word(row.audience),
            category: row.category,
            priority: row.priority,
            active: row.active,
            trusted: row.trusted,
            version: row.version,
            updated_at: row.updated_at.map(rfc3339),
            expires_at: row.expires_at.map(rfc3339),
            bytes: row.bytes,
        }
    }
}

/// The word for whom a memory is shared with.
pub fn audience_word(audience: Audience) -> &'static str {
    match audience {
        Audience::Agent => "agent",
        Audience::Project => "project",
        Audience::Workspace => "workspace",
    }
}
