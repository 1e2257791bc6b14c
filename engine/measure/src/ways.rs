//! Certain order of a stream whose frames came on several ways through the receiving host.
//!
//! Frames of one receive queue, or of one flow where a card spreads flows over its queues, are delivered in the order
//! of the link. Frames of two queues are not: the queue that is polled first seems earlier, by the times of software
//! too. So a frame is certainly reordered if a later one came before it on the same way. Between ways the order is
//! unknown.

/// Number of ways that are tracked separately. Each queue number has its own entry.
const FOLLOWED: usize = 256;

/// Ways on which frames of a stream came.
#[derive(Debug, Clone, Default)]
pub struct Ways {
    first: Option<u64>,
    several: bool,
    /// A way, and one above the highest number that came on it. A way whose entry is in use is not tracked.
    next: Vec<Option<(u64, u64)>>,
    reordered: u64,
}

impl Ways {
    /// Enters a first arrival on this way; `None`: its place among the others is unknown.
    #[inline]
    pub fn arrive(&mut self, way: Option<u64>, sequence: u64) {
        let Some(way) = way else {
            self.several = true;
            return;
        };
        match self.first {
            None => (self.first, self.next) = (Some(way), vec![None; FOLLOWED]),
            Some(first) => self.several |= first != way,
        }
        match &mut self.next[usize::try_from(way % FOLLOWED as u64).unwrap_or_default()] {
            Some((followed, next)) if *followed == way => {
                self.reordered += u64::from(sequence < *next);
                *next = (*next).max(sequence + 1);
            }
            Some(_) => {}
            free => *free = Some((way, sequence + 1)),
        }
    }

    /// Returns true if the order of arrival is that of the link: all frames came on one way.
    #[must_use]
    pub const fn is_one(&self) -> bool {
        !self.several
    }

    /// Frames that came after one with a higher number on the same way, so that the receiver did not reorder them.
    #[must_use]
    pub const fn reordered(&self) -> u64 {
        self.reordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_overtaken_on_its_own_way_is_certainly_reordered() {
        let of = |arrivals: &[(Option<u64>, u64)]| {
            let mut ways = Ways::default();
            for (way, sequence) in arrivals {
                ways.arrive(*way, *sequence);
            }
            (ways.is_one(), ways.reordered())
        };
        let (a, b) = (Some(0), Some(3));
        assert_eq!(of(&[]), (true, 0));
        assert_eq!(of(&[(a, 0), (a, 2), (a, 1)]), (true, 1));
        assert_eq!(of(&[(a, 0), (a, 2), (b, 1), (b, 3)]), (false, 0), "two queues: 1 may have left first");
        assert_eq!(of(&[(a, 0), (b, 3), (a, 2), (b, 1)]), (false, 1), "3 came before 1 on one queue");
        assert_eq!(of(&[(None, 1), (None, 0)]), (false, 0), "a way that nobody knows");
        let beside = Some(3 + FOLLOWED as u64);
        assert_eq!(of(&[(b, 9), (beside, 8), (beside, 7)]), (false, 0), "no place to follow it");
    }
}
