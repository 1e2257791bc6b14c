//! Test of the numbers of a stream that CPUs share (`engine/xdp/bpf/number.h`), with one thread per simulated CPU.

use crate::compiled::Library;
use crate::contract::Control;
use proptest::prelude::*;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const GLUE: &str = r#"
#include "number.h"
__u64 glue_draw(struct control *c, __u64 *next, int paced) { return draw_number(c, next, paced); }
void glue_give_back(struct control *c, __u64 number) { give_number_back(c, number); }
"#;

/// Number of frames that a driver gets in one call.
const BULK: usize = 16;

type Draw = unsafe extern "C" fn(*mut Control, *const AtomicU64, c_int) -> u64;
type GiveBack = unsafe extern "C" fn(*mut Control, u64);

struct Numbers {
    draw: Draw,
    give_back: GiveBack,
}

fn numbers() -> &'static Numbers {
    static LOADED: OnceLock<Numbers> = OnceLock::new();
    LOADED.get_or_init(|| {
        let library = Library::of("numbers", GLUE);
        // SAFETY: these are functions of the library with these types, as in the source above; `Control` is `struct
        // control`.
        unsafe {
            Numbers {
                draw: std::mem::transmute::<*mut libc::c_void, Draw>(library.symbol(c"glue_draw")),
                give_back: std::mem::transmute::<*mut libc::c_void, GiveBack>(library.symbol(c"glue_give_back")),
            }
        }
    })
}

/// Simulates a CPU: sends `frames` in bulks, of which the device takes the first ones; returns the numbers of those
/// that left.
fn send(next: &AtomicU64, frames: usize, mut taken: impl FnMut() -> usize) -> Vec<u64> {
    let mut control = Box::<Control>::default();
    let mut left = Vec::with_capacity(frames);
    while left.len() < frames {
        let asked = BULK.min(frames - left.len());
        // SAFETY: a control and a counter of this test, which others change by atomic additions only.
        let mut bulk: Vec<_> =
            (0..asked).map(|_| unsafe { (numbers().draw)(&raw mut *control, &raw const *next, 1) }).collect();
        let refused = bulk.split_off(taken().min(asked));
        for number in refused.into_iter().rev() {
            // SAFETY: a control of this test.
            unsafe { (numbers().give_back)(&raw mut *control, number) };
        }
        left.extend(bulk);
        thread::yield_now();
    }
    assert_eq!(control.returned_count, 0, "a frame that came back was not offered again");
    left
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// On machines of 1 to 64 CPUs, in any order, and for any refusals of their devices.
    #[test]
    fn each_number_leaves_once_whoever_draws_it_and_whatever_comes_back(
        cpus in prop_oneof![1_usize..9, 9_usize..=64],
        frames in 1_usize..1000,
        seed: u64,
    ) {
        let next = AtomicU64::new(0);
        let mut all: Vec<u64> = thread::scope(|scope| {
            let each = |cpu: usize| {
                let mut state = seed ^ cpu as u64 | 1;
                let next = &next;
                scope.spawn(move || send(next, frames, || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    usize::try_from(state >> 59).unwrap()
                }))
            };
            let threads: Vec<_> = (0..cpus).map(each).collect();
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
        });
        all.sort_unstable();
        let wanted = (cpus * frames) as u64;
        prop_assert_eq!(next.load(Ordering::Relaxed), wanted);
        prop_assert!(all.iter().copied().eq(0..wanted), "a number is missing, or left twice");
    }
}
