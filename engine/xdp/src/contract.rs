//! The layout of every map value: the other half of `engine/xdp/bpf/contract.h`.

use crate::shared::Words;

pub(crate) const PROBE_LEN: usize = 18;
pub(crate) const MAX_LANES: usize = 32;
pub(crate) const HEAD_MAX: usize = 128;
pub(crate) const PLAIN_LEN: usize = 60;
pub(crate) const PLAIN_SUM_AT: u8 = 40;
pub(crate) const PLAIN_PROBE_AT: u8 = 42;
pub(crate) const PAYLOAD_MAX: usize = 3400;
pub(crate) const SENT_LOG: usize = 4096;
pub(crate) const WRITTEN: usize = 32;
pub(crate) const RECENT: usize = 4;
pub(crate) const SOURCES: usize = 16;
pub(crate) const GAP_STEPS_LOG2: u32 = 7;
/// Resolution of latencies, as a power of two: 1/1024 of the value, or 1/128.
pub(crate) const FINE_LOG2: u32 = 10;
pub(crate) const COARSE_LOG2: u32 = 7;
pub(crate) const WINDOW_WORDS: usize = 4096;
pub(crate) const JUMPS: usize = 64;

pub(crate) const HALT_NO: u32 = 0;
pub(crate) const HALT_ASKED: u32 = 1;
pub(crate) const HALT_TIME_UP: u32 = 2;
pub(crate) const NO_STREAM: u32 = u32::MAX;
pub(crate) const HALT_ALL_SENT: u32 = 3;

pub(crate) const SHAPE_UDP: u8 = 1;
pub(crate) const SHAPE_IPV6: u8 = 2;

