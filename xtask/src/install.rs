//! How the program is installed: on Linux with the C library in it, where that can be.

use std::env;
use std::path::Path;

use anyhow::Result;
use xtask::toolchain;

/// Arguments of `cargo install` for one file that needs no library of the system: it runs on any Linux of its kind, and
/// starts in nine tenths of the time, since nothing is to be looked up (docs/performance.md). It is still loaded to
/// addresses that nobody knows before. `Err`: why it cannot be made here.
pub fn static_arguments() -> Result<Result<[String; 4], &'static str>> {
    let host = toolchain::host()?;
    if !host.ends_with("-linux-gnu") {
        return Ok(Err("that is for Linux with GNU's C library"));
    }
    // Cargo takes flags from one place only.
    if ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"].iter().any(|name| env::var_os(name).is_some())
    {
        return Ok(Err("a variable has flags for the compiler, and those are heeded"));
    }
    // Answers with the bare name if it has none.
    let library = toolchain::print(Path::new("cc"), &["-print-file-name=libc.a"]);
    if !library.is_ok_and(|library| Path::new(&library).is_absolute()) {
        return Ok(Err("cc finds no libc.a (Fedora's package is glibc-static)"));
    }
    let flags = format!("target.{host}.rustflags=['-Ctarget-feature=+crt-static']");
    Ok(Ok(["--target".into(), host, "--config".into(), flags]))
}
