//! The program `memory-prefetch`.

fn main() {}
