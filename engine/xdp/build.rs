//! Provides the eBPF programs inside this crate: compiled from `bpf`, or copied from `objects` in a source archive.

#[path = "bpf/compile.rs"]
mod compile;

fn main() {
    compile::provide_all(std::path::Path::new("bpf"), std::path::Path::new("objects"));
}
