//! Compiles the eBPF programs of `engine/bpf`, which the `xdp` back end carries inside of it.

#[path = "../bpf/compile.rs"]
mod compile;

fn main() {
    compile::compile_all(std::path::Path::new("../bpf"));
}
