//! Compiled eBPF programs, as written by `build.rs`.

use aya::include_bytes_aligned;

pub(crate) static SENDER: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/sender.bpf.o"));
pub(crate) static RECEIVER: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/receiver.bpf.o"));
pub(crate) static REFERENCE: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/reference.bpf.o"));
pub(crate) static DEVICES: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/devices.bpf.o"));
pub(crate) static AFXDP: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/afxdp.bpf.o"));
