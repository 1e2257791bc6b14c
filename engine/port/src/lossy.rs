//! A wrapper of a port that loses frames and says that it sent them.

use crate::batch::{self, Fill};
use crate::error::PortError;
use crate::port::{BurstSender, Handed};

/// Loses about one frame in `every`, the same ones for the same seed.
#[derive(Debug)]
pub struct Lossy<S> {
    inner: S,
    every: u64,
    state: u64,
    lost: u64,
    scratch: Vec<u8>,
}

impl<S: BurstSender> Lossy<S> {
    /// Wraps `inner`. `every` is at least 1; 1 loses all.
    #[must_use]
    pub fn new(inner: S, every: u64, seed: u64) -> Self {
        Self { inner, every: every.max(1), state: seed, lost: 0, scratch: vec![0; 16 * 1024] }
    }

    /// Frames lost so far.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// `SplitMix64` (Steele, Lea, Flood, OOPSLA 2014).
    const fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl<S: BurstSender> BurstSender for Lossy<S> {
    fn burst_max(&self) -> usize {
        self.inner.burst_max()
    }

    fn send(&mut self, want: usize, fill: &mut dyn Fill) -> Result<Handed, PortError> {
        let mut sent = 0;
        while sent < want.min(self.burst_max()) {
            let before = self.state;
            if self.random().is_multiple_of(self.every) {
                batch::fill_one(fill, sent, &mut self.scratch);
                self.lost += 1;
            } else {
                let handed = self.inner.send(1, &mut batch::From { fill, first: sent })?;
                if handed.sent == 0 {
                    self.state = before;
                    return Ok(Handed { sent, refused: handed.refused });
                }
            }
            sent += 1;
        }
        Ok(Handed { sent, refused: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::pipe;
    use crate::port::BurstReceiver;
    use dutlab_units::Nanos;

    fn through(number: u64) -> (u64, Vec<u8>) {
        let (inner, mut rx) = pipe(1000, || Nanos(0));
        let mut lossy = Lossy::new(inner, 5, number);
        for burst in 0..4_u8 {
            let handed = lossy.send(50, &mut |i: usize, b: &mut [u8]| {
                b[0] = burst * 50 + u8::try_from(i).unwrap();
                1
            });
            assert_eq!(handed.unwrap(), Handed { sent: 50, refused: 0 });
        }
        let mut seen = Vec::new();
        rx.receive(Nanos(0), &mut |a| seen.push(a.bytes[0])).unwrap();
        (lossy.lost(), seen)
    }

    #[test]
    fn what_is_lost_was_said_to_be_sent_and_the_same_seed_loses_the_same() {
        let (lost, seen) = through(7);
        assert!(lost > 0 && lost + seen.len() as u64 == 200, "seed 7: lost {lost}");
        assert!(seen.windows(2).all(|w| w[0] < w[1]), "seed 7: order is kept");
        assert_eq!(through(7), (lost, seen));
        assert_ne!(through(8).1, through(7).1);
    }
}
