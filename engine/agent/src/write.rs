//! Writes the frames of a stream: templates with sequence number, send time, flow and checksums filled in.
//!
//! Hot path of every back end that takes bursts. In a buffer that holds a frame of the same template already, only the
//! changes are written. Sums are precomputed, so that a frame's checksum costs a few additions.

mod prepared;
mod rows;

use dutlab_port::{Batch, Fill, PlanStream};
use dutlab_units::{FCS, Nanos};
use dutlab_wire::probe::stamp;
use prepared::Prepared;
use rows::Rows;

/// Writer of the frames of one stream. Its state advances only with [`accept`](Self::accept), when frames have left.
pub struct Writer {
    /// Number in its probes.
    trial: u16,
    templates: Vec<Prepared>,
    order: Vec<u16>,
    /// Bytes, with FCS, of the first n frames of a round through `order`, for n from 0 to its length.
    bytes_before: Vec<u64>,
    rows: Rows,
    /// Number of the next frame.
    sequence: u64,
    /// Index in `order` of the next frame.
    place: usize,
    /// Flow of the next frame.
    flow: usize,
    /// Bytes accepted so far, with FCS.
    bytes: u64,
}

/// Next frames of a stream, all with one send time.
pub struct Burst<'a> {
    writer: &'a Writer,
    stamp: u64,
}

impl Fill for Burst<'_> {
    fn fill(&mut self, first: usize, batch: &mut Batch<'_>) {
        self.writer.write(first, self.stamp, batch);
    }
}

impl Writer {
    /// Starts a stream of a trial at its first frame.
    #[must_use]
    pub fn new(trial: u16, stream: &PlanStream) -> Self {
        let templates: Vec<_> = stream.templates.iter().map(|t| Prepared::new(t, stream)).collect();
        let mut bytes_before = vec![0];
        for place in &stream.order {
            let before = bytes_before.last().copied().unwrap_or(0);
            bytes_before.push(before + templates[usize::from(*place)].length() as u64 + u64::from(FCS));
        }
        Self {
            trial,
            templates,
            order: stream.order.clone(),
            bytes_before,
            rows: Rows::new(stream.flows.as_ref()),
            sequence: 0,
            place: 0,
            flow: 0,
            bytes: 0,
        }
    }

    /// Returns the next frames, sent at `sent`.
    #[must_use]
    pub const fn burst(&self, sent: Nanos) -> Burst<'_> {
        Burst { writer: self, stamp: stamp(self.trial, sent) }
    }

    fn write(&self, ahead: usize, stamp: u64, batch: &mut Batch<'_>) {
        let first = self.sequence + ahead as u64;
        let mut place = (self.place + ahead) % self.order.len();
        let mut flow = (self.flow + ahead) % self.rows.len();
        if let [one] = self.templates.as_slice() {
            one.write_all(first, stamp, &self.rows, flow, batch);
            return;
        }
        for (i, sequence) in (0..batch.len()).zip(first..) {
            let template = &self.templates[usize::from(self.order[place])];
            template.write(sequence, stamp, template.base(stamp), &self.rows, flow, &mut batch.buffer(i));
            place = next(place, self.order.len());
            flow = next(flow, self.rows.len());
        }
    }

    /// Records that the next `n` frames left.
    pub fn accept(&mut self, n: usize) {
        let (end, round) = (self.place + n, self.order.len());
        let before =
            |frames: usize| (frames / round) as u64 * self.bytes_before[round] + self.bytes_before[frames % round];
        self.bytes += before(end) - before(self.place);
        self.sequence += n as u64;
        self.place = end % round;
        self.flow = (self.flow + n) % self.rows.len();
    }

    /// Number of frames that left.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        self.sequence
    }

    /// Bytes of these frames, with FCS.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Returns the place after `place` in a round of `count`. A comparison, because a division costs more than the rest of
