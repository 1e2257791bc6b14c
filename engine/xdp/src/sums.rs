//! Test of the programs' checksums and histograms (`engine/xdp/bpf/sums.h`), compiled for this machine.

use crate::compiled::Library;
use crate::contract::{COARSE_LOG2, FINE_LOG2, GAP_STEPS_LOG2, buckets};
use crate::histogram::Histogram;
use proptest::prelude::*;
use std::sync::OnceLock;

const GLUE: &str = r#"
#include "sums.h"
__u16 glue_fold(__u64 sum) { return fold(sum); }
__u16 glue_fold32(__u32 sum) { return fold32(sum); }
__u64 glue_halves(__u64 word) { return halves(word); }
__u32 glue_fine(__u64 value) { return bucket_of(value, FINE_LOG2); }
__u32 glue_coarse(__u64 value) { return bucket_of(value, COARSE_LOG2); }
"#;

struct Sums {
    fold: unsafe extern "C" fn(u64) -> u16,
    fold32: unsafe extern "C" fn(u32) -> u16,
    halves: unsafe extern "C" fn(u64) -> u64,
    fine: unsafe extern "C" fn(u64) -> u32,
    coarse: unsafe extern "C" fn(u64) -> u32,
}

fn sums() -> &'static Sums {
    static LOADED: OnceLock<Sums> = OnceLock::new();
    LOADED.get_or_init(|| {
        let library = Library::of("sums", GLUE);
        let symbol = |name| library.symbol(name);
        // SAFETY: these are functions of the library with these types, as in the source above.
        unsafe {
            Sums {
                fold: std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(u64) -> u16>(symbol(c"glue_fold")),
                fold32: std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(u32) -> u16>(symbol(
                    c"glue_fold32",
                )),
                halves: std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(u64) -> u64>(symbol(
                    c"glue_halves",
                )),
                fine: std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(u64) -> u32>(symbol(c"glue_fine")),
                coarse: std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(u64) -> u32>(symbol(
                    c"glue_coarse",
                )),
            }
        }
    })
}

/// RFC 1071 in whole numbers: one's complement arithmetic is arithmetic modulo 2^16 - 1, whose zero is written 0xffff
/// unless nothing was added.
fn folded(sum: u64) -> u16 {
    if sum == 0 { 0 } else { u16::try_from((sum - 1) % 0xffff + 1).unwrap() }
}

/// A value of any number of bits, and those next to powers of two.
fn values() -> impl Strategy<Value = u64> {
    let any = (any::<u64>(), 0_u32..64).prop_map(|(value, shift)| value >> shift);
    let edges = (0_u32..64, 0_u64..3).prop_map(|(shift, more)| (1_u64 << shift).wrapping_add(more).wrapping_sub(1));
    prop_oneof![any, edges, edges_of_16_bits()]
}

/// Words of which each is all ones, zero or one.
fn edges_of_16_bits() -> impl Strategy<Value = u64> {
    let word = || prop_oneof![Just(0_u64), Just(1), Just(0xfffe), Just(0xffff)];
    (word(), word(), word(), word()).prop_map(|(a, b, c, d)| a << 48 | b << 32 | c << 16 | d)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn a_folded_sum_is_that_of_rfc_1071(sum in values()) {
        // SAFETY: a function of numbers.
        let (fold, halves) = unsafe { ((sums().fold)(sum), (sums().halves)(sum)) };
        prop_assert_eq!(fold, folded(sum));
        prop_assert_eq!(folded(halves), folded(sum));
        let low = u32::try_from(sum & 0xffff_ffff).unwrap();
        // SAFETY: as above.
        prop_assert_eq!(unsafe { (sums().fold32)(low) }, folded(u64::from(low)));
    }

    #[test]
    fn a_value_is_in_the_bucket_whose_bounds_hold_it(value in values()) {
        // SAFETY: functions of numbers.
        let (fine, coarse) = unsafe { ((sums().fine)(value), (sums().coarse)(value)) };
        for (steps_log2, bucket) in [(FINE_LOG2, fine as usize), (COARSE_LOG2, coarse as usize)] {
            let mut counts = vec![0; buckets(steps_log2)];
            counts[bucket] = 1;
            let histogram = Histogram::new(steps_log2, counts);
            let (low, high, _) = histogram.filled().next().unwrap();
            let most = (1 << 36) - 1;
            prop_assert!((low..=high).contains(&value.min(most)), "{value} is not in {low}..={high}");
        }
    }
}

const _: () = assert!(GAP_STEPS_LOG2 == COARSE_LOG2);
