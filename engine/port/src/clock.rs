//! The kernel's clocks.

use dutlab_units::Nanos;

/// Two clocks read closer to each other than this are read well enough.
const CLOSE: Nanos = Nanos(500);
/// How often they are read at most.
const TRIES: usize = 8;

fn read(clock: libc::clockid_t) -> Nanos {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec for the call to write to; the clocks that we pass exist on every Linux, so the
    // call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    #[expect(clippy::cast_sign_loss, reason = "none of these clocks runs before its epoch")]
    Nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// `CLOCK_MONOTONIC`: what everything in the engine is timed by. All network namespaces of a machine share it.
#[must_use]
pub fn monotonic() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME`: what the kernel stamps arriving frames with.
#[must_use]
pub fn realtime() -> Nanos {
    read(libc::CLOCK_REALTIME)
}

/// CPU time that the calling thread has used: what it did, however often others had its CPU meanwhile.
#[must_use]
pub fn thread_cpu() -> Nanos {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// What has to be taken from `CLOCK_REALTIME` to get `CLOCK_MONOTONIC`, now.
///
/// Realtime is read between two readings of the other and compared with their middle: the error is at most half of
/// the time between them. A thread that lost its CPU in between reads again.
#[must_use]
pub fn realtime_offset() -> Nanos {
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
    best.1
}

/// Lets this thread's timers fire without the 50 µs of slack that threads have by default.
pub fn precise_timers() {
    // SAFETY: changes one number of the calling thread; no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize, 0_usize, 0_usize, 0_usize) };
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
