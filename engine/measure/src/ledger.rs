//! Ledger of one stream: the sequence numbers that arrived, how often, and in which order.
//!
//! Reordering is that of RFC 4737: a frame is reordered when its number is smaller than the next one expected (section
//! 3.3), and its extent is the distance, in arrivals, to the first arrival with a larger number (section 4.2.1).
//! Duplicates are left out of both. The ledger stores for the last [`REMEMBERED`] numbers whether they arrived. An
//! arrival from further back may be late or a duplicate. It counts as a duplicate, because counting it as new could
//! hide a loss, and it is `guessed`. The back end `xdp` uses the same rule (`engine/xdp/bpf/ledger.h`).

use crate::settlement::Settlement;
use std::collections::VecDeque;

/// Numbers below the next one expected for which arrivals are remembered one by one: 131 040. The kernel's window is made of
/// words for 32 numbers each and may reuse the oldest word early, so this is one word less than the window.
pub const REMEMBERED: u64 = WINDOW - 32;
/// Size of the window in numbers, a power of two.
const WINDOW: u64 = 1 << 17;

/// Arrivals of one stream.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// Bit `s % WINDOW` is set if number s arrived, for the `WINDOW` numbers below `next`.
    seen: Box<[u64]>,
    /// One above the largest number that arrived: `NextExp` of RFC 4737.
    next: u64,
    received: u64,
    duplicated: u64,
    reordered: u64,
    extent_max: u64,
    extent_sum: u64,
    by_three: u64,
    /// The last three first arrivals.
    recent: [u64; 3],
    guessed: u64,
    /// The arrivals with the largest number so far, in uninterrupted runs. Runs that end before the remembered numbers
    /// are dropped, since no extent needs them. At most one run for every second number.
    runs: VecDeque<Run>,
}

/// Consecutive numbers that arrived one directly after the other, each the largest so far.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// The first number.
    start: u64,
    /// One above the last number.
    end: u64,
    /// Number of first arrivals before the first number.
    arrivals_before: u64,
}

/// The end of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// Numbers of frames that were sent, arrived and were lost.
    pub frames: Settlement,
    /// Frames that arrived after one with a larger number.
    pub reordered: u64,
    /// The largest reordering extent, in arrivals.
    pub extent_max: u64,
    /// The sum of all reordering extents.
    pub extent_sum: u64,
    /// Frames that are 3-reordered (RFC 4737 section 5): the three arrivals before all have a larger number. TCP with
    /// the usual threshold would consider such a frame lost.
    pub by_three: u64,
    /// Arrivals from further back than [`REMEMBERED`] numbers; they are among `duplicated`, and it is unknown whether
    /// they are duplicates.
    pub guessed: u64,
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new()
    }
}

impl Ledger {
    /// Makes an empty ledger.
    #[must_use]
    pub fn new() -> Self {
        Self {
            seen: vec![0; (WINDOW / 64) as usize].into_boxed_slice(),
            next: 0,
            received: 0,
            duplicated: 0,
            reordered: 0,
            extent_max: 0,
            extent_sum: 0,
            by_three: 0,
            recent: [0; 3],
            guessed: 0,
            runs: VecDeque::new(),
        }
    }

    /// Enters an arrival, and returns true if it was the first of its number.
    #[inline]
    pub fn arrive(&mut self, sequence: u64) -> bool {
        let first_arrivals = self.received - self.duplicated;
        self.received += 1;
        if sequence >= self.next {
            match self.runs.back_mut() {
                Some(run) if run.end == sequence && first_arrivals - run.arrivals_before == sequence - run.start => {
                    run.end += 1;
                }
                _ => self.new_run(sequence, first_arrivals),
            }
            self.advance(sequence);
            self.recent = [self.recent[1], self.recent[2], sequence];
            return true;
        }
        if self.first_of_the_past(sequence) {
            self.reordered += 1;
            let extent = first_arrivals - self.first_larger(sequence);
            self.extent_max = self.extent_max.max(extent);
            self.extent_sum += extent;
            self.by_three += u64::from(self.recent.iter().all(|s| *s > sequence));
            self.recent = [self.recent[1], self.recent[2], sequence];
            true
        } else {
            self.duplicated += 1;
            false
        }
    }

    fn new_run(&mut self, sequence: u64, first_arrivals: u64) {
        let remembered_from = sequence.saturating_sub(REMEMBERED);
        // Among the runs that end at or below a number that may still arrive, only the last one is needed.
        while self.runs.front().is_some_and(|run| run.end <= remembered_from) {
            self.runs.pop_front();
        }
        self.runs.push_back(Run { start: sequence, end: sequence + 1, arrivals_before: first_arrivals });
    }