/// Buckets of a histogram with `2^steps_log2` steps an octave, up to `2^36` ns.
pub(crate) const fn buckets(steps_log2: u32) -> usize {
    ((36 - steps_log2 + 1) as usize) << steps_log2
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Progress {
    pub(crate) last_ns: u64,
    pub(crate) missed: u64,
    pub(crate) kept_out: u64,
    pub(crate) sent_at_ns: u64,
    pub(crate) last_frac: u32,
    pub(crate) burst_left: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Lane {
    pub(crate) gap_q24: u64,
    pub(crate) at: Progress,
    pub(crate) frames_left: u64,
    pub(crate) late_max_ns: u64,
    pub(crate) burst: u32,
    pub(crate) held: u32,
    pub(crate) behind_ns: u64,
    pub(crate) stream: Stream,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Written {
    lane_at: Progress,
    words: [u64; 3],
    halves: [u32; 4],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Control {
    pub(crate) halt: u32,
    pub(crate) slot: u32,
    pub(crate) end_ns: u64,
    pub(crate) begun_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) now_ns: u64,
    pub(crate) seen_end_ns: u64,
    pub(crate) clock_age: u32,
    pub(crate) log_head: u32,
    pub(crate) stamp: u64,
    pub(crate) stamp_sum: u64,
    pub(crate) shape: Shape,
    pub(crate) lanes: [Lane; MAX_LANES],
    pub(crate) written: [Written; WRITTEN],
    pub(crate) returned: [u64; WRITTEN],
    pub(crate) returned_count: u32,
    pub(crate) unused: [u32; 9],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Stream {
    pub(crate) sequence: u64,
    pub(crate) bytes: u64,
    pub(crate) id: u32,
    pub(crate) order_first: u32,
    pub(crate) orders: u32,
    pub(crate) order_at: u32,
    pub(crate) flow_first: u32,
    pub(crate) flows: u32,
    pub(crate) flow_at: u32,
    pub(crate) counter: u32,
    pub(crate) refused: u64,
    pub(crate) unused: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) head: [u8; HEAD_MAX],
    pub(crate) length: u16,
    pub(crate) addresses_at: u8,
    pub(crate) ports_at: u8,
    pub(crate) ip_sum_at: u8,
    pub(crate) sum_at: u8,
    pub(crate) probe_at: u8,
    pub(crate) flags: u8,
    pub(crate) ip_base: u32,
    pub(crate) base: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            head: [0; HEAD_MAX],
            length: 0,
            addresses_at: 0,
            ports_at: 0,
            ip_sum_at: 0,
            sum_at: 0,
            probe_at: 0,
            flags: 0,
            ip_base: 0,
            base: 0,
        }
    }
}

impl Shape {
    /// Returns true for UDP over IPv4 without tags or options, which `send_plain` writes.
    pub(crate) fn is_plain(&self) -> bool {
        self.flags == SHAPE_UDP && self.sum_at == PLAIN_SUM_AT && self.probe_at == PLAIN_PROBE_AT
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Flow4 {
    pub(crate) source: [u8; 4],
    pub(crate) destination: [u8; 4],
    pub(crate) ports: [u8; 4],
    pub(crate) ip_sum: u16,
    pub(crate) sum: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Flow6 {
    pub(crate) source: [u64; 2],
    pub(crate) destination: [u64; 2],
    pub(crate) ports: [u8; 4],
    pub(crate) sum: u16,
    pub(crate) unused: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Refusals {
    pub(crate) by_driver: u64,
    pub(crate) before: u64,
    pub(crate) last_error: u32,
    pub(crate) tid: u32,
    pub(crate) unused: [u64; 5],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Jump {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) arrival: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Ledger {
    pub(crate) next: u64,
    pub(crate) arrivals: u64,
    pub(crate) jump_head: u64,
    pub(crate) jumps: [Jump; JUMPS],
    pub(crate) window: [u64; WINDOW_WORDS],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Source {
    pub(crate) address: [u8; 16],
    pub(crate) destination: [u8; 16],
    pub(crate) port: [u8; 2],
    pub(crate) destination_port: [u8; 2],
    pub(crate) ip_version: u8,
    pub(crate) protocol: u8,
    pub(crate) hop_limit: u8,
    pub(crate) tags: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) begin_ns: u64,
    pub(crate) sender_ahead_ns: u64,
    pub(crate) unique: u64,
    pub(crate) bytes: u64,
    pub(crate) latency_sum_ns: u64,
    pub(crate) latency_max_ns: u64,
    pub(crate) latency_floor: u64,
    pub(crate) last_arrival_ns: u64,
    pub(crate) first_arrival_ns: u64,
    pub(crate) last_sequence: u64,
    pub(crate) last_latency_ns: u64,
    pub(crate) ipdv_breaks: u64,
    pub(crate) ipdv_sum_ns: u64,
    pub(crate) ipdv_max_ns: u64,
    pub(crate) duplicates: u64,
    pub(crate) reordered: u64,
    pub(crate) too_old: u64,
    pub(crate) extent_sum: u64,
    pub(crate) extent_max: u64,
    pub(crate) extent_unknown: u64,
    pub(crate) stale: u64,
    pub(crate) corrupted: u64,
    pub(crate) negative: u64,
    pub(crate) by_three: u64,
    pub(crate) in_queue: u64,
    pub(crate) astray: u64,
    pub(crate) recent: [u64; RECENT],
    pub(crate) sources_seen: u32,
    pub(crate) unused: u32,
    pub(crate) sources: [Source; SOURCES],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Others {
    pub(crate) passed: u64,
    pub(crate) unknown: u64,
    pub(crate) misplaced: u64,
    pub(crate) unused: [u64; 5],
}

impl Tally {
    pub(crate) fn arrivals(&self) -> u64 {
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
    assert!(size_of::<Progress>() == 40);
    assert!(size_of::<Lane>() == 80 + size_of::<Stream>());
    assert!(size_of::<Written>() == 80);
    assert!(size_of::<Control>() == 256 + MAX_LANES * size_of::<Lane>() + WRITTEN * (size_of::<Written>() + 8));
    assert!(size_of::<Control>().is_multiple_of(64));
    assert!(size_of::<Stream>() == 64);
    assert!(size_of::<Shape>() == 144);
    assert!(size_of::<Flow4>() == 16);
    assert!(size_of::<Flow6>() == 40);
    assert!(size_of::<Refusals>() == 64);
    assert!(size_of::<Ledger>() == 24 + JUMPS * 24 + WINDOW_WORDS * 8);
    assert!(size_of::<Tally>() == (26 + RECENT) * 8 + 8 + SOURCES * 40);
    assert!(size_of::<Others>() == 64);
};
