//! Fields that change from flow to flow, prepared for writing: one short row for each flow.

use dutlab_port::{Field, FlowSet};
use dutlab_wire::checksum::Sum;

/// Flows of a stream. A stream without flows has one row that changes nothing.
pub struct Rows {
    rows: Vec<Row>,
    shape: Shape,
}

/// Offsets of the values of a row.
enum Shape {
    /// No field changes.
    None,
    /// Two addresses and two adjacent ports: three words of 4 bytes.
    Ports([usize; 3]),
    /// Two addresses and one number of 2 bytes, which is the upper half of the third word.
    Number([usize; 3]),
    /// Any other fields, one by one.
    Other(FlowSet),
}

/// One flow: 16 bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Row {
    /// Values of the fields.
    words: [u32; 3],
    /// Sum of the changes under the IPv4 header's checksum.
    pub ip: u16,
    /// Sum of the changes under the transport's checksum.
    pub transport: u16,
}

impl Rows {
    /// Prepares the flows.
    #[must_use]
    pub fn new(flows: Option<&FlowSet>) -> Self {
        let Some(flows) = flows.filter(|f| f.count > 0 && !f.fields.is_empty()) else {
            return Self { rows: vec![Row::default()], shape: Shape::None };
        };
        let shape = Shape::of(flows);
        let rows = flows.values.chunks_exact(flows.fields.len()).map(|values| Row {
            words: match (&shape, values) {
                (Shape::Ports(_), [source, destination, high, low]) => [*source, *destination, high << 16 | low],
                (Shape::Number(_), [source, destination, number]) => [*source, *destination, number << 16],
                _ => [0; 3],
            },
            ip: sum(&flows.fields, values, |f| f.in_ip_checksum),
            transport: sum(&flows.fields, values, |f| f.in_checksum),
        });
        Self { rows: rows.collect(), shape }
    }

    /// Number of flows; at least 1.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if frames differ from flow to flow.
    #[must_use]
    pub const fn change(&self) -> bool {
        !matches!(self.shape, Shape::None)
    }

    /// Writes the values of flow number `flow` into a frame; returns its row.
    #[inline]
    pub fn put(&self, flow: usize, b: &mut [u8]) -> &Row {
        let row = &self.rows[flow];
        match &self.shape {
            Shape::None => {}
            Shape::Ports(at) => {
                for (at, word) in at.iter().zip(row.words) {
                    put(b, *at, word.to_be_bytes());
                }
            }
            Shape::Number(at) => {
                put(b, at[0], row.words[0].to_be_bytes());
                put(b, at[1], row.words[1].to_be_bytes());
                let [high, low, ..] = row.words[2].to_be_bytes();
                put(b, at[2], [high, low]);
            }
            Shape::Other(flows) => {
                for (field, value) in flows.fields.iter().zip(&flows.values[flow * flows.fields.len()..]) {
                    let value = &value.to_be_bytes()[4 - usize::from(field.length)..];
                    b[usize::from(field.at)..][..value.len()].copy_from_slice(value);
                }
            }
        }
        row
    }
}

impl Shape {
    fn of(flows: &FlowSet) -> Self {
        let at = |f: &Field| usize::from(f.at);
        match flows.fields.as_slice() {
            [a, b, c, d] if [a.length, b.length, c.length, d.length] == [4, 4, 2, 2] && d.at == c.at + 2 => {
                Self::Ports([at(a), at(b), at(c)])
            }
            [a, b, c] if [a.length, b.length, c.length] == [4, 4, 2] => Self::Number([at(a), at(b), at(c)]),
            _ => Self::Other(flows.clone()),
        }
    }
}

fn sum(fields: &[Field], values: &[u32], covered: fn(&Field) -> bool) -> u16 {
    let under = fields.iter().zip(values).filter(|(field, _)| covered(field));
    under.fold(Sum::ZERO, |sum, (_, value)| sum.number(u64::from(*value))).folded()
}

/// Writes `bytes` to `b[at..]`.
#[inline]
pub fn put<const N: usize>(b: &mut [u8], at: usize, bytes: [u8; N]) {
    b[at..at + N].copy_from_slice(&bytes);
}
