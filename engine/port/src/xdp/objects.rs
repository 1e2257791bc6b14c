//! The compiled eBPF programs, as `build.rs` leaves them.

use aya::include_bytes_aligned;

pub(super) static SENDER: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/sender.bpf.o"));
pub(super) static RECEIVER: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/receiver.bpf.o"));
pub(super) static REFERENCE: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/reference.bpf.o"));
pub(super) static DEVICES: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/devices.bpf.o"));
