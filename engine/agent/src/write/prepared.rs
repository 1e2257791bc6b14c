//! A prepared template: its bytes, its offsets, and the partial checksums of its constant bytes.

use super::next;
use super::rows::{Rows, put};
use dutlab_port::batch::Buffer;
use dutlab_port::{Batch, Counter, PlanStream, Template, Varied};
use dutlab_wire::checksum::Sum;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of the next template.
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// A template that is ready to be written.
pub struct Prepared {
    bytes: Box<[u8]>,
    /// Number, unique in this process.
    number: u64,
    sequence_at: usize,
    stamp_at: usize,
    checksum_at: usize,
    ip_checksum_at: Option<usize>,
    zero_is_ffff: bool,
    counters: Box<[Counter]>,
    varied: Box<[Varied]>,
    /// True if varying bits are covered by the IPv4 header's checksum.
    varies_ip: bool,
    transport: Sum,
    ip: Sum,
}

impl Prepared {
    /// Prepares a template of `stream`; the sums exclude fields that flows and counters change.
    #[must_use]
    pub fn new(template: &Template, stream: &PlanStream) -> Self {
        let b = &template.bytes;
        let word = |at: u16| u16::from_be_bytes([b[usize::from(at)], b[usize::from(at) + 1]]);
        let mut transport = Sum::ZERO.word(!word(template.checksum_at));
        let mut ip = template.ip_checksum_at.map_or(Sum::ZERO, |at| Sum::ZERO.word(!word(at)));
        for field in stream.flows.iter().flat_map(|f| &f.fields) {
            for at in (field.at..field.at + u16::from(field.length)).step_by(2) {
                if field.in_checksum {
                    transport = transport.without(word(at));
                }
                if field.in_ip_checksum {
                    ip = ip.without(word(at));
                }
            }
        }
        for counter in stream.counters.iter().filter(|c| c.in_checksum) {
            for at in (counter.at..counter.at + u16::from(counter.length)).step_by(2) {
                transport = transport.without(word(at));
            }
        }
        for v in &stream.varied {
            let bits = v.read(b) & v.mask;
            transport = words(bits & v.in_checksum).fold(transport, Sum::without);
            ip = words(bits & v.in_ip_checksum).fold(ip, Sum::without);
        }
        Self {
            varied: stream.varied.clone().into_boxed_slice(),
            varies_ip: stream.varied.iter().any(|v| v.mask & v.in_ip_checksum != 0),
            counters: stream.counters.clone().into_boxed_slice(),
            bytes: b.clone().into_boxed_slice(),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            sequence_at: template.sequence_at.into(),
            stamp_at: template.stamp_at.into(),
            checksum_at: template.checksum_at.into(),
            ip_checksum_at: template.ip_checksum_at.map(Into::into),
            zero_is_ffff: template.zero_is_ffff,
            // Folded once here, so that the sums of a frame stay short.
            transport: Sum::ZERO.word(transport.folded()),
            ip: Sum::ZERO.word(ip.folded()),
        }
    }

    /// Returns the length of a frame without FCS.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Fills a whole batch with frames of this template.
    #[inline]
    pub fn write_all(&self, sequence: u64, stamp: u64, rows: &Rows, mut flow: usize, batch: &mut Batch<'_>) {
        let base = self.base(stamp);
        for (i, sequence) in (0..batch.len()).zip(sequence..) {
            self.write(sequence, stamp, base, rows, flow, &mut batch.buffer(i));
            flow = next(flow, rows.len());
        }
    }

    /// Returns the transport's partial checksum of the bytes that are the same in all frames with this stamp.
    #[inline]
    #[must_use]
    pub const fn base(&self, stamp: u64) -> Sum {
        Sum::ZERO.word(self.transport.number(stamp).folded())
    }

    /// Writes one frame; `base` is [`base`](Self::base) of `stamp`. If a buffer holds this template already, writes
    /// only what changes.
    #[inline]
    pub fn write(&self, sequence: u64, stamp: u64, base: Sum, rows: &Rows, flow: usize, buffer: &mut Buffer<'_>) {
        let b = &mut buffer.bytes[..self.bytes.len()];
        if *buffer.holds != self.number {
            b.copy_from_slice(&self.bytes);
            *buffer.holds = self.number;
            #[expect(clippy::cast_possible_truncation, reason = "at most 9238")]
            let length = b.len() as u32;
            *buffer.length = length;
        }
        let row = rows.put(flow, b);
        let [_, _, s @ ..] = sequence.to_be_bytes();
        put(b, self.sequence_at, s);
        put(b, self.stamp_at, stamp.to_be_bytes());
        let (mut sum, mut ip) = (base.number(sequence).word(row.transport), self.ip.word(row.ip));
        for v in &self.varied {
            let bits = v.bits(sequence);
            v.write(bits, b);
            sum = plus_bits(sum, bits & v.in_checksum);
            ip = plus_bits(ip, bits & v.in_ip_checksum);
        }
        if let (Some(at), true) = (self.ip_checksum_at, rows.change() || self.varies_ip) {
            put(b, at, ip.checksum().to_be_bytes());
        }
        for counter in &self.counters {
            let value = counter.value(sequence);
            let all @ [_, _, low @ ..] = value.to_be_bytes();
            if counter.length == 2 {
                put(b, counter.at.into(), low);
            } else {
                put(b, counter.at.into(), all);
            }
            if counter.in_checksum {
                sum = sum.number(u64::from(value));
            }
        }
        let checksum = if self.zero_is_ffff { sum.udp_checksum() } else { sum.checksum() };
        put(b, self.checksum_at, checksum.to_be_bytes());
    }
}

/// Adds bits that are at an even offset.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "one half is meant")]
const fn plus_bits(sum: Sum, bits: u128) -> Sum {
    if bits == 0 { sum } else { sum.number((bits >> 64) as u64).number(bits as u64) }
}

/// Splits a number into pairs of bytes.
#[expect(clippy::cast_possible_truncation, reason = "one word is meant")]
fn words(number: u128) -> impl Iterator<Item = u16> {
    (0..8).map(move |i| (number >> (16 * i)) as u16)
}
