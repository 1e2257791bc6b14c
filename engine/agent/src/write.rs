//! Writes the frames of a stream: templates with sequence number, send time, flow and checksums filled in.

use dutlab_port::{Counter, FlowSet, PlanStream, Template};
use dutlab_units::{FCS, Nanos};
use dutlab_wire::checksum::Sum;

/// Writes frame after frame of one stream. Nothing moves on before [`accept`](Self::accept) says that frames left.
pub struct Writer {
    templates: Vec<Prepared>,
    order: Vec<u16>,
    flows: Option<FlowSet>,
    counters: Vec<Counter>,
    /// Number of the next frame.
    sequence: u64,
    /// Its place in `order`.
    place: usize,
    /// Its flow.
    flow: usize,
    /// Bytes accepted so far, with FCS.
    bytes: u64,
}

/// A template with the sums under its checksums, taken without what changes.
struct Prepared {
    template: Template,
    transport: Sum,
    ip: Sum,
}

impl Prepared {
    fn new(template: &Template, flows: Option<&FlowSet>, counters: &[Counter]) -> Self {
        let b = &template.bytes;
        let word = |at: u16| u16::from_be_bytes([b[usize::from(at)], b[usize::from(at) + 1]]);
        let mut transport = Sum::ZERO.word(!word(template.checksum_at));
        let mut ip = template.ip_checksum_at.map_or(Sum::ZERO, |at| Sum::ZERO.word(!word(at)));
        for field in flows.iter().flat_map(|f| &f.fields) {
            for at in (field.at..field.at + u16::from(field.length)).step_by(2) {
                if field.in_checksum {
                    transport = transport.without(word(at));
                }
                if field.in_ip_checksum {
                    ip = ip.without(word(at));
                }
            }
        }
        for counter in counters.iter().filter(|c| c.in_checksum) {
            for at in (counter.at..counter.at + u16::from(counter.length)).step_by(2) {
                transport = transport.without(word(at));
            }
        }
        Self { template: template.clone(), transport, ip }
    }

    fn write(
        &self,
        sequence: u64,
        sent: Nanos,
        flow: Option<(&FlowSet, usize)>,
        counters: &[Counter],
        b: &mut [u8],
    ) -> usize {
        let t = &self.template;
        let length = t.bytes.len();
        let b = &mut b[..length];
        b.copy_from_slice(&t.bytes);
        put(b, t.sequence_at, &sequence.to_be_bytes()[2..]);
        put(b, t.time_at, &sent.0.to_be_bytes());
        let mut transport = self.transport.number(sequence).number(sent.0);
        if let Some((flows, flow)) = flow {
            let mut ip = self.ip;
            let row = flow * flows.fields.len();
            for (field, value) in flows.fields.iter().zip(&flows.values[row..]) {
                put(b, field.at, &value.to_be_bytes()[4 - usize::from(field.length)..]);
                if field.in_checksum {
                    transport = transport.number(u64::from(*value));
                }
                if field.in_ip_checksum {
                    ip = ip.number(u64::from(*value));
                }
            }
            if let Some(at) = t.ip_checksum_at {
                put(b, at, &ip.checksum().to_be_bytes());
            }
        }
        for counter in counters {
            let value = counter.value(sequence);
            put(b, counter.at, &value.to_be_bytes()[4 - usize::from(counter.length)..]);
            if counter.in_checksum {
                transport = transport.number(u64::from(value));
            }
        }
        let checksum = if t.zero_is_ffff { transport.udp_checksum() } else { transport.checksum() };
        put(b, t.checksum_at, &checksum.to_be_bytes());
        length
    }
}

#[inline]
fn put(b: &mut [u8], at: u16, bytes: &[u8]) {
    b[usize::from(at)..][..bytes.len()].copy_from_slice(bytes);
}

impl Writer {
    /// A stream from its first frame.
    #[must_use]
    pub fn new(stream: &PlanStream) -> Self {
        Self {
            templates: stream
                .templates
                .iter()
                .map(|t| Prepared::new(t, stream.flows.as_ref(), &stream.counters))
                .collect(),
            counters: stream.counters.clone(),
            order: stream.order.clone(),
            flows: stream.flows.clone(),
            sequence: 0,
            place: 0,
            flow: 0,
            bytes: 0,
        }
    }

    /// Writes the frame that comes `ahead` frames after the next one, sent at `sent`; returns its length without FCS.
    #[inline]
    pub fn write(&self, ahead: usize, sent: Nanos, b: &mut [u8]) -> usize {
        let place = (self.place + ahead) % self.order.len();
        let flow = self.flows.as_ref().map(|f| (f, (self.flow + ahead) % f.count as usize));
        let template = &self.templates[usize::from(self.order[place])];
        template.write(self.sequence + ahead as u64, sent, flow, &self.counters, b)
    }

    /// The next `n` frames left.
    pub fn accept(&mut self, n: usize) {
        self.sequence += n as u64;
        for i in 0..n {
            let place = (self.place + i) % self.order.len();
            self.bytes += self.templates[usize::from(self.order[place])].template.bytes.len() as u64 + u64::from(FCS);
        }
        self.place = (self.place + n) % self.order.len();
        self.flow = self.flows.as_ref().map_or(0, |f| (self.flow + n) % f.count as usize);
    }

    /// Frames that left.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        self.sequence
    }

    /// Their bytes, with FCS.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}
