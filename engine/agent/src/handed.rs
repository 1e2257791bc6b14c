//! Streams of the last frames that were handed over, to attribute those that did not leave.

use std::collections::VecDeque;

/// Minimum number of frames that are remembered: more than any back end holds back.
const KEPT: u64 = 1 << 14;

/// The last frames in the order in which they were handed over, in runs of one stream.
#[derive(Debug, Default)]
pub struct Handed {
    /// Stream and number of frames.
    runs: VecDeque<(usize, u64)>,
    frames: u64,
}

impl Handed {
    /// Records that `count` frames of a stream were handed over.
    #[inline]
    pub fn note(&mut self, stream: usize, count: u64) {
        self.frames += count;
        match self.runs.back_mut() {
            Some((last, frames)) if *last == stream => *frames += count,
            _ => self.runs.push_back((stream, count)),
        }
        while let Some((_, oldest)) = self.runs.front().filter(|(_, oldest)| self.frames - oldest >= KEPT) {
            self.frames -= oldest;
            self.runs.pop_front();
        }
    }

    /// Returns the stream of the frame after which `ago` more were handed over; `None`: it is of an earlier trial.
    #[must_use]
    pub fn stream(&self, mut ago: u64) -> Option<usize> {
        self.runs.iter().rev().find_map(|(stream, frames)| {
            let found = (ago < *frames).then_some(*stream);
            ago = ago.saturating_sub(*frames);
            found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_the_last_frames_has_its_stream_and_older_ones_have_none() {
        let mut handed = Handed::default();
        assert_eq!(handed.stream(0), None);
        for (stream, count) in [(0, 2), (1, 3), (1, 1), (0, 1)] {
            handed.note(stream, count);
        }
        let streams: Vec<_> = (0..8).map(|ago| handed.stream(ago)).collect();
        assert_eq!(streams, [Some(0), Some(1), Some(1), Some(1), Some(1), Some(0), Some(0), None]);
    }

    #[test]
    fn what_is_remembered_does_not_grow_for_ever() {
        let mut handed = Handed::default();
        (0..1_000_000).for_each(|i| handed.note(i % 2, 3));
        assert!((KEPT..KEPT + 3).contains(&handed.frames), "{}", handed.frames);
        assert!(handed.stream(KEPT - 1).is_some());
    }
}
