//! Instants and spans on one clock, in nanoseconds.

use std::ops::{Add, Sub};

/// Nanoseconds: a span, or an instant of the clock that the agent reads (`CLOCK_MONOTONIC`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all, and the clock's origin.
    pub const ZERO: Self = Self(0);
    /// Later than every instant.
    pub const NEVER: Self = Self(u64::MAX);

    /// Seconds, for what is shown.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Time from `earlier` to `self`; zero when it is the other way round.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, span: Self) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_stays_never() {
        assert_eq!(Nanos::NEVER + Nanos(5), Nanos::NEVER);
        assert_eq!(Nanos(5).since(Nanos(9)), Nanos::ZERO);
    }
}
