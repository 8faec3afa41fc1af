//! The program `memory-prefetch`. The library does the work; here is what a person types and reads.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
