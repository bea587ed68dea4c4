#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cachekit_secure_fuzz::targets::entry(data));
