//! Where a compiler for [`TARGET`](crate::TARGET) comes from.
//!
//! Rust's installer often brings only the standard library of the machine itself, and not every machine may download
//! another. So there are three routes, tried in order; what [`find`] accepts is what [`obtain`] leaves behind.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

use crate::TARGET;

/// The Debian packages with a compiler of this decade and its library's source: those that browsers are built with.
const DEBIAN_PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// A way to get a standard library for the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The active compiler has it.
    Sysroot,
    /// `rustup target add`.
    Rustup,
    /// Debian's compiler and library source by apt, the library built with the component.
    Debian,
}

impl Route {
    /// In the order in which they are tried.
    pub const ALL: [Route; 3] = [Route::Sysroot, Route::Rustup, Route::Debian];
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Route::Sysroot => "sysroot",
            Route::Rustup => "rustup",
            Route::Debian => "debian",
        })
    }
}

impl FromStr for Route {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Route::ALL
            .into_iter()
            .find(|route| route.to_string() == text)
            .with_context(|| format!("no route is named `{text}`: it is one of sysroot, rustup, debian"))
    }
}

/// A compiler that can build for the target.
#[derive(Clone, Debug)]
pub struct Toolchain {
    pub(crate) rustc: PathBuf,
    pub(crate) sysroot: PathBuf,
    /// Where the compiler's own messages place the library's source: `/rustc/<commit>`.
    pub(crate) library_name: String,
    /// The linker, if the standard library has to be built too.
    pub(crate) build_std: Option<PathBuf>,
}

impl Toolchain {
    /// A word for directories and messages: artefacts of two compilers do not mix.
    pub fn name(&self) -> &'static str {
        if self.build_std.is_some() { "debian" } else { "sysroot" }
    }
}

/// A compiler that is here already; `None` if there is none. Installs nothing.
pub fn find() -> Result<Option<Toolchain>> {
    if let Some(toolchain) = in_sysroot()? {
        return Ok(Some(toolchain));
    }
    Ok(debian_installed().ok())
}

/// A compiler, installed if need be; by the route that is asked for, or by the first that works.
pub fn obtain(forced: Option<Route>) -> Result<(Route, Toolchain)> {
    let mut failures = Vec::new();
    for route in forced.map_or(Route::ALL.to_vec(), |route| vec![route]) {
        match take(route) {
            Ok(toolchain) => return Ok((route, toolchain)),
            Err(error) => failures.push(format!("{route}: {error:#}")),
        }
    }
    bail!(
        "nothing here can build for {TARGET} ({}). Install it with `rustup target add {TARGET}`, or, where rustup can't \
         download, a Rust {} or newer whose packages include that target's standard library",
        failures.join("; "),
        env!("CARGO_PKG_RUST_VERSION"),
    )
}

fn take(route: Route) -> Result<Toolchain> {
    match route {
        Route::Sysroot => in_sysroot()?.with_context(|| format!("the active compiler has no library for {TARGET}")),
        Route::Rustup => {
            // Asked for by name: with RUSTUP_AUTO_INSTALL=0, rustup adds nothing by itself.
            run(Command::new("rustup").args(["target", "add", TARGET]))?;
            in_sysroot()?.context("rustup added the target, but the active compiler is not one of rustup's")
        }
        Route::Debian => debian_installed().or_else(|_| {
            install_debian()?;
            debian_installed()
        }),
    }
}

/// Route 1: the library is where the active compiler looks for it.
fn in_sysroot() -> Result<Option<Toolchain>> {
    let rustc = active_rustc();
    let libraries = print(&rustc, &["--print", "target-libdir", "--target", TARGET])?;
    let installed = std::fs::read_dir(libraries)
        .is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-")));
    if installed { Ok(Some(Compiler::ask(&rustc)?.toolchain(None))) } else { Ok(None) }
}

/// What the compiler's own programs run on, `x86_64-unknown-linux-gnu` for example.
pub fn host() -> Result<String> {
    print(&active_rustc(), &["--print", "host-tuple"])
}

