//! How the one-way delay changes from a frame to the next: inter-packet delay variation (RFC 3393, RFC 5481 section 4.1).

use crate::histogram::Histogram;
use dutlab_units::Nanos;

/// IPDV of one stream. A pair is frame i - 1 and frame i in the order of *sending*; where one of the two is lost, or
/// came out of order, there is no value. The clocks' difference falls out, so it holds between two machines as well.
#[derive(Debug, Clone, Default)]
pub struct Ipdv {
    /// Number of the last frame that arrived, and its delay in two's complement: clocks may differ.
    last: Option<(u64, u64)>,
    size: Histogram,
}

impl Ipdv {
    /// Enters the first arrival of frame `sequence`.
    #[inline]
    pub fn arrive(&mut self, sequence: u64, sent: Nanos, arrived: Nanos) {
        let delay = arrived.0.wrapping_sub(sent.0);
        if let Some((before, previous)) = self.last
            && sequence == before + 1
        {
            self.size.record(Nanos(delay.wrapping_sub(previous).cast_signed().unsigned_abs()));
        }
        self.last = Some((sequence, delay));
    }

    /// The absolute values.
    #[must_use]
    pub const fn sizes(&self) -> &Histogram {
        &self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arrivals: &[(u64, u64, u64)]) -> Vec<(u64, u64)> {
        let mut ipdv = Ipdv::default();
        for (sequence, sent, arrived) in arrivals {
            ipdv.arrive(*sequence, Nanos(*sent), Nanos(*arrived));
        }
        ipdv.sizes().buckets()
    }

    #[test]
    fn delays_of_10_30_and_25_differ_by_20_and_5() {
        assert_eq!(of(&[(0, 100, 110), (1, 200, 230), (2, 300, 325)]), [(5, 1), (20, 1)]);
    }

    #[test]
    fn the_difference_of_two_clocks_does_not_matter() {
        // The receiver's clock is 150 behind: the first frame arrives before it was sent.
        assert_eq!(of(&[(0, 200, 60), (1, 300, 180)]), [(20, 1)]);
    }

    #[test]
    fn a_pair_with_a_lost_frame_or_out_of_order_has_no_value() {
        assert_eq!(of(&[(0, 0, 10), (2, 20, 31), (1, 10, 40), (3, 30, 41)]), []);
    }
}
