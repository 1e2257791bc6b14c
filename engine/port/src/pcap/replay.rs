//! A capture to send again.

use super::read::{BadCapture, Capture, Fault};
use dutlab_units::Nanos;
use std::fmt;
use std::io;

/// Times at which the frames of a capture are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Timing {
    /// Times of the capture, faster by this factor; above 0.
    Speed(f64),
    /// All frames are due at once.
    Max,
}

/// The frames of a capture in memory, with their times.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    timing: Timing,
    /// Number of rounds in which the capture is sent.
    rounds: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Frame {
    /// Time since the first frame.
    at: Nanos,
    offset: usize,
    length: usize,
}

/// Reason why a capture cannot be sent.
#[derive(Debug)]
pub enum LoadError {
    /// The file cannot be read.
    Read {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a valid capture.
    Bad {
        /// The file.
        path: String,
        /// The fault.
        what: BadCapture,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, source } => write!(f, "{path}: {source}"),
            Self::Bad { path, what } => write!(f, "{path}: {what}"),
        }
    }
}

impl std::error::Error for LoadError {}

impl Replay {
    /// Reads a capture from a file.
    pub fn load(path: &str, timing: Timing, rounds: u32) -> Result<Self, LoadError> {
        let bytes = std::fs::read(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
        Self::new(bytes, timing, rounds).map_err(|what| LoadError::Bad { path: path.to_owned(), what })
    }

    /// Reads a capture from the bytes of a file. A frame that seems to be captured before its predecessor is due with
    /// it.
    pub fn new(bytes: Vec<u8>, timing: Timing, rounds: u32) -> Result<Self, BadCapture> {
        let mut frames: Vec<Frame> = Vec::new();
        let mut first = None;
        for record in Capture::new(&bytes)? {
            let record = record?;
            let since = record.at.since(*first.get_or_insert(record.at));
            let at = frames.last().map_or(since, |before| before.at.max(since));
            frames.push(Frame { at, offset: record.offset, length: record.bytes.len() });
        }
        if frames.is_empty() {
            return Err(BadCapture { offset: bytes.len(), frame: 0, fault: Fault::Empty });
        }
        Ok(Self { bytes, frames, timing, rounds: rounds.max(1) })
    }

    /// Returns the number of frames to send in all rounds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.frames.len() as u64 * u64::from(self.rounds)
    }

    /// Returns the length of the longest frame, in bytes without FCS.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.frames.iter().map(|f| f.length).max().unwrap_or(0)
    }

    /// Returns the mean length of the frames, in bytes without FCS.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.frames.iter().map(|f| f.length as f64).sum::<f64>() / self.frames.len() as f64
    }

    /// Returns the number of frames in one round.
    #[must_use]
    pub const fn round(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Returns frame `n` of a round for changes; its length stays.
    pub fn frame_mut(&mut self, n: u64) -> &mut [u8] {
        let frame = self.at(n).0;
        &mut self.bytes[frame.offset..frame.offset + frame.length]
    }

    /// Returns frame `n` without FCS.
    #[must_use]
    pub fn frame(&self, n: u64) -> &[u8] {
        let frame = self.at(n).0;
        &self.bytes[frame.offset..frame.offset + frame.length]
    }

    /// Returns the time since the start at which frame `n` is due. A round begins one mean gap after the last frame of
    /// the previous one.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates: above 500 years is never")]
    pub fn when(&self, n: u64) -> Nanos {
        let Timing::Speed(speed) = self.timing else { return Nanos::ZERO };
        let (frame, round) = self.at(n);
        let last = self.frames.last().map_or(0, |f| f.at.0);
        let gap = last / (self.frames.len() as u64 - 1).max(1);
        let at = frame.at.0 as f64 + round as f64 * (last + gap) as f64;
        Nanos((at / speed) as u64)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a remainder of a usize")]
    fn at(&self, n: u64) -> (Frame, u64) {
        let count = self.frames.len() as u64;
        (self.frames[(n % count) as usize], n / count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a capture with frames at these times in µs, each one byte longer than the previous one.
    fn capture(times: &[u32]) -> Vec<u8> {
        let mut b = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
        for (length, t) in (60_u32..).zip(times) {
            for word in [t / 1_000_000, t % 1_000_000, length, length] {
                b.extend(word.to_le_bytes());
            }
            b.extend(vec![0; length as usize]);
        }
        b
    }

    #[test]
    fn a_capture_keeps_its_gaps_scaled_and_goes_round_with_its_mean_gap() {
        let times = [5_000_000, 5_000_100, 5_000_300];
        let when = |speed: f64, n: u64| Replay::new(capture(&times), Timing::Speed(speed), 2).unwrap().when(n).0;
        assert_eq!([when(1.0, 0), when(1.0, 1), when(1.0, 2)], [0, 100_000, 300_000]);
        assert_eq!([when(2.0, 1), when(0.5, 2)], [50_000, 600_000]);
        assert_eq!([when(1.0, 3), when(1.0, 5)], [450_000, 750_000], "300 µs and a mean gap of 150 µs later");
        let replay = Replay::new(capture(&times), Timing::Max, 2).unwrap();
        assert_eq!((replay.count(), replay.longest(), replay.frame(4).len(), replay.when(5)), (6, 62, 61, Nanos(0)));
    }

    #[test]
    fn time_that_runs_backwards_is_no_gap() {
        let replay = Replay::new(capture(&[100, 50, 200]), Timing::Speed(1.0), 1).unwrap();
        assert_eq!([replay.when(1).0, replay.when(2).0], [0, 100_000]);
    }

    #[test]
    fn a_capture_without_frames_is_refused() {
        let bad = Replay::new(capture(&[]), Timing::Max, 1).unwrap_err();
        assert_eq!((bad.offset, bad.fault), (24, Fault::Empty));
    }
}