/// Cargo names its compiler to build scripts; elsewhere, it uses the one on the path.
fn active_rustc() -> PathBuf {
    env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()).into()
}

/// Route 3, after its installation: Debian's compiler with its library's source, and a linker for wasm.
fn debian_installed() -> Result<Toolchain> {
    let rustc = Path::new(DEBIAN_RUSTC);
    ensure!(rustc.exists(), "{DEBIAN_RUSTC} is missing");
    let compiler = Compiler::ask(rustc)?;
    let source = compiler.sysroot.join("lib/rustlib/src/rust/library/Cargo.lock");
    ensure!(source.exists(), "the source of its standard library is missing ({})", source.display());
    ensure!(
        version(&compiler.release) >= version(env!("CARGO_PKG_RUST_VERSION")),
        "{DEBIAN_RUSTC} is Rust {}, and Rust {} is needed",
        compiler.release,
        env!("CARGO_PKG_RUST_VERSION"),
    );
    let linker = wasm_linker()?;
    Ok(compiler.toolchain(Some(linker)))
}

fn install_debian() -> Result<()> {
    ensure!(Path::new("/etc/debian_version").exists(), "this is not Debian");
    let user = print(Path::new("id"), &["-u"])?;
    ensure!(user == "0", "only root can install `apt-get install {}`", DEBIAN_PACKAGES.join(" "));
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    run(apt().args(["update", "--quiet"]))?;
    // Debian's other `rustc` package conflicts with these; whoever has that one decides for themselves.
    run(apt().args(["install", "--yes", "--quiet", "--no-install-recommends", "--no-remove"]).args(DEBIAN_PACKAGES))
}

/// Debian's compiler comes without a linker for wasm; rustup's come with one.
fn wasm_linker() -> Result<PathBuf> {
    let active = Compiler::ask(&active_rustc())?;
    let bundled = active.sysroot.join("lib/rustlib").join(&active.host).join("bin/rust-lld");
    let on_path = env::var_os("PATH")
        .iter()
        .flat_map(env::split_paths)
        .map(|directory| directory.join("wasm-ld"))
        .collect::<Vec<_>>();
    [bundled]
        .into_iter()
        .chain(on_path)
        .find(|linker| linker.exists())
        .context("no linker for wasm: neither rust-lld nor wasm-ld is here (Debian has it in its `lld` packages)")
}

/// What a compiler says of itself.
struct Compiler {
    rustc: PathBuf,
    sysroot: PathBuf,
    host: String,
    release: String,
    commit: String,
}

impl Compiler {
    fn ask(rustc: &Path) -> Result<Self> {
        let about = print(rustc, &["-vV"])?;
        let field = |name: &str| {
            about
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                .map(str::to_owned)
                .with_context(|| format!("`{} -vV` has no line `{name}`", rustc.display()))
        };
        Ok(Compiler {
            rustc: rustc.to_owned(),
            sysroot: print(rustc, &["--print", "sysroot"])?.into(),
            host: field("host")?,
            release: field("release")?,
            commit: field("commit-hash")?,
        })
    }

    fn toolchain(self, build_std: Option<PathBuf>) -> Toolchain {
        Toolchain {
            rustc: self.rustc,
            sysroot: self.sysroot,
            library_name: format!("/rustc/{}", self.commit),
            build_std,
        }
    }
}

/// Major and minor number.
fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Runs a command in the reader's sight.
fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    eprintln!("    {line}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("`{line}` could not start"))?;
    ensure!(status.success(), "`{line}` failed ({status})");
    Ok(())
}

/// What a program writes, without blanks around it.
pub fn print(program: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let line = line(&command);
    let output = command.output().with_context(|| format!("`{line}` could not start"))?;
    ensure!(output.status.success(), "`{line}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout).with_context(|| format!("`{line}` wrote no text"))?.trim().to_owned())
}

fn line(command: &Command) -> String {
    let words: Vec<_> =
        [command.get_program()].into_iter().chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

/// The cargo that runs us, or the one on the path.
pub fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}
