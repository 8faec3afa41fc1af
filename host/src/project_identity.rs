//! Which project a directory belongs to, by a name that is the same in every worktree, clone and subdirectory of it:
//! `git:` and its root commit. A directory outside of any repository is named after its path. These are the names that
//! magic-context gives its projects, so that both mean the same; where it falls back to the path since git cannot answer,
//! this is an error, since the memories that are meant would silently be others.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Output, Stdio};

use md5::{Digest, Md5};
use thiserror::Error;

/// Variables by which a hook or a script makes git look at another repository than the one of the directory.
const REDIRECTING: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_NO_REPLACE_OBJECTS",
];

/// Why a directory's project cannot be named.
#[derive(Debug, Error)]
pub enum ProjectIdentityError {
    /// It is not there, or may not be looked at.
    #[error("{path} cannot be looked at: {source}")]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a file.
    #[error("{path} is not a directory: name the directory of the project")]
    NotADirectory {
        /// What was named.
        path: PathBuf,
    },
    /// There is a repository, and no git to ask.
    #[error("{path} is in a git repository, and git cannot be run ({source}): install git, or put it into PATH")]
    NoGit {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The repository belongs to another user.
    #[error(
        "git refuses to read the repository of {path}, since it belongs to another user. If you trust it: \
         git config --global --add safe.directory {root}"
    )]
    Refused {
        /// The directory.
        path: PathBuf,
        /// The repository's, as a shell takes it.
        root: String,
    },
    /// The directory's name is no text.
    #[error("the path {path} is not UTF-8, and a project is named after it: rename the directory")]
    NotUtf8 {
        /// The directory.
        path: PathBuf,
    },
    /// The repository is empty.
    #[error(
        "the git repository of {path} has no commit on its current branch yet, and a project is named after its first \
         one: commit something"
    )]
    NoCommit {
        /// The directory.
        path: PathBuf,
    },
    /// The first commit is not there.
    #[error(
        "the git repository of {path} is a shallow clone, without the first commit that the project is named after: \
         run `git fetch --unshallow` in it"
    )]
    Shallow {
        /// The directory.
        path: PathBuf,
    },
    /// Git failed in another way.
    #[error("git cannot name the first commit of the repository of {path}: {why}")]
    Git {
        /// The directory.
        path: PathBuf,
        /// What git says.
        why: String,
    },
}

/// The project of a directory: `git:` and its repository's root commit, the first in alphabetical order if it has
/// several; outside of any repository `dir:` and 12 hex digits of the MD5 of its absolute path.
///
/// The absolute path is made as magic-context makes it: of the text alone. A symbolic link in it is not followed, so one
/// directory has another name by way of a link than without.
pub fn project_identity(path: &Path) -> Result<String, ProjectIdentityError> {
    use ProjectIdentityError as E;
    let unreadable = |source| E::Unreadable { path: path.to_owned(), source };
    let path = &normal(&std::path::absolute(path).map_err(unreadable)?);
    let unreadable = |source| E::Unreadable { path: path.clone(), source };
    if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Err(E::NotADirectory { path: path.clone() });
    }
    // Git looks where the directory lies, whatever leads to it.
    let real = path.canonicalize().map_err(unreadable)?;
    let Some(root) = real.ancestors().find(|above| above.join(".git").exists() || is_bare(above)) else {
        let text = path.to_str().ok_or_else(|| E::NotUtf8 { path: path.clone() })?;
        return Ok(format!("dir:{}", digest(text)));
    };

    let why = |output: &Output| {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if said.is_empty() { output.status.to_string() } else { said }
    };
    let shallow = git(path, &["rev-parse", "--is-shallow-repository"])?;
    if !shallow.status.success() {
        let why = why(&shallow);
        return Err(if why.contains("dubious ownership") {
            E::Refused { path: path.clone(), root: quoted(root) }
        } else {
            E::Git { path: path.clone(), why }
        });
    }
    if shallow.stdout.starts_with(b"true") {
        return Err(E::Shallow { path: path.clone() });
    }
    // The two dashes: a file may be called HEAD.
    let roots = git(path, &["rev-list", "--max-parents=0", "HEAD", "--"])?;
    if !roots.status.success() {
        let head = git(path, &["rev-parse", "--verify", "--quiet", "HEAD"])?;
        return Err(if head.status.code() == Some(1) {
            E::NoCommit { path: path.clone() }
        } else {
            E::Git { path: path.clone(), why: why(&roots) }
        });
    }
    let roots = String::from_utf8_lossy(&roots.stdout);
    let is_commit = |line: &&str| matches!(line.len(), 40 | 64) && line.bytes().all(|byte| byte.is_ascii_hexdigit());
    let first = roots.lines().map(str::trim).filter(is_commit).min();
    match first {
        Some(first) => Ok(format!("git:{first}")),
        None => Err(E::Git { path: path.clone(), why: "it lists no root commit".into() }),
    }
}

fn git(directory: &Path, args: &[&str]) -> Result<Output, ProjectIdentityError> {
    let mut git = Command::new("git");
    git.current_dir(directory).args(args).stdin(Stdio::null()).env("LC_ALL", "C");
    for name in REDIRECTING {
        git.env_remove(name);
    }
    git.output().map_err(|source| ProjectIdentityError::NoGit { path: directory.to_owned(), source })
}

/// Without `..`, and without a slash at the end.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            component => normal.push(component),
        }
    }
    normal
}

/// Whether this is a repository without a working tree beside it.
fn is_bare(directory: &Path) -> bool {
    directory.join("HEAD").is_file() && directory.join("objects").is_dir() && directory.join("refs").is_dir()
}

/// One word of a shell's, whatever is in the name.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

fn digest(path: &str) -> String {
    let digest = Md5::digest(path.as_bytes());
    crate::environment::hex(&digest).chars().take(12).collect()
}
