//! Processes of a test's own: the test's program, started again, which finds in its environment what it is to do.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Set for a process that does a part of a test: what it has to do, as JSON.
const JOB: &str = "RELIABILITY_JOB";

/// What this process is to do, if it is one that [`start`] has started.
pub fn job<T: DeserializeOwned>() -> Option<T> {
    let job = std::env::var(JOB).ok()?;
    Some(serde_json::from_str(&job).unwrap())
}

/// Tell the process that has started this one. Gone at once, in one piece, whatever becomes of this process then.
pub fn say(word: &str, what: &impl Serialize) {
    let line = format!("{MARK}{word} {}\n", serde_json::to_string(what).unwrap());
    // Not `eprintln`, which a test captures. If nobody listens any more, nobody waits for this process either.
    if std::io::stderr().write_all(line.as_bytes()).is_err() {
        std::process::exit(3);
    }
}

/// Before what is said: panics and the like are written to the same pipe.
const MARK: &str = "reliability: ";

/// One that was started.
pub struct Worker {
    process: Child,
    lines: Lines<BufReader<ChildStderr>>,
    /// What it wrote beside what it said.
    other: String,
}

/// Start this test again in a process of its own.
pub fn start(test: &str, job: &impl Serialize) -> Worker {
    spawn(Command::new(std::env::current_exe().unwrap()), test, job)
}

/// The same, where a limit of files' sizes is an error and not the end of the process.
pub fn start_unlimited(test: &str, job: &impl Serialize) -> Worker {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#]).arg(std::env::current_exe().unwrap());
    spawn(shell, test, job)
}

fn spawn(mut command: Command, test: &str, job: &impl Serialize) -> Worker {
    let mut process = command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(JOB, serde_json::to_string(job).unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stderr.take().unwrap()).lines();
    Worker { process, lines, other: String::new() }
}

impl Worker {
    /// The next thing that it says: a word, and JSON. `None`: it has ended.
    pub fn hear(&mut self) -> Option<(String, String)> {
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            match line.strip_prefix(MARK).and_then(|said| said.split_once(' ')) {
                Some((word, what)) => return Some((word.to_owned(), what.to_owned())),
                None => self.other += &(line + "\n"),
            }
        }
        None
    }

    /// Tell it a line.
    pub fn tell(&mut self, line: &str) {
        let mut stdin = self.process.stdin.as_ref().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Close what it listens to.
    pub fn tell_no_more(&mut self) {
        self.process.stdin = None;
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
    }

    /// Wait for its end. Whether it ended well; false if it was killed. If it failed, so does this.
    pub fn end(mut self) -> bool {
        while self.hear().is_some() {}
        let status = self.process.wait().unwrap();
        assert!(status.success() || status.code().is_none(), "a process failed with {status}: {}", self.other);
        status.success()
    }
}
