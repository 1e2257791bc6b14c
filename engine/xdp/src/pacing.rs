//! Test of the sender's pacing arithmetic (`engine/xdp/bpf/due.h`), compiled for this machine and compared with whole
//! numbers.

use crate::compiled::Library;
use crate::contract::{Control, Lane, Progress};
use crate::sent::backlog;
use proptest::prelude::*;
use std::ffi::c_int;
use std::sync::OnceLock;

const GLUE: &str = r#"
#include "due.h"
__u64 glue_next_due(const struct lane *l) { return next_due(l); }
int glue_too_late(const struct lane *l, __u64 *seen, __u64 now, __u64 end) { return too_late(l, seen, now, end); }
void glue_move_on(struct lane *l, __u64 due, __u64 now, __u64 end, __u64 max_lag_ns) { move_on(l, due, now, end, max_lag_ns); }
"#;

struct Arithmetic {
    next_due: unsafe extern "C" fn(*const Lane) -> u64,
    move_on: unsafe extern "C" fn(*mut Lane, u64, u64, u64, u64),
    too_late: unsafe extern "C" fn(*const Lane, *mut u64, u64, u64) -> c_int,
}

fn arithmetic() -> &'static Arithmetic {
    static LOADED: OnceLock<Arithmetic> = OnceLock::new();
    LOADED.get_or_init(|| {
        let library = Library::of("pacing", GLUE);
        let symbol = |name| library.symbol(name);
        // SAFETY: these are functions of the library with these types, as in the source above; `Lane` is `struct lane`.
        unsafe {
            Arithmetic {
                next_due: std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(*const Lane) -> u64>(symbol(
                    c"glue_next_due",
                )),
                move_on: std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(*mut Lane, u64, u64, u64, u64)>(
                    symbol(c"glue_move_on"),
                ),
                too_late: std::mem::transmute::<
                    *mut libc::c_void,
                    unsafe extern "C" fn(*const Lane, *mut u64, u64, u64) -> c_int,
                >(symbol(c"glue_too_late")),
            }
        }
    })
}

/// Makes a lane whose first frame is due at `start_ns` exactly.
fn lane(gap_q24: u64, burst: u32, start_ns: u64) -> Lane {
    let first = (u128::from(start_ns) << 24) - u128::from(gap_q24);
    Lane {
        gap_q24,
        at: Progress {
            last_ns: u64::try_from(first >> 24).unwrap(),
            last_frac: u32::try_from(first & 0xff_ffff).unwrap(),
            ..Progress::default()
        },
        burst,
        frames_left: u64::MAX,
        ..Lane::default()
    }
}

const START_NS: u64 = 1 << 50;
const MAX_LAG_NS: u64 = 100_000_000;

#[test]
fn what_is_late_at_the_end_has_ten_milliseconds_unless_the_device_had_no_room_for_so_long_before() {
    const END_NS: u64 = START_NS + 1_000_000_000;
    // Index of the first reading of the clock, at these times in ms after the end, at which the sender is too late.
    let gives_up = |held: u32, behind_ms: u64, looks_ms: &[u64]| {
        let lane = Lane { held, behind_ns: END_NS - behind_ms * 1_000_000, ..lane(1 << 34, 1, START_NS) };
        let mut seen = 0;
        // SAFETY: a lane and a number of this test.
        let mut too_late = |ms| unsafe {
            (arithmetic().too_late)(&raw const lane, &raw mut seen, END_NS + ms * 1_000_000, END_NS) != 0
        };
        *looks_ms.iter().find(|ms| too_late(**ms)).unwrap()
    };
    let all: Vec<u64> = (0..20).collect();
    assert_eq!(gives_up(0, 0, &all), 10, "a thread that is merely too slow");
    assert_eq!(gives_up(0, 0, &[300, 301, 309, 310]), 310, "a thread that lost its CPU over the end");
    assert_eq!(gives_up(40, 9, &all), 10, "a device whose thread lost its CPU over the end");
    assert_eq!(gives_up(40, 9, &[300, 309, 310]), 310, "the same, and so did the sender");
    assert_eq!(gives_up(40, 11, &all), 0, "a load above what the device takes");
    assert_eq!(gives_up(40, 11, &[300, 310]), 300, "the same, by a thread that lost its CPU over the end");
    assert_eq!(gives_up(0, 11, &all), 10, "a lane that is catching up, for which there is room now");
}

