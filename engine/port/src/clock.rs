//! The kernel's clocks.

use dutlab_units::Nanos;
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};
use std::num::NonZeroU64;

/// Two clocks read closer to each other than this are read well enough.
const CLOSE: Nanos = Nanos(500);
/// How often they are read at most.
const TRIES: usize = 8;

fn read(clock: ClockId) -> Nanos {
    let t = clock_gettime(clock);
    #[expect(clippy::cast_sign_loss, reason = "none of these clocks runs before its epoch")]
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// `CLOCK_MONOTONIC`: what everything in the engine is timed by. All network namespaces of a machine share it.
#[must_use]
pub fn monotonic() -> Nanos {
    read(ClockId::Monotonic)
}

/// `CLOCK_REALTIME`: what the kernel stamps arriving frames with.
#[must_use]
pub fn realtime() -> Nanos {
    read(ClockId::Realtime)
}

/// CPU time that the calling thread has used: what it did, however often others had its CPU meanwhile.
#[must_use]
pub fn thread_cpu() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

/// What has to be taken from `CLOCK_REALTIME` to get `CLOCK_MONOTONIC`, now.
///
/// Realtime is read between two readings of the other and compared with their middle: the error is at most half of
/// the time between them. A thread that lost its CPU in between reads again.
#[must_use]
pub fn realtime_offset() -> Nanos {
    realtime_offset_within().0
}

/// The same, and its error.
#[must_use]
pub fn realtime_offset_within() -> (Nanos, Nanos) {
    let mut best = (Nanos::NEVER, Nanos::ZERO);
    for _ in 0..TRIES {
        let before = monotonic();
        let real = realtime();
        let after = monotonic();
        let between = after.since(before);
        if between < best.0 {
            best = (between, real.since(Nanos(before.0.midpoint(after.0))));
        }
        if between <= CLOSE {
            break;
        }
    }
    (best.1, Nanos(best.0.0.div_ceil(2)))
}

/// Lets this thread's timers fire without the 50 µs of slack that threads have by default.
pub fn precise_timers() {
    // Without it, sleeps only end later.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_turns_one_clock_into_the_other() {
        let off = realtime_offset();
        let (mono, real) = (monotonic(), realtime());
        let error = real.0.abs_diff(off.0 + mono.0);
        assert!(error < 5_000_000, "{error} ns");
    }
}
