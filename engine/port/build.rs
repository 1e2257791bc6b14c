//! Compiles the eBPF programs.

#[path = "../bpf/compile.rs"]
mod compile;

fn main() {
    compile::compile_all(std::path::Path::new("../bpf"));
}