proptest! {
    /// A thread that was away for up to a second at the end skips only frames that were due before the end.
    #[test]
    fn what_falls_due_after_the_end_is_never_asked_for(
        gap_q24 in 1_u64 << 24..1 << 50,
        burst in 1_u32..64,
        before_ns in 0_u64..3 * MAX_LAG_NS,
        after_ns in 0_u64..1_000_000_000,
    ) {
        let Arithmetic { next_due, move_on, .. } = *arithmetic();
        let mut control = Control::default();
        control.lanes[0] = lane(gap_q24, burst, START_NS);
        let end = START_NS + 1 + before_ns;
        let now = end + after_ns;
        let l = &mut control.lanes[0];
        let mut sent = 0;
        loop {
            // SAFETY: a lane of this test.
            let due = unsafe { next_due(l) };
            if due >= end || sent == 1000 {
                break;
            }
            // SAFETY: a lane of this test; the frame is due.
            unsafe { move_on(l, due, now, end, MAX_LAG_NS) };
            sent += 1;
        }
        control.ended_ns = now;
        let missed = control.lanes[0].at.missed + backlog(&control, 0, end);
        let asked = ((u128::from(end - START_NS) << 24) - 1) / u128::from(gap_q24) + 1;
        prop_assert_eq!(u128::from(sent * u64::from(burst) + missed), asked * u128::from(burst));
    }

    /// Uses gaps from 1 ns (a billion frames a second) to 500 s, with stalls of up to 20 minutes.
    #[test]
    fn the_intended_load_is_exact_whatever_stalls_came_before(
        gap_q24 in prop_oneof![1_u64 << 24..1 << 30, 1_u64 << 24..1 << 44, 1_u64 << 24..1 << 62],
        burst in 1_u32..64,
        stalls in prop::collection::vec(
            prop_oneof![Just(0_u64), 0_u64..1000, 0_u64..3 * MAX_LAG_NS, 0_u64..1_200_000_000_000], 1..60),
        rest_ns in 0_u64..10_000_000_000,
    ) {
        let Arithmetic { next_due, move_on, .. } = *arithmetic();
        let mut control = Control::default();
        control.lanes[0] = lane(gap_q24, burst, START_NS);
        let (mut now, mut sent) = (START_NS, 0_u64);
        for stall in stalls {
            let l = &mut control.lanes[0];
            // SAFETY: a lane of this test.
            let due = unsafe { next_due(l) };
            now = now.max(due) + stall;
            // SAFETY: a lane of this test; the frame is due.
            unsafe { move_on(l, due, now, u64::MAX, MAX_LAG_NS) };
            sent += 1;
            prop_assert_eq!(l.at.missed % u64::from(burst), 0);
            let taken = sent + l.at.missed / u64::from(burst);
            // The last one taken was due (taken - 1) gaps after the start, to the last fraction of a nanosecond.
            let last = (u128::from(l.at.last_ns) << 24) + u128::from(l.at.last_frac);
            prop_assert_eq!(last, (u128::from(START_NS) << 24) + u128::from(taken - 1) * u128::from(gap_q24));
            // Skipped frames were due, and after a stall no frame is overdue.
            prop_assert!(l.at.last_ns <= now);
            // SAFETY: a lane of this test.
            let next = unsafe { next_due(l) };
            let late = now - due;
            prop_assert!(late <= MAX_LAG_NS || late >= 1 << 40 || next >= now, "next {} at {}", next, now);
        }
        let until = now + rest_ns;
        control.ended_ns = until;
        let missed = control.lanes[0].at.missed + backlog(&control, 0, until);
        let asked = ((u128::from(until - START_NS) << 24).saturating_sub(1) / u128::from(gap_q24)) + 1;
        let asked = asked * u128::from(burst);
        if until > START_NS {
            prop_assert_eq!(u128::from(sent * u64::from(burst) + missed), asked);
        }
    }
}
