//! Whether every dependency may be shipped with a program under MIT or Apache-2.0. Asked of `cargo metadata` and of npm's
//! lock file, so that the check needs no tool that takes minutes to install.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use xtask::{component, toolchain};

/// Permissive licences, each one asked for by some dependency.
const ACCEPTED: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    // libFuzzer's; it is in no program that is shipped.
    "NCSA",
    "Unicode-3.0",
    "Zlib",
];

/// Licences that bind whoever changes the dependency's own files, and nobody else; each allowed by name.
const EXCEPTIONS: &[(&str, &str)] = &[
    // Below `directories`.
    ("option-ext", "MPL-2.0"),
];

/// What npm installs for the users of the JavaScript package, and for those who build it.
const NPM_LOCK: &str = "adapters/js/package-lock.json";

/// Checks the dependencies on every platform, and returns their number. Of npm's, those that users get.
pub fn check() -> Result<usize> {
    let packages = [of_cargo()?, of_npm()?].concat();
    let refused: Vec<_> = packages
        .iter()
        .filter(|(name, _, licence)| {
            !accepted(licence).unwrap_or(false) && !EXCEPTIONS.contains(&(name.as_str(), licence.as_str()))
        })
        .map(|(name, version, licence)| format!("{name} {version} ({licence:?})"))
        .collect();
    if !refused.is_empty() {
        bail!(
            "no licence that we accept: {}. If it is a permissive one, add it to {}; else do without the dependency",
            refused.join(", "),
            file!()
        );
    }
    Ok(packages.len())
}

/// Name, version, licence.
type Package = (String, String, String);

fn of_cargo() -> Result<Vec<Package>> {
    let output = Command::new(toolchain::cargo())
        .args(["metadata", "--format-version", "1"])
        .current_dir(component::workspace())
        .stderr(Stdio::inherit())
        .output()
        .context("`cargo metadata` could not start")?;
    ensure!(output.status.success(), "`cargo metadata` failed");
    let metadata: Value = serde_json::from_slice(&output.stdout).context("`cargo metadata` wrote no JSON")?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;

    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or("").to_owned();
    Ok(packages
        .iter()
        .map(|package| (text(package, "name"), text(package, "version"), text(package, "license")))
        .collect())
}

fn of_npm() -> Result<Vec<Package>> {
    let text = std::fs::read_to_string(component::workspace().join(NPM_LOCK)).context(NPM_LOCK)?;
    let lock: Value = serde_json::from_str(&text).context(NPM_LOCK)?;
    let packages = lock["packages"].as_object().with_context(|| format!("{NPM_LOCK} lists no packages"))?;
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or("").to_owned();
    // The first is our own.
    let shipped = packages.iter().filter(|(path, package)| !path.is_empty() && package["dev"] != true);
    Ok(shipped.map(|(path, package)| (path.clone(), text(package, "version"), text(package, "license"))).collect())
}

/// Can this SPDX expression be met with accepted licences? `None` if it is no expression. `/` is an old form of `OR`.
fn accepted(expression: &str) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let answer = any(&mut words)?;
    words.next().is_none().then_some(answer)
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>) -> Option<bool> {
    let mut answer = all(words)?;
    while words.next_if_eq(&"OR").is_some() {
        answer |= all(words)?;
    }
    Some(answer)
}

fn all(words: &mut Words<'_>) -> Option<bool> {
    let mut answer = one(words)?;
    while words.next_if_eq(&"AND").is_some() {
        answer &= one(words)?;
    }
    Some(answer)
}

fn one(words: &mut Words<'_>) -> Option<bool> {
    match words.next()? {
        "(" => {
            let answer = any(words)?;
            words.next_if_eq(&")").map(|_| answer)
        }
        ")" | "AND" | "OR" | "WITH" => None,
        licence => {
            let mut licence = licence.to_owned();
            if words.next_if_eq(&"WITH").is_some() {
                licence = format!("{licence} WITH {}", words.next()?);
            }
            Some(ACCEPTED.contains(&licence.as_str()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::accepted;

    #[test]
    fn expressions_of_licences() {
        for yes in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert_eq!(accepted(yes), Some(true), "{yes}");
        }
        for no in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND GPL-2.0", "Apache-2.0 WITH Other-exception"] {
            assert_eq!(accepted(no), Some(false), "{no}");
        }
        for nonsense in ["", "MIT OR", "(MIT", "MIT Apache-2.0", "AND"] {
            assert_eq!(accepted(nonsense), None, "{nonsense}");
        }
    }
}
