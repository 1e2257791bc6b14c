//! Clock of a card (`/dev/ptpN`, Documentation/driver-api/ptp.rst of the kernel), and how far it is ahead of ours.
//!
//! The kernel reads both clocks together, in one of three ways of `linux/ptp_clock.h`, best first: at one instant, by
//! the hardware (`PTP_SYS_OFFSET_PRECISE`); ours directly before and after the card's (`PTP_SYS_OFFSET_EXTENDED`); ours
//! before and after the whole access to the card (`PTP_SYS_OFFSET`). Of several readings, the shortest has the smallest
//! error: half of its duration.

use crate::clock;
use dutlab_units::Nanos;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

/// Readings per call.
const SAMPLES: u32 = 5;
/// `PTP_MAX_SAMPLES`.
const MOST_SAMPLES: usize = 25;
/// Bytes of `struct ptp_clock_time`: seconds (64 bits, signed), nanoseconds (32), reserved (32).
const TIME: usize = 16;
/// Bytes in front of the times in the formats with several readings: their number, and three reserved words.
const HEAD: usize = 16;

/// Way to read both clocks, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The hardware reads both clocks at one instant.
    Precise,
    /// Our clock is read right before and after the card's.
    Extended,
    /// Our clock is read before and after the driver is asked.
    Plain,
}

impl Reading {
    const ALL: [Self; 3] = [Self::Precise, Self::Extended, Self::Plain];

    /// Size of its structure in bytes.
    const fn size(self) -> usize {
        match self {
            Self::Precise => 3 * TIME + 16,
            Self::Extended => HEAD + 3 * MOST_SAMPLES * TIME,
            Self::Plain => HEAD + (2 * MOST_SAMPLES + 1) * TIME,
        }
    }

    /// Its ioctl number: `_IOWR('=', 8, …)`, `_IOWR('=', 9, …)`, `_IOW('=', 5, …)` of `asm-generic/ioctl.h`.
    #[expect(clippy::cast_possible_truncation, reason = "sizes have at most 14 bits")]
    const fn request(self) -> u32 {
        let (direction, number) = match self {
            Self::Precise => (3, 8),
            Self::Extended => (3, 9),
            Self::Plain => (1, 5),
        };
        direction << 30 | (self.size() as u32) << 16 | (b'=' as u32) << 8 | number
    }

    /// Returns the best of the readings in an answer; `None` if it has none.
    fn best(self, answer: &[u8]) -> Option<Apart> {
        if self == Self::Precise {
            return Some(Apart { ahead: time(answer, 0)? - time(answer, 1)?, error: 0 });
        }
        let count = usize::try_from(u32::from_ne_bytes(*answer.first_chunk()?)).ok()?.min(MOST_SAMPLES);
        // Order: ours, the card's, ours. In the plain form, the last time of a reading is the first of the next.
        let stride = if self == Self::Extended { 3 } else { 2 };
        let times = answer.get(HEAD..)?;
        let one = |n: usize| {
            let (before, card, after) =
                (time(times, n * stride)?, time(times, n * stride + 1)?, time(times, n * stride + 2)?);
            // A clock that was set meanwhile goes backwards.
            (after >= before).then(|| Apart { ahead: card - before.midpoint(after), error: (after - before + 1) / 2 })
        };
        (0..count).filter_map(one).min_by_key(|apart| apart.error)
    }
}

/// The card's clock less `CLOCK_REALTIME`, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Apart {
    ahead: i128,
    error: i128,
}

/// The `n`-th of the times in `b`, in nanoseconds.
fn time(b: &[u8], n: usize) -> Option<i128> {
    let b = b.get(n * TIME..(n + 1) * TIME)?;
    let (seconds, nanoseconds) = (i64::from_ne_bytes(*b.first_chunk()?), u32::from_ne_bytes(*b[8..].first_chunk()?));
    Some(i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds))
}

/// Offset of a card's clock from `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// Nanoseconds by which the card is ahead; negative if it is behind. A clock that counts TAI since 1970 is decades
    /// ahead.
    pub ns: i64,
    /// Error bound.
    pub error: Nanos,
}

impl Ahead {
    fn of(apart: Apart, (realtime, error): (Nanos, Nanos)) -> Option<Self> {
        let ns = i64::try_from(apart.ahead + i128::from(realtime.0)).ok()?;
        Some(Self { ns, error: error + Nanos(u64::try_from(apart.error).ok()?) })
    }

    /// Converts a time of the card to our clock; `None` if it is before our clock began.
    #[must_use]
    pub fn ours(self, card: Nanos) -> Option<Nanos> {
        u64::try_from(i128::from(card.0) - i128::from(self.ns)).ok().map(Nanos)
    }

    /// Returns this offset, which follows `before`, with the error of times taken between the two: the clocks drifted
    /// meanwhile.
    #[must_use]
    pub fn after(self, before: Self) -> Self {
        Self { error: self.error + before.error + Nanos(self.ns.abs_diff(before.ns)), ..self }
    }
}

/// An open clock of a card.
#[derive(Debug)]
pub struct CardClock {
    file: File,
    /// Way in which it is read.
    pub reading: Reading,
}

