//! What a directory's project is called, against real repositories. Git must be installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use md5::{Digest, Md5};
use memory_prefetch::project_identity;
use memory_prefetch::project_identity::ProjectIdentityError as E;
use serde_json::{Value, json};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_memory-prefetch");

fn place() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Git as on a new machine.
fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(dir)
        .args([
            "-c",
            "user.name=n",
            "-c",
            "user.email=e",
            "-c",
            "init.defaultBranch=main",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with two commits, and the first one's name.
fn repository(dir: &Path) -> String {
    git(dir, &["init", "-q"]);
    git(dir, &["commit", "-q", "--allow-empty", "-m", "first"]);
    let first = git(dir, &["rev-parse", "HEAD"]);
    git(dir, &["commit", "-q", "--allow-empty", "-m", "second"]);
    first
}

fn dir_name(path: &Path) -> String {
    let digest = Md5::digest(path.to_str().unwrap().as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("dir:{}", &hex[..12])
}

/// `project id`, in JSON, with these variables.
fn program(dir: &Path, path: &str, variables: &[(&str, &str)]) -> (Option<i32>, Value) {
    let output = Command::new(PROGRAM)
        .current_dir(dir)
        .args(["--json", "project", "id", path])
        .envs(variables.iter().copied())
        .env_remove("MEMORY_PREFETCH_STORE")
        .env_remove("MEMORY_PREFETCH_MEMORIES")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.code(), serde_json::from_slice(&text).unwrap())
}

/// The word and the sentence of the failure.
fn refusal(dir: &Path, path: &str, variables: &[(&str, &str)]) -> (String, String) {
    let (code, answer) = program(dir, path, variables);
    assert_eq!(code, Some(3), "{answer}");
    let text = |name: &str| answer["error"][name].as_str().unwrap().to_owned();
    (text("code"), text("message"))
}

#[test]
fn the_root_commit_wherever_one_stands_in_the_repository() {
    let dir = place();
    let main = dir.path().join("main");
    fs::create_dir(&main).unwrap();
    let expected = format!("git:{}", repository(&main));
    git(&main, &["worktree", "add", "-q", "-b", "side", "../side"]);
    git(dir.path(), &["clone", "-q", "main", "clone"]);
    fs::create_dir_all(main.join("a/b")).unwrap();
    fs::write(main.join("HEAD"), "a file that is called like a revision").unwrap();
    for place in ["main", "main/", "main/a/b", "main/a/../a/./b", "side", "clone"] {
        assert_eq!(project_identity(&dir.path().join(place)).unwrap(), expected, "{place}");
    }
    assert_eq!(program(&main, ".", &[]), (Some(0), json!({ "project": expected })));
    assert_eq!(program(&main.join("a"), "..", &[]), (Some(0), json!({ "project": expected })));
    let output = Command::new(PROGRAM).args(["project", "id"]).arg(&main).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{expected}\n"));
}

#[test]
fn of_several_roots_the_first_in_alphabetical_order() {
    let dir = place();
    let mut roots = vec![repository(dir.path())];
    for branch in ["b1", "b2", "b3"] {
        git(dir.path(), &["checkout", "-q", "--orphan", branch]);
        git(dir.path(), &["commit", "-q", "--allow-empty", "-m", branch]);
        roots.push(git(dir.path(), &["rev-parse", "HEAD"]));
        git(dir.path(), &["checkout", "-q", "main"]);
        git(dir.path(), &["merge", "-q", "--allow-unrelated-histories", "-m", "merge", branch]);
    }
    roots.sort();
    assert_eq!(project_identity(dir.path()).unwrap(), format!("git:{}", roots[0]));
}

#[test]
fn outside_of_git_the_path() {
    let dir = place();
    let inner = dir.path().join("in ner/ü");
    fs::create_dir_all(&inner).unwrap();
    assert_eq!(project_identity(&inner).unwrap(), dir_name(&inner));
    assert_eq!(project_identity(&inner.join("../ü/.")).unwrap(), dir_name(&inner));
    assert_eq!(project_identity(&dir.path().join("in ner/ü/")).unwrap(), dir_name(&inner));
    assert_ne!(project_identity(dir.path()).unwrap(), dir_name(&inner));
    // No git is needed.
    let expected = json!({ "project": dir_name(&inner) });
    assert_eq!(program(&inner, inner.to_str().unwrap(), &[("PATH", "")]), (Some(0), expected));
    #[cfg(unix)]
    {
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&inner, &link).unwrap();
        assert_eq!(project_identity(&link).unwrap(), dir_name(&link), "the path as it is written");
    }
    // As `md5sum` says of the path.
    assert_eq!(dir_name(Path::new("/")), "dir:6666cd76f969");
    assert_eq!(project_identity(Path::new("/")).unwrap(), "dir:6666cd76f969");
}

#[test]
fn a_directory_that_is_not_there_and_a_file() {
    let dir = place();
    fs::write(dir.path().join("file"), "").unwrap();
    assert!(matches!(project_identity(&dir.path().join("missing")), Err(E::Unreadable { .. })));
    assert!(matches!(project_identity(&dir.path().join("file")), Err(E::NotADirectory { .. })));
    let (word, why) = refusal(dir.path(), "missing", &[]);
    assert!(word == "no-directory" && why.contains("missing cannot be looked at"), "{word}: {why}");
    let (word, why) = refusal(dir.path(), "file", &[]);
    assert!(word == "no-directory" && why.contains("file is not a directory"), "{word}: {why}");
    assert_eq!(program(dir.path(), "", &[]).0, Some(2));
}

#[test]
fn a_repository_and_no_git() {
    let dir = place();
    repository(dir.path());
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let (word, why) = refusal(dir.path(), dir.path().to_str().unwrap(), &[("PATH", empty.to_str().unwrap())]);
    assert!(word == "no-git" && why.contains("install git"), "{word}: {why}");
}

#[test]
fn a_repository_of_another_user() {
    let dir = place();
    let expected = repository(dir.path());
    // Git's own switch for its own tests of this refusal.
    let another = [("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")];
    fs::create_dir(dir.path().join("sub")).unwrap();
    let (word, why) = refusal(dir.path(), "sub", &another);
    // The directory's name without links, as the program finds it when it asks where it is.
    let root = dir.path().canonicalize().unwrap();
    let advice = format!("git config --global --add safe.directory '{}'", root.display());
    assert!(word == "git-refused" && why.ends_with(&advice), "{word}: {why}");
    // The advice helps.
    let config = dir.path().join("gitconfig");
    fs::write(&config, format!("[safe]\n\tdirectory = {}\n", root.display())).unwrap();
    let trusting = [another[0], ("GIT_CONFIG_GLOBAL", config.to_str().unwrap())];
    assert_eq!(program(dir.path(), "sub", &trusting), (Some(0), json!({ "project": format!("git:{expected}") })));
}

#[test]
fn repositories_without_their_first_commit() {
    let dir = place();
    let (main, unborn) = (dir.path().join("main"), dir.path().join("unborn"));
    fs::create_dir(&main).unwrap();
    fs::create_dir(&unborn).unwrap();
    repository(&main);
    git(&unborn, &["init", "-q"]);
    let (word, why) = refusal(dir.path(), "unborn", &[]);
    assert!(word == "no-commit" && why.contains("commit something"), "{word}: {why}");
    let url = format!("file://{}", main.display());
    git(dir.path(), &["clone", "-q", "--depth", "1", &url, "shallow"]);
    let (word, why) = refusal(dir.path(), "shallow", &[]);
    assert!(word == "shallow-clone" && why.contains("git fetch --unshallow"), "{word}: {why}");
    git(&dir.path().join("shallow"), &["fetch", "-q", "--unshallow"]);
    assert_eq!(project_identity(&dir.path().join("shallow")).unwrap(), project_identity(&main).unwrap());
}

#[test]
fn what_looks_like_a_repository_and_is_none() {
    let dir = place();
    fs::write(dir.path().join(".git"), "gitdir: /no/such/place\n").unwrap();
    let (word, why) = refusal(dir.path(), ".", &[("LC_ALL", "de_DE.UTF-8"), ("LANGUAGE", "de")]);
    assert!(word == "git" && why.contains("not a git repository"), "{word}: {why}");
}

/// A hook has variables that make git look at the hook's repository.
#[test]
fn the_variables_of_a_hook_do_not_count() {
    let (dir, other) = (place(), place());
    let expected = repository(dir.path());
    git(other.path(), &["init", "-q"]);
    git(other.path(), &["commit", "-q", "--allow-empty", "-m", "another first"]);
    let there = |name: &str| -> PathBuf { other.path().join(name) };
    let git_dir = there(".git");
    let objects = there(".git/objects");
    let variables = [
        ("GIT_DIR", git_dir.to_str().unwrap()),
        ("GIT_WORK_TREE", other.path().to_str().unwrap()),
        ("GIT_COMMON_DIR", git_dir.to_str().unwrap()),
        ("GIT_OBJECT_DIRECTORY", objects.to_str().unwrap()),
        ("GIT_CEILING_DIRECTORIES", dir.path().to_str().unwrap()),
        ("GIT_NAMESPACE", "x"),
        ("GIT_PREFIX", "x/"),
    ];
    fs::create_dir(dir.path().join("sub")).unwrap();
    let answer = program(dir.path(), "sub", &variables);
    assert_eq!(answer, (Some(0), json!({ "project": format!("git:{expected}") })));
}

/// Git looks where a directory lies, by whatever way it is named.
#[cfg(unix)]
#[test]
fn links_lead_into_a_repository_and_out_of_it() {
    use std::os::unix::fs::symlink;
    let dir = place();
    let (inside, outside) = (dir.path().join("repository/sub"), dir.path().join("outside"));
    fs::create_dir_all(&inside).unwrap();
    fs::create_dir(&outside).unwrap();
    let first = format!("git:{}", repository(&dir.path().join("repository")));
    symlink(&inside, outside.join("in")).unwrap();
    symlink(&outside, inside.join("out")).unwrap();
    assert_eq!(project_identity(&outside.join("in")).unwrap(), first);
    assert_eq!(project_identity(&inside.join("out")).unwrap(), dir_name(&inside.join("out")));
}

#[test]
fn a_repository_without_a_working_tree() {
    let dir = place();
    fs::create_dir(dir.path().join("repository")).unwrap();
    let first = format!("git:{}", repository(&dir.path().join("repository")));
    git(dir.path(), &["clone", "-q", "--bare", "repository", "bare.git"]);
    assert_eq!(project_identity(&dir.path().join("bare.git")).unwrap(), first);
    assert_eq!(project_identity(&dir.path().join("bare.git/objects")).unwrap(), first);
}

/// Two names that are no text would both be read as the same one.
#[cfg(unix)]
#[test]
fn a_name_that_is_no_text_is_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let dir = place();
    let path = dir.path().join(OsStr::from_bytes(b"\xff\xfe"));
    fs::create_dir(&path).unwrap();
    assert!(matches!(project_identity(&path), Err(E::NotUtf8 { .. })));
}
