//! The layout of every map value: the other half of `engine/bpf/contract.h`.

use super::shared::Words;

pub(super) const PROBE_LEN: usize = 18;
pub(super) const MAX_LANES: usize = 32;
pub(super) const HEAD_MAX: usize = 128;
pub(super) const PAYLOAD_MAX: usize = 3400;
pub(super) const SENT_LOG: usize = 4096;
pub(super) const WRITTEN: usize = 32;
pub(super) const RECENT: usize = 4;
pub(super) const SOURCES: usize = 16;
pub(super) const GAP_STEPS_LOG2: u32 = 7;
pub(super) const WINDOW_WORDS: usize = 4096;
pub(super) const JUMPS: usize = 64;

pub(super) const HALT_NO: u32 = 0;
pub(super) const HALT_ASKED: u32 = 1;
pub(super) const HALT_TIME_UP: u32 = 2;
pub(super) const NO_STREAM: u32 = u32::MAX;
pub(super) const HALT_ALL_SENT: u32 = 3;

pub(super) const SHAPE_UDP: u8 = 1;
pub(super) const SHAPE_IPV6: u8 = 2;

/// Buckets of a histogram with `2^steps_log2` steps an octave, up to `2^36` ns.
pub(super) const fn buckets(steps_log2: u32) -> usize {
    ((36 - steps_log2 + 1) as usize) << steps_log2
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Lane {
    pub(super) gap_q24: u64,
    pub(super) last_ns: u64,
    pub(super) last_frac: u32,
    pub(super) burst: u32,
    pub(super) burst_left: u32,
    pub(super) stream_first: u32,
    pub(super) streams: u32,
    pub(super) stream_at: u32,
    pub(super) frames_left: u64,
    pub(super) missed: u64,
    pub(super) sent_at_ns: u64,
    pub(super) late_max_ns: u64,
    pub(super) held: u32,
    pub(super) behind: u32,
    pub(super) kept_out: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Written {
    words: [u64; 6],
    halves: [u32; 8],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Control {
    pub(super) halt: u32,
    pub(super) slot: u32,
    pub(super) end_ns: u64,
    pub(super) begun_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) now_ns: u64,
    pub(super) clock_age: u32,
    pub(super) log_head: u32,
    pub(super) lanes: [Lane; MAX_LANES],
    pub(super) written: [Written; WRITTEN],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Stream {
    pub(super) sequence: u64,
    pub(super) bytes: u64,
    pub(super) id: u32,
    pub(super) order_first: u32,
    pub(super) orders: u32,
    pub(super) order_at: u32,
    pub(super) flow_first: u32,
    pub(super) flows: u32,
    pub(super) flow_at: u32,
    pub(super) unused: u32,
    pub(super) refused: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) head: [u8; HEAD_MAX],
    pub(super) length: u16,
    pub(super) addresses_at: u8,
    pub(super) ports_at: u8,
    pub(super) ip_sum_at: u8,
    pub(super) sum_at: u8,
    pub(super) probe_at: u8,
    pub(super) flags: u8,
    pub(super) ip_base: u32,
    pub(super) base: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Flow4 {
    pub(super) source: [u8; 4],
    pub(super) destination: [u8; 4],
    pub(super) ports: [u8; 4],
    pub(super) ip_sum: u16,
    pub(super) sum: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Flow6 {
    pub(super) source: [u64; 2],
    pub(super) destination: [u64; 2],
    pub(super) ports: [u8; 4],
    pub(super) sum: u16,
    pub(super) unused: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Refusals {
    pub(super) by_driver: u64,
    pub(super) before: u64,
    pub(super) last_error: u32,
    pub(super) tid: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Jump {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) arrival: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Ledger {
    pub(super) next: u64,
    pub(super) arrivals: u64,
    pub(super) jump_head: u64,
    pub(super) jumps: [Jump; JUMPS],
    pub(super) window: [u64; WINDOW_WORDS],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Source {
    pub(super) address: [u8; 16],
    pub(super) destination: [u8; 16],
    pub(super) port: [u8; 2],
    pub(super) destination_port: [u8; 2],
    pub(super) ip_version: u8,
    pub(super) protocol: u8,
    pub(super) hop_limit: u8,
    pub(super) tags: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) begin_ns: u64,
    pub(super) unique: u64,
    pub(super) bytes: u64,
    pub(super) latency_sum_ns: u64,
    pub(super) latency_max_ns: u64,
    pub(super) latency_floor: u64,
    pub(super) last_arrival_ns: u64,
    pub(super) first_arrival_ns: u64,
    pub(super) last_sequence: u64,
    pub(super) last_latency_ns: u64,
    pub(super) ipdv_breaks: u64,
    pub(super) ipdv_sum_ns: u64,
    pub(super) ipdv_max_ns: u64,
    pub(super) duplicates: u64,
    pub(super) reordered: u64,
    pub(super) too_old: u64,
    pub(super) extent_sum: u64,
    pub(super) extent_max: u64,
    pub(super) extent_unknown: u64,
    pub(super) stale: u64,
    pub(super) corrupted: u64,
    pub(super) negative: u64,
    pub(super) by_three: u64,
    pub(super) recent: [u64; RECENT],
    pub(super) sources_seen: u32,
    pub(super) unused: u32,
    pub(super) sources: [Source; SOURCES],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Others {
    pub(super) passed: u64,
    pub(super) unknown: u64,
    pub(super) misplaced: u64,
    pub(super) unused: [u64; 5],
}

impl Tally {
    pub(super) fn arrivals(&self) -> u64 {
        self.unique + self.duplicates + self.too_old
    }
}

// SAFETY (all): `repr(C)` structures of unsigned integers whose fields fill them without padding, as the sizes below say.
unsafe impl Words for u64 {}
unsafe impl Words for Lane {}
unsafe impl Words for Control {}
unsafe impl Words for Stream {}
unsafe impl Words for Shape {}
unsafe impl Words for Flow4 {}
unsafe impl Words for Flow6 {}
unsafe impl Words for Refusals {}
unsafe impl Words for Ledger {}
unsafe impl Words for Tally {}
unsafe impl Words for Others {}

const _: () = {
    assert!(size_of::<Lane>() == 88);
    assert!(size_of::<Written>() == 80);
    assert!(size_of::<Control>() == 48 + MAX_LANES * size_of::<Lane>() + WRITTEN * size_of::<Written>());
    assert!(size_of::<Stream>() == 56);
    assert!(size_of::<Shape>() == 144);
    assert!(size_of::<Flow4>() == 16);
    assert!(size_of::<Flow6>() == 40);
    assert!(size_of::<Refusals>() == 24);
    assert!(size_of::<Ledger>() == 24 + JUMPS * 24 + WINDOW_WORDS * 8);
    assert!(size_of::<Tally>() == (23 + RECENT) * 8 + 8 + SOURCES * 40);
    assert!(size_of::<Others>() == 64);
};