impl CardClock {
    /// Opens `/dev/ptpN`, and finds the best way to read it.
    ///
    /// # Errors
    /// There is no such device, it may not be read, or the driver refuses all three ways; the error is that of the last
    /// way.
    pub fn open(number: u32) -> io::Result<Self> {
        let path = PathBuf::from(format!("/dev/ptp{number}"));
        let file = File::open(&path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        let mut last = io::Error::from(io::ErrorKind::Unsupported);
        for reading in Reading::ALL {
            let clock = Self { file: file.try_clone()?, reading };
            match clock.ahead() {
                Ok(_) => return Ok(clock),
                Err(e) => last = io::Error::new(e.kind(), format!("{}: {reading:?}: {e}", path.display())),
            }
        }
        Err(last)
    }

    /// Returns how far it is ahead now.
    ///
    /// # Errors
    /// The kernel's error, or an answer that makes no sense.
    pub fn ahead(&self) -> io::Result<Ahead> {
        // The longest of the structures, in words of 64 bits.
        let mut answer = [0_u64; Reading::Extended.size() / 8];
        if self.reading != Reading::Precise {
            answer[0] = u64::from_ne_bytes(two(SAMPLES, 0));
        }
        // SAFETY: `answer` is at least as long as the structure of the request, which has no pointers.
        let status = unsafe {
            libc::syscall(
                libc::SYS_ioctl,
                self.file.as_raw_fd(),
                libc::c_ulong::from(self.reading.request()),
                answer.as_mut_ptr(),
            )
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        let realtime = clock::realtime_offset_within();
        let bytes: Vec<u8> = answer.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let apart = self.reading.best(&bytes);
        apart
            .and_then(|apart| Ahead::of(apart, realtime))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the clocks were set while they were read"))
    }
}

fn two(first: u32, second: u32) -> [u8; 8] {
    let (a, b) = (first.to_ne_bytes(), second.to_ne_bytes());
    [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct ptp_clock_time`, as the kernel writes it.
    fn at(seconds: i64, nanoseconds: u32) -> Vec<u8> {
        [&seconds.to_ne_bytes()[..], &nanoseconds.to_ne_bytes(), &[0; 4]].concat()
    }

    fn several(count: u32, times: &[(i64, u32)]) -> Vec<u8> {
        let mut b = [&count.to_ne_bytes()[..], &[0; 12]].concat();
        b.extend(times.iter().flat_map(|(s, ns)| at(*s, *ns)));
        b
    }

    #[test]
    fn requests_have_the_numbers_of_the_header() {
        // `asm-generic/ioctl.h`: direction in the two highest bits, then 14 bits of size, 8 of kind, 8 of number.
        // Values as strace(1) shows them.
        assert_eq!(Reading::Precise.request(), 0xc040_3d08);
        assert_eq!(Reading::Extended.request(), 0xc4c0_3d09);
        assert_eq!(Reading::Plain.request(), 0x4340_3d05);
        assert!(Reading::ALL.iter().all(|r| r.size() <= Reading::Extended.size()));
    }

    #[test]
    fn the_reading_that_took_least_counts_with_half_of_it_as_error() {
        // 37 s ahead: TAI. The first reading took 900 ns, the second 100.
        let times = [(100, 0), (137, 400), (100, 900), (100, 1000), (137, 1060), (100, 1100)];
        let best = Reading::Extended.best(&several(2, &times)).unwrap();
        assert_eq!(best, Apart { ahead: 37_000_000_010, error: 50 });
        // In the plain form, consecutive readings share a time.
        let times = [(100, 0), (137, 400), (100, 900), (137, 960), (100, 1000)];
        let best = Reading::Plain.best(&several(2, &times)).unwrap();
        assert_eq!(best, Apart { ahead: 37_000_000_010, error: 50 });
        let precise = [at(50, 7), at(100, 5), at(3, 1), vec![0; 16]].concat();
        assert_eq!(Reading::Precise.best(&precise), Some(Apart { ahead: -49_999_999_998, error: 0 }));
    }

    #[test]
    fn a_clock_that_was_set_between_two_readings_and_an_answer_that_is_cut_are_no_reading() {
        let back = [(100, 500), (137, 400), (100, 300)];
        assert_eq!(Reading::Extended.best(&several(1, &back)), None);
        assert_eq!(Reading::Plain.best(&several(0, &[])), None);
        let whole = several(2, &[(1, 0), (2, 0), (1, 10), (1, 20), (2, 20), (1, 30)]);
        for n in 0..HEAD + 3 * TIME {
            assert_eq!(Reading::Extended.best(&whole[..n]), None);
        }
        // More readings than are possible.
        assert!(Reading::Extended.best(&several(u32::MAX, &[(1, 0), (2, 0), (1, 10)])).is_some());
    }

    #[test]
    fn a_time_of_the_card_becomes_ours_and_errors_add_up() {
        // Ours began 1 000 s after the epoch of CLOCK_REALTIME; the card's counts TAI.
        let apart = Apart { ahead: 37_000_000_000, error: 50 };
        let ahead = Ahead::of(apart, (Nanos(1_000_000_000_000), Nanos(20))).unwrap();
        assert_eq!(ahead, Ahead { ns: 1_037_000_000_000, error: Nanos(70) });
        assert_eq!(ahead.ours(Nanos(1_037_000_000_123)), Some(Nanos(123)));
        assert_eq!(ahead.ours(Nanos(5)), None, "before ours began");
        let behind = Ahead { ns: -900, error: Nanos(1) };
        assert_eq!(behind.ours(Nanos(100)), Some(Nanos(1000)));
        // The clocks drifted by 300 ns between the two.
        let later = Ahead { ns: 1_037_000_000_300, error: Nanos(40) };
        assert_eq!(later.after(ahead), Ahead { ns: 1_037_000_000_300, error: Nanos(410) });
    }

    #[test]
    fn a_clock_that_is_not_there_is_an_error_that_names_it() {
        let e = CardClock::open(4711).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::NotFound);
        assert!(e.to_string().starts_with("/dev/ptp4711: "), "{e}");
    }
}
