#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dutlab_fuzz::targets::ledger(bytes));
