//! Compiles the eBPF programs of `engine/xdp/bpf`, which this crate carries inside of it.

#[path = "bpf/compile.rs"]
mod compile;

fn main() {
    compile::compile_all(std::path::Path::new("bpf"));
}