    /// Moves the window up to `sequence`, and marks it.
    #[inline]
    fn advance(&mut self, sequence: u64) {
        if sequence - self.next >= WINDOW {
            self.seen.fill(0);
        } else {
            // Number s - WINDOW used the bit of s until now.
            (self.next..sequence).for_each(|s| self.set(s, false));
        }
        self.set(sequence, true);
        self.next = sequence + 1;
    }

    /// Returns true if `sequence`, below `next`, had not arrived before; marks it.
    fn first_of_the_past(&mut self, sequence: u64) -> bool {
        if self.next - sequence <= REMEMBERED {
            let first = !self.bit(sequence);
            self.set(sequence, true);
            return first;
        }
        self.guessed += 1;
        false
    }

    /// Returns the number of first arrivals before the first one with a number above `sequence`, which is below `next`.
    fn first_larger(&self, sequence: u64) -> u64 {
        // Runs are ordered by numbers and by arrivals, so the first run that ends above `sequence + 1` contains it.
        let at = self.runs.partition_point(|run| run.end <= sequence + 1);
        self.runs.get(at).map_or(0, |run| run.arrivals_before + (sequence + 1).saturating_sub(run.start))
    }

    fn bit(&self, sequence: u64) -> bool {
        let at = sequence % WINDOW;
        let word = self.seen[(at / 64) as usize];
        word >> (at % 64) & 1 == 1
    }

    #[inline]
    fn set(&mut self, sequence: u64, arrived: bool) {
        let at = sequence % WINDOW;
        let word = &mut self.seen[(at / 64) as usize];
        *word = *word & !(1 << (at % 64)) | u64::from(arrived) << (at % 64);
    }

    /// One above the largest number that arrived.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Arrivals so far, duplicates included.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Arrivals so far of frames that had arrived before.
    #[must_use]
    pub const fn duplicated(&self) -> u64 {
        self.duplicated
    }

    /// Reordered frames so far.
    #[must_use]
    pub const fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Closes the ledger of a stream of which `sent` frames were sent, numbered from 0.
    #[must_use]
    pub const fn settle(&self, sent: u64) -> Settled {
        self.settle_numbered(sent, sent)
    }