/// a frame.
#[inline]
const fn next(place: usize, count: usize) -> usize {
    if place + 1 == count { 0 } else { place + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dutlab_port::Slot;
    use dutlab_protocol::plan::SendPlan;
    use dutlab_wire::Seen;
    use proptest::prelude::*;

    fn iface() -> dutlab_port::iface::Interface {
        dutlab_port::iface::Interface {
            name: "memory".into(),
            index: 0,
            mac: [2, 0, 0, 0, 0, 0],
            mtu: 9216,
            up: true,
            carrier: true,
            addresses: Vec::new(),
            leads_out: dutlab_port::iface::LeadsOut::No,
            shared_with: Vec::new(),
        }
    }

    fn stream(v6: bool, transport: &str, sizes: &[u32], flows: u32) -> PlanStream {
        let (source, destination) = if v6 { ("2001:db8::2", "2001:db8:1::2") } else { ("172.16.0.2", "172.16.10.2") };
        let mut stream = serde_json::json!({
            "stream": 7, "destination_mac": "02:00:00:00:00:01", "source": source, "destination": destination,
            "source_port": 1000, "destination_port": 2000, "transport": transport,
            "sizes": {"sequence_bytes": sizes}, "rate": {"max": true}, "frames": 1000,
        });
        if flows > 1 {
            stream["flows"] = serde_json::json!({
                "count": flows, "source_ports": 50, "source_addresses": 30, "destination_addresses": 40, "seed": 3,
            });
        }
        let plan: SendPlan = serde_json::from_value(serde_json::json!({"streams": [stream]})).unwrap();
        crate::lower::lower(&plan, &iface(), &[]).unwrap().plan.streams.remove(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_the_buffers_held_every_frame_is_whole_and_its_checksums_are_right(
            v6: bool, transport in prop::sample::select(vec!["udp", "tcp", "tcp_syn", "icmp_echo"]),
            sizes in proptest::collection::vec(110_u32..300, 1..4), flows in 1_u32..40,
            bursts in proptest::collection::vec((1_usize..20, 0_usize..20), 1..8), time in 0_u64..1 << 47, trial: u16,
        ) {
            let stream = stream(v6, transport, &sizes, flows);
            let mut writer = Writer::new(trial, &stream);
            let (mut memory, mut slots) = (vec![0xa5; 20 * 512], Slot::every(512, 20));
            let (mut number, mut bytes) = (0_u64, 0);
            for (turn, (want, accepted)) in bursts.into_iter().enumerate() {
                let order: Vec<_> = (0..20_u32).map(|i| (i * 7 + u32::try_from(turn).unwrap()) % 20).take(want).collect();
                let at = Nanos(time.wrapping_add(turn as u64));
                writer.burst(at).fill(0, &mut Batch::new(&mut memory, &mut slots, &order, 512));
                for (i, slot) in order.iter().enumerate() {
                    let slot = slots[*slot as usize];
                    let frame = &memory[slot.start as usize..][..slot.length as usize];
                    let Seen::Probe(found) = Seen::parse(frame) else { panic!("no probe in {frame:x?}") };
                    prop_assert!(found.intact);
                    prop_assert_eq!((found.probe.stream, found.probe.sequence), (7, number + i as u64));
                    prop_assert_eq!((found.probe.trial, found.probe.sent), (trial, at));
                    prop_assert_eq!(frame, slow(&stream, number + i as u64, stamp(trial, at)));
                }
                let accepted = accepted.min(want);
                bytes += (number..number + accepted as u64)
                    .map(|n| u64::from(sizes[usize::try_from(n).unwrap() % sizes.len()])).sum::<u64>();
                writer.accept(accepted);
                number += accepted as u64;
                prop_assert_eq!((writer.frames(), writer.bytes()), (number, bytes));
            }
        }
    }

    /// Returns the same frame by the simplest method: fill in the fields, then compute all sums again.
    fn slow(stream: &PlanStream, sequence: u64, stamp: u64) -> Vec<u8> {
        use dutlab_wire::checksum::Sum;
        let n = usize::try_from(sequence).unwrap();
        let t = &stream.templates[usize::from(stream.order[n % stream.order.len()])];
        let mut b = t.bytes.clone();
        let change = |b: &mut Vec<u8>, at: u16, new: &[u8], sums: &[u16]| {
            let at = usize::from(at);
            for sum_at in sums.iter().map(|s| usize::from(*s)) {
                let old = u16::from_be_bytes([b[sum_at], b[sum_at + 1]]);
                let sum = Sum::ZERO.word(!old).plus(Sum::of(new));
                let sum = b[at..at + new.len()].chunks(2).fold(sum, |s, w| s.without(u16::from_be_bytes([w[0], w[1]])));
                let checksum = if t.zero_is_ffff && sum_at == usize::from(t.checksum_at) {
                    sum.udp_checksum()
                } else {
                    sum.checksum()
                };
                b[sum_at..sum_at + 2].copy_from_slice(&checksum.to_be_bytes());
            }
            b[at..at + new.len()].copy_from_slice(new);
        };
        change(&mut b, t.sequence_at, &sequence.to_be_bytes()[2..], &[t.checksum_at]);
        change(&mut b, t.stamp_at, &stamp.to_be_bytes(), &[t.checksum_at]);
        for counter in &stream.counters {
            let value = &counter.value(sequence).to_be_bytes()[4 - usize::from(counter.length)..];
            let sums = if counter.in_checksum { vec![t.checksum_at] } else { Vec::new() };
            change(&mut b, counter.at, value, &sums);
        }
        if let Some(flows) = &stream.flows {
            let row = n % flows.count as usize * flows.fields.len();
            for (field, value) in flows.fields.iter().zip(&flows.values[row..]) {
                let mut sums = Vec::new();
                sums.extend(field.in_checksum.then_some(t.checksum_at));
                sums.extend(if field.in_ip_checksum { t.ip_checksum_at } else { None });
                change(&mut b, field.at, &value.to_be_bytes()[4 - usize::from(field.length)..], &sums);
            }
        }
        b
    }
}
