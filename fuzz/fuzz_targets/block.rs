#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| memory_prefetch_fuzz::block::run(data));