    /// Closes the ledger of a stream whose refused frames used up numbers as well: all numbers used are below
    /// `numbered`.
    #[must_use]
    pub const fn settle_numbered(&self, sent: u64, numbered: u64) -> Settled {
        let Self { received, duplicated, next, .. } = *self;
        Settled {
            frames: Settlement { sent, numbered, received, duplicated, next },
            reordered: self.reordered,
            extent_max: self.extent_max,
            extent_sum: self.extent_sum,
            by_three: self.by_three,
            guessed: self.guessed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn ledger(arrivals: &[u64]) -> Ledger {
        let mut ledger = Ledger::new();
        for s in arrivals {
            ledger.arrive(*s);
        }
        ledger
    }

    #[test]
    fn numbers_that_refused_frames_used_up_are_no_imbalance_and_numbers_beyond_them_are() {
        let l = ledger(&[0, 2, 5]); // 1, 3 and 4 were refused, 6 was sent and lost
        let settled = l.settle_numbered(4, 7);
        assert_eq!((settled.frames.received, settled.frames.lost()), (3, 1));
        assert!(settled.frames.balances());
        assert!(!l.settle(4).frames.balances(), "five was never sent if numbers have no gap");
        assert!(!l.settle_numbered(4, 5).frames.balances());
        assert!(!l.settle_numbered(2, 7).frames.balances(), "more arrived than was sent");
    }

    /// RFC 4737 literally: all arrivals are kept.
    fn naive(arrivals: &[u64], sent: u64) -> Settled {
        let (mut seen, mut firsts, mut next) = (HashSet::new(), Vec::new(), 0);
        let (mut reordered, mut extent_max, mut extent_sum, mut by_three) = (0, 0, 0, 0);
        for s in arrivals {
            if !seen.insert(*s) {
                continue;
            }
            if *s < next {
                reordered += 1;
                let j = firsts.iter().position(|f| f > s).unwrap();
                extent_max = extent_max.max((firsts.len() - j) as u64);
                extent_sum += (firsts.len() - j) as u64;
                by_three += u64::from(firsts.len() >= 3 && firsts[firsts.len() - 3..].iter().all(|f| f > s));
            } else {
                next = s + 1;
            }
            firsts.push(*s);
        }
        let (received, duplicated) = (arrivals.len() as u64, (arrivals.len() - seen.len()) as u64);
        Settled {
            frames: Settlement { sent, numbered: sent, received, duplicated, next },
            reordered,
            extent_max,
            extent_sum,
            by_three,
            guessed: 0,
        }
    }

    #[test]
    fn a_frame_that_two_later_ones_overtook_is_reordered_with_extent_two() {
        // RFC 4737 section 4.2.1: i is the 6th arrival, j, the first with a larger number, the 4th: i - j = 2
        let l = ledger(&[0, 1, 2, 4, 5, 3, 6, 7]);
        assert_eq!((l.settle(8).reordered, l.settle(8).extent_max), (1, 2));
    }

    #[test]
    fn a_swap_of_neighbours_has_extent_one() {
        let s = ledger(&[1, 0, 3, 2, 5, 4]).settle(6);
        assert_eq!((s.reordered, s.extent_max, s.frames.lost(), s.frames.balances()), (3, 1, 0, true));
    }

    #[test]
    fn a_lost_tail_is_lost_although_no_later_frame_tells() {
        assert_eq!(ledger(&[0, 1]).settle(5).frames.lost(), 3);
    }

    #[test]
    fn a_number_that_was_never_sent_does_not_balance() {
        assert!(!ledger(&[0, 1, 7]).settle(7).frames.balances());
    }

    #[test]
    fn what_is_further_back_than_the_memory_is_a_guess_and_counts_as_a_duplicate() {
        for (behind, first, guessed, lost) in
            [(REMEMBERED - 1, true, 0, 0), (REMEMBERED, false, 1, 1), (REMEMBERED + 32, false, 1, 1)]
        {
            let mut l = Ledger::new();
            (1..=behind).for_each(|s| assert!(l.arrive(s)));
            assert_eq!(l.arrive(0), first, "{behind} numbers behind the largest");
            let s = l.settle(behind + 1);
            assert_eq!((s.guessed, s.frames.duplicated, s.frames.lost()), (guessed, guessed, lost), "{behind}");
            assert!(s.frames.balances());
        }
    }

    #[test]
    fn after_a_jump_the_ledger_remembers_exactly_the_last_numbers() {
        let mut l = ledger(&[0, 1, 5 * WINDOW]);
        assert!(!l.arrive(2), "far behind: nobody knows");
        assert!(l.arrive(5 * WINDOW + 1 - REMEMBERED), "the furthest that is remembered");
        let s = l.settle(5 * WINDOW + 1);
        assert_eq!((s.guessed, s.reordered, s.frames.balances()), (1, 1, true));
        assert_eq!(s.frames.lost(), 5 * WINDOW + 1 - 4);
    }

    #[test]
    fn the_extent_is_right_however_many_gaps_opened_since() {
        // Every second number is missing, 20 000 times; then number 1 arrives. RFC 4737 section 4.2.1: the first arrival
        // with a larger number was the second one, and 20 000 had arrived before this one, so the extent is 19 999.
        let mut l = Ledger::new();
        (0..20_000).for_each(|i| assert!(l.arrive(2 * i)));
        assert!(l.arrive(1));
        assert_eq!(l.settle(40_000).extent_max, 19_999);
    }

    #[test]
    fn gaps_for_ever_take_no_more_memory_than_the_numbers_that_are_remembered() {
        let mut l = Ledger::new();
        (0..300_000).for_each(|i| assert!(l.arrive(2 * i)));
        assert!(l.runs.len() as u64 <= REMEMBERED / 2 + 1, "{}", l.runs.len());
    }

    fn arrivals() -> impl Strategy<Value = (u64, Vec<u64>)> {
        // Losses, duplicates and moves applied to a sequence in order.
        (1_u64..400).prop_flat_map(|sent| {
            let changes = proptest::collection::vec((0_u8..3, any::<prop::sample::Index>(), 0_usize..40), 0..60);
            changes.prop_map(move |changes| {
                let mut a: Vec<u64> = (0..sent).collect();
                for (kind, at, by) in changes {
                    if a.is_empty() {
                        break;
                    }
                    let i = at.index(a.len());
                    match kind {
                        0 => drop(a.remove(i)),
                        1 => a.insert((i + by).min(a.len()), a[i]),
                        _ => {
                            let s = a.remove(i);
                            a.insert((i + by).min(a.len()), s);
                        }
                    }
                }
                (sent, a)
            })
        })
    }

    proptest! {
        #[test]
        fn the_ledger_counts_as_the_naive_model_does((sent, arrivals) in arrivals()) {
            let settled = ledger(&arrivals).settle(sent);
            prop_assert!(settled.frames.balances());
            prop_assert_eq!(settled, naive(&arrivals, sent));
        }

        #[test]
        fn any_arrivals_whatever_balance(
            sent in 1_u64..4 * WINDOW, arrivals in proptest::collection::vec(any::<prop::sample::Index>(), 0..300),
        ) {
            let mut l = Ledger::new();
            for a in &arrivals {
                l.arrive(a.index(usize::try_from(sent).unwrap()) as u64);
            }
            prop_assert!(l.settle(sent).frames.balances());
        }

        #[test]
        fn a_shuffle_inside_the_window_is_counted_exactly(order in Just((0..200_u64).collect::<Vec<_>>()).prop_shuffle()) {
            prop_assert_eq!(ledger(&order).settle(200), naive(&order, 200));
        }
    }
}
