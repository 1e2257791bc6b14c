//! Inter-packet delay variation: the change of one-way delay from a frame to the next (RFC 3393, RFC 5481 section 4.1).

use crate::histogram::Histogram;
use dutlab_units::Nanos;

/// IPDV of one stream. A pair is frame i - 1 and frame i in the order of *sending*, both of which arrived in order: no
/// frame with a higher number had come before. A lost or late frame is in no pair, and only removes its own two pairs.
/// The clocks' difference cancels out, so the result is valid between two machines as well.
#[derive(Debug, Clone, Default)]
pub struct Ipdv {
    /// Number of the last frame that arrived in order, and its delay in two's complement: clocks may differ.
    last: Option<(u64, u64)>,
    size: Histogram,
}

impl Ipdv {
    /// Enters the first arrival of frame `sequence`.
    #[inline]
    pub fn arrive(&mut self, sequence: u64, sent: Nanos, arrived: Nanos) {
        let delay = arrived.0.wrapping_sub(sent.0);
        if let Some((before, previous)) = self.last {
            if sequence < before {
                return;
            }
            if sequence == before + 1 {
                self.size.record(Nanos(delay.wrapping_sub(previous).cast_signed().unsigned_abs()));
            }
        }
        self.last = Some((sequence, delay));
    }

    /// Absolute values of the changes.
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
    fn a_pair_with_a_lost_frame_has_no_value() {
        assert_eq!(of(&[(0, 0, 10), (2, 20, 31), (4, 40, 52)]), []);
    }

    #[test]
    fn a_late_frame_takes_only_its_own_two_pairs_with_it() {
        // Delays 10, 30 (late), 11 and 14: of 0-1, 1-2 and 2-3 only the last is a pair of frames that came in order.
        assert_eq!(of(&[(0, 0, 10), (2, 20, 31), (1, 10, 40), (3, 30, 44)]), [(3, 1)]);
        // However late it is, and even if several are late.
        assert_eq!(
            of(&[(0, 0, 10), (3, 30, 41), (2, 20, 45), (4, 40, 56), (1, 10, 60), (5, 50, 68)]),
            [(2, 1), (5, 1)]
        );
    }

    #[test]
    fn pairs_are_those_of_neighbours_that_came_in_order_whatever_the_order() {
        // The reference looks delays up by number, over every order of six frames.
        let delays = [10_u64, 13, 19, 31, 55, 103];
        let mut orders = vec![vec![]];
        for n in 0..6_usize {
            orders = orders
                .into_iter()
                .flat_map(|order: Vec<usize>| (0..=n).map(move |at| [&order[..at], &[n], &order[at..]].concat()))
                .collect();
        }
        assert_eq!(orders.len(), 720);
        for order in orders {
            let in_order = |n: usize| order.iter().take_while(|m| **m != n).all(|m| *m < n);
            let pairs = (1..6).filter(|n| in_order(n - 1) && in_order(*n)).map(|n| delays[n] - delays[n - 1]);
            let arrivals: Vec<_> = order.iter().map(|n| (*n as u64, 1000, 1000 + delays[*n])).collect();
            let mut expected: Vec<_> = pairs.map(|size| (size, 1)).collect();
            expected.sort_unstable();
            assert_eq!(of(&arrivals), expected, "{order:?}");
        }
    }
}
