//! The eBPF programs that this crate has inside of it: compiled from `bpf`, or carried in `objects` where a source archive has them.

#[path = "bpf/compile.rs"]
mod compile;

fn main() {
    compile::provide_all(std::path::Path::new("bpf"), std::path::Path::new("objects"));
}
