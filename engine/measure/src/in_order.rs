//! Merges the arrivals of several queues into one order: that of their times.
//!
//! Each queue delivers its arrivals in order, and from time to time announces that nothing older than some instant is
//! to come. An arrival is released when no queue can deliver an older one.

use dutlab_units::Nanos;
use std::collections::VecDeque;

/// Arrivals `T` of several queues that wait for older ones of other queues.
#[derive(Debug, Clone)]
pub struct InOrder<T> {
    queues: Vec<Queue<T>>,
}

#[derive(Debug, Clone)]
struct Queue<T> {
    waiting: VecDeque<(Nanos, T)>,
    /// No arrival older than this is to come.
    until: Nanos,
}

impl<T> InOrder<T> {
    /// Makes `count` queues without arrivals.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { queues: (0..count).map(|_| Queue { waiting: VecDeque::new(), until: Nanos::ZERO }).collect() }
    }

    /// Enters an arrival on a queue at `at`, after all earlier ones of this queue.
    pub fn arrive(&mut self, queue: usize, at: Nanos, what: T) {
        self.queues[queue].waiting.push_back((at, what));
    }

    /// Records that no arrival older than `until` is to come from a queue; `Nanos::NEVER` once it has ended.
    pub fn until(&mut self, queue: usize, until: Nanos) {
        let queue = &mut self.queues[queue];
        queue.until = queue.until.max(until);
    }

    /// Passes the arrivals that need not wait any longer to `take`, oldest first; of equal times, that of the first
    /// queue.
    pub fn release(&mut self, mut take: impl FnMut(T)) {
        // The queue with the oldest arrival releases all arrivals that are no younger than what the others have, or may
        // get.
        while let Some(oldest) = self.oldest() {
            let others = self.queues.iter().enumerate().filter(|(i, _)| *i != oldest);
            let bound = others.map(|(_, q)| q.next()).min().unwrap_or(Nanos::NEVER);
            let queue = &mut self.queues[oldest];
            let mut gave = false;
            while queue.waiting.front().is_some_and(|(at, _)| *at <= bound) {
                let Some((_, what)) = queue.waiting.pop_front() else { break };
                gave = true;
                take(what);
            }
            if !gave {
                break;
            }
        }
    }

    fn oldest(&self) -> Option<usize> {
        let heads = self.queues.iter().enumerate().filter_map(|(i, q)| Some((q.waiting.front()?.0, i)));
        heads.min().map(|(_, i)| i)
    }
}

impl<T> Queue<T> {
    /// Returns the earliest time that an arrival of this queue has or may get.
    fn next(&self) -> Nanos {
        self.waiting.front().map_or(self.until, |(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn released(order: &mut InOrder<u64>) -> Vec<u64> {
        let mut all = Vec::new();
        order.release(|n| all.push(n));
        all
    }

    #[test]
    fn an_arrival_waits_for_a_queue_that_may_still_hand_over_an_older_one() {
        let mut order = InOrder::new(2);
        order.arrive(0, Nanos(10), 10);
        order.arrive(0, Nanos(30), 30);
        assert_eq!(released(&mut order), []);
        order.until(1, Nanos(20));
        assert_eq!(released(&mut order), [10]);
        order.arrive(1, Nanos(25), 25);
        assert_eq!(released(&mut order), [25], "30 waits: the second queue was heard of at 25 last");
        order.until(1, Nanos::NEVER);
        assert_eq!(released(&mut order), [30]);
    }

    proptest! {
        #[test]
        fn what_is_handed_over_late_and_in_pieces_comes_out_whole_and_in_order(
            queues in 1_usize..5,
            arrivals in proptest::collection::vec((0_u64..40, 0_usize..5), 0..200),
            turns in proptest::collection::vec((0_usize..5, 1_usize..9), 0..80),
        ) {
            // Times that never fall, each on one queue.
            let mut now = 0;
            let mut pending = vec![VecDeque::new(); queues];
            for (gap, queue) in arrivals {
                now += gap;
                pending[queue % queues].push_back(now);
            }
            let mut all: Vec<u64> = pending.iter().flatten().copied().collect();
            all.sort_unstable();
            let mut order = InOrder::new(queues);
            let mut out = Vec::new();
            for (queue, count) in turns {
                let queue = queue % queues;
                let count = count.min(pending[queue].len());
                for at in pending[queue].drain(..count) {
                    order.arrive(queue, Nanos(at), at);
                }
                if let Some(next) = pending[queue].front() {
                    order.until(queue, Nanos(*next));
                }
                order.release(|n| out.push(n));
            }
            for (queue, rest) in pending.iter().enumerate() {
                for at in rest {
                    order.arrive(queue, Nanos(*at), *at);
                }
                order.until(queue, Nanos::NEVER);
            }
            order.release(|n| out.push(n));
            prop_assert_eq!(out, all);
        }
    }
}
