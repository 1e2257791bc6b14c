//! The kernel's clocks.

use dutlab_units::Nanos;
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};
use std::num::NonZeroU64;

/// Two readings of the monotonic clock that are this close need no further try.
const CLOSE: Nanos = Nanos(500);
/// Maximum number of readings.
const TRIES: usize = 8;

fn read(clock: ClockId) -> Nanos {
    let t = clock_gettime(clock);
    #[expect(clippy::cast_sign_loss, reason = "none of these clocks runs before its epoch")]
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Returns `CLOCK_MONOTONIC`, the clock of all times in the engine. All network namespaces of a machine share it.
#[must_use]
pub fn monotonic() -> Nanos {
    read(ClockId::Monotonic)
}

/// Returns `CLOCK_REALTIME`, with which the kernel stamps arriving frames.
#[must_use]
pub fn realtime() -> Nanos {
    read(ClockId::Realtime)
}

/// Returns the CPU time of the calling thread. Time in which others had its CPU is not included.
#[must_use]
pub fn thread_cpu() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

/// Returns the current value of `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`.
///
/// The realtime clock is read between two readings of the monotonic clock, and compared with their midpoint. The error
/// is at most half of the time between them. If the thread lost its CPU in between, it reads again.
#[must_use]
pub fn realtime_offset() -> Nanos {
    realtime_offset_within().0
}

/// Returns the offset as [`realtime_offset`], and its error.
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

/// Returns by how many nanoseconds this process's time namespace shifts `CLOCK_MONOTONIC` from the kernel's clock
/// (`time_namespaces(7)`); 0 if the kernel has no time namespaces.
#[must_use]
pub fn shift() -> i64 {
    std::fs::read_to_string("/proc/self/timens_offsets").ok().and_then(|text| shift_in(&text)).unwrap_or(0)
}

/// Parses the shift from the kernel's text: one line per clock, with its seconds and nanoseconds.
fn shift_in(text: &str) -> Option<i64> {
    let mut words = text.lines().find_map(|line| line.strip_prefix("monotonic"))?.split_whitespace();
    let [seconds, ns] = [words.next()?, words.next()?].map(|word| word.parse::<i64>().ok());
    seconds?.checked_mul(1_000_000_000)?.checked_add(ns?)
}

/// Lets this thread's timers fire without the 50 µs of slack that threads have by default.
pub fn precise_timers() {
    // If this fails, sleeps only end later.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shift_of_a_time_namespace_is_read_in_the_kernels_words() {
        assert_eq!(
            shift_in("monotonic       -7200        250\nboottime            0         0\n"),
            Some(250 - 7200 * 1_000_000_000)
        );
        assert_eq!(shift_in("boottime 0 0\n"), None);
    }

    #[test]
    fn the_offset_turns_one_clock_into_the_other() {
        let off = realtime_offset();
        let (mono, real) = (monotonic(), realtime());
        let error = real.0.abs_diff(off.0 + mono.0);
        assert!(error < 5_000_000, "{error} ns");
    }
}
