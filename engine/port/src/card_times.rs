//! Receive times of a card: switched on while a port is open, and converted to our clock.

use crate::card_clock::{Ahead, CardClock};
use crate::ethtool;
use crate::stamping::Switched;
use dutlab_units::Nanos;
use std::io;

/// Interval between comparisons of the clocks. At 100 ppm they drift by 200 ns, which the error includes.
const FRESH: Nanos = Nanos(2_000_000);
/// Longest time that a frame can be in a queue.
const OLDEST: Nanos = Nanos(10_000_000_000);

/// Clock of the card, and how far it is ahead.
pub struct CardTimes {
    clock: CardClock,
    /// Last reading, and when it was made.
    last: (Ahead, Nanos),
    /// Last reading with the error for frames that arrive until the next one; `None` while the clock cannot be read.
    ahead: Option<Ahead>,
    /// Keeps the card's stamping switched on; only the first queue of a port has it.
    _on: Option<Switched>,
}

impl CardTimes {
    /// Returns the card's times of an interface; `None` if its driver has none.
    ///
    /// # Errors
    /// Reason why times that the driver offers cannot be used.
    pub fn of(iface: &str) -> io::Result<Option<Self>> {
        let Ok(stamping) = ethtool::stamping(iface) else { return Ok(None) };
        if !stamping.card_receives() {
            return Ok(None);
        }
        let number = stamping.clock.ok_or_else(|| io::Error::other("the driver names no clock of the card"))?;
        if !stamping.card_receives_all() {
            return Err(io::Error::other("the card stamps only frames of PTP"));
        }
        Self::open(number, Some(Switched::on(iface)?)).map(Some)
    }

    /// Returns the card's times for another queue of the port.
    pub fn again(iface: &str) -> io::Result<Self> {
        let number = ethtool::stamping(iface)?.clock;
        Self::open(number.ok_or_else(|| io::Error::other("the driver names no clock of the card"))?, None)
    }

    fn open(number: u32, on: Option<Switched>) -> io::Result<Self> {
        let clock = CardClock::open(number)?;
        let ahead = clock.ahead()?;
        Ok(Self { clock, last: (ahead, Nanos::ZERO), ahead: Some(ahead), _on: on })
    }

    /// Compares the clocks again, because the last comparison is old.
    pub fn begin(&mut self, now: Nanos) {
        self.ahead = self.clock.ahead().ok();
        self.last = (self.ahead.unwrap_or(self.last.0), now);
    }

    /// Returns how far the card's clock is ahead, for frames that arrived since the last call.
    pub fn ahead(&mut self, now: Nanos) -> Option<Ahead> {
        if now.since(self.last.1) > FRESH {
            let read = self.clock.ahead().ok();
            self.ahead = read.map(|ahead| ahead.after(self.last.0));
            self.last = (read.unwrap_or(self.last.0), now);
        }
        self.ahead
    }

    /// Returns a note for the record on how the card's clock is read.
    #[must_use]
    pub fn note(&self) -> String {
        let within = self.ahead.map_or(0, |a| a.error.0);
        format!(
            "times are the card's as a frame arrives, by a clock that is known to within {within} ns ({:?}), and software's before the \
             engine hands one over; the card stamps until the port is closed",
            self.clock.reading
        )
    }
}

/// Converts a time of the card to our clock, for a frame that was taken at `now`; `None` if that cannot be its time.
#[must_use]
pub fn ours(card: Nanos, ahead: Option<Ahead>, now: Nanos) -> Option<Nanos> {
    let ahead = ahead?;
    ahead.ours(card).filter(|at| *at <= now + ahead.error && now.since(*at) < OLDEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_card_is_taken_where_it_can_be_that_of_the_frame() {
        let now = Nanos(50_000_000_000);
        let ahead = Some(Ahead { ns: 7_000, error: Nanos(100) });
        assert_eq!(ours(Nanos(49_000_007_000), ahead, now), Some(Nanos(49_000_000_000)));
        // Valid: as late as the error of the clocks allows.
        assert_eq!(ours(Nanos(50_000_007_100), ahead, now), Some(Nanos(50_000_000_100)));
        // Not valid: later; older than any queue; before our clock began; from a clock that cannot be read.
        for (card, ahead) in [(50_000_007_101, ahead), (40_000_007_000, ahead), (5, ahead), (49_000_007_000, None)] {
            assert_eq!(ours(Nanos(card), ahead, now), None, "{card}");
        }
    }

    #[test]
    fn an_interface_without_a_card_has_no_times_of_one() {
        assert!(CardTimes::of("lo").unwrap().is_none());
        assert!(CardTimes::of("dutlab-none").unwrap().is_none());
    }
}
