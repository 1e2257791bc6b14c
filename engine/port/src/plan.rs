//! Plan of a whole trial for a back end inside the kernel: bytes, offsets and numbers, without names of header fields.

use dutlab_traffic::{Series, Spaced};
use dutlab_units::Nanos;

/// Send plan.
#[derive(Debug, Clone, PartialEq)]
pub struct SendPlan {
    /// Number in the probes of this trial.
    pub trial: u16,
    /// The streams.
    pub streams: Vec<PlanStream>,
    /// Time at which the first frame is due, on `CLOCK_MONOTONIC`.
    pub start: Nanos,
    /// No frame is due at or after this; `NEVER` if only counts end the streams.
    pub end: Nanos,
    /// Keep sending while the link has no carrier: frames that are due meanwhile are refused.
    pub through_link_loss: bool,
}

/// One stream.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanStream {
    /// Its number, already in the templates.
    pub stream: u16,
    /// Templates, one for each frame size.
    pub templates: Vec<Template>,
    /// Frame n uses `templates[order[n % order.len()]]`. Not empty.
    pub order: Vec<u16>,
    /// Fields that change from flow to flow; `None`: a single flow, as in the templates.
    pub flows: Option<FlowSet>,
    /// Numbers that count from frame to frame in each template, besides sequence number and send time. A back end that
    /// cannot count sends the values in the templates; the templates' checksums are right for these.
    pub counters: Vec<Counter>,
    /// Bits that vary from frame to frame, each group by its own rule. No bit is in two groups, in a field of `flows`,
    /// or in a counter.
    pub varied: Vec<Varied>,
    /// Times at which frames are due.
    pub pace: Pace,
    /// Time from the plan's start to the start of the pace.
    pub after: Nanos,
    /// The stream ends after this many frames; `u64::MAX`: the plan's end ends it.
    pub frames: u64,
}

/// A frame with probe, sequence 0, stamp 0 (no trial, no send time) and right checksums, and the offsets of its
/// changing fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The frame without FCS.
    pub bytes: Vec<u8>,
    /// Offset of the big-endian 48-bit sequence number; even.
    pub sequence_at: u16,
    /// Offset of the big-endian 64-bit stamp: the trial's number and the send time, as `dutlab_wire::probe::stamp`
    /// makes it; even.
    pub stamp_at: u16,
    /// Offset of the header checksum that covers the addresses only (IPv4), if there is one.
    pub ip_checksum_at: Option<u16>,
    /// Offset of the checksum that covers sequence number, send time and the fields of `flows` with
    /// `field.in_checksum`.
    pub checksum_at: u16,
    /// True if a computed checksum of 0 is written as 0xffff (UDP).
    pub zero_is_ffff: bool,
}

/// The flows of a stream. Frame n belongs to flow n mod `count`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSet {
    /// Number of flows.
    pub count: u32,
    /// The fields that change: source address, destination address, source port, destination port (with ICMP the
    /// identifier in place of both ports), then the higher words of IPv6 addresses that change, then MACs.
    pub fields: Vec<Field>,
    /// The values: `count` rows with one value for each field, in the order of `fields`. A field of an IPv6 address is
    /// one of its words of 4 bytes.
    pub values: Vec<u32>,
}

/// A field that changes from flow to flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Offset; even.
    pub at: u16,
    /// 2 or 4 bytes, big-endian.
    pub length: u8,
    /// True if the transport's checksum covers it.
    pub in_checksum: bool,
    /// True if the IPv4 header checksum covers it.
    pub in_ip_checksum: bool,
}

/// Bits that vary from frame to frame. The bytes that contain them are read as one big-endian number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Varied {
    /// Offset of these bytes; even.
    pub at: u16,
    /// Number of these bytes: even, at most 16.
    pub length: u8,
    /// Number of bits below those that vary.
    pub shift: u8,
    /// The bits of the number that vary.
    pub mask: u128,
    /// The bits of the number that the transport's checksum covers.
    pub in_checksum: u128,
    /// The bits of the number that the IPv4 header checksum covers.
    pub in_ip_checksum: u128,
    /// Values of the bits, by frame.
    pub values: Series,
}

impl Varied {
    /// Returns the varying bits of frame `n` at their place in the number.
    #[must_use]
    #[inline]
    pub fn bits(&self, n: u64) -> u128 {
        self.values.at(n) << self.shift
    }

    /// Returns the number in `frame`.
    #[must_use]
    #[inline]
    pub fn read(&self, frame: &[u8]) -> u128 {
        let mut number = [0; 16];
        let length = usize::from(self.length);
        number[16 - length..].copy_from_slice(&frame[usize::from(self.at)..][..length]);
        u128::from_be_bytes(number)
    }

    /// Writes `bits` of `frame`, and leaves all others as they are.
    #[inline]
    pub fn write(&self, bits: u128, frame: &mut [u8]) {
        let number = (self.read(frame) & !self.mask | bits).to_be_bytes();
        let length = usize::from(self.length);
        frame[usize::from(self.at)..][..length].copy_from_slice(&number[16 - length..]);
    }
}

/// A number that grows with the frames of a stream: frame n has the low `length` bytes of `start` + n / `every` × `step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// Offset; even.
    pub at: u16,
    /// 2 or 4 bytes, big-endian.
    pub length: u8,
    /// The value in frame 0, which the templates have.
    pub start: u32,
    /// Number of frames between increments; at least 1.
    pub every: u32,
    /// Increment.
    pub step: u32,
    /// True if the checksum at `checksum_at` covers it.
    pub in_checksum: bool,
}

impl Counter {
    /// Returns the value in frame `n`.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "numbers of headers wrap around")]
    pub const fn value(&self, n: u64) -> u32 {
        let value = self.start.wrapping_add((n / self.every as u64).wrapping_mul(self.step as u64) as u32);
        if self.length == 2 { value & 0xffff } else { value }
    }
}

/// Times at which the frames of a stream are due. Instants count from [`SendPlan::start`].
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// All frames are due at once, always.
    Max,
    /// Consecutive pieces of linearly changing rate. After the last one, the stream continues at its `to_pps`. A
    /// constant rate is one piece with `from_pps` = `to_pps`.
    Linear(Vec<Piece>),
    /// `frames` at once every `period`.
    Bursts {
        /// Frames in a burst.
        frames: u32,
        /// Time from the start of one burst to the start of the next.
        period: Nanos,
    },
    /// Bursts with a rate within the burst and a pause between bursts.
    Spaced(Spaced),
}

/// A period of linearly changing rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    /// Frames per second at its start.
    pub from_pps: f64,
    /// Frames per second at its end.
    pub to_pps: f64,
    /// Duration of the piece.
    pub span: Nanos,
}
