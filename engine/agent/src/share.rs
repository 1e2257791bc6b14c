//! Shares of a plan's streams, one for each sending thread.

/// Some of the streams of a plan: each `of`-th from number `nth` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Index of the share.
    pub nth: usize,
    /// Number of shares.
    pub of: usize,
}

impl Share {
    /// All streams.
    pub const WHOLE: Self = Self { nth: 0, of: 1 };

    /// Returns the items of this share.
    #[must_use]
    pub fn pick<T: Clone>(self, all: &[T]) -> Vec<T> {
        all.iter().skip(self.nth).step_by(self.of).cloned().collect()
    }

    /// Returns the index among all streams of number `i` of this share.
    #[must_use]
    pub const fn whole(self, i: usize) -> usize {
        self.nth + i * self.of
    }
}
