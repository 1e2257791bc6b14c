//! Which streams of a plan one sending thread has.

/// Some of the streams of a plan: each `of`-th from number `nth` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Which share.
    pub nth: usize,
    /// How many shares there are.
    pub of: usize,
}

impl Share {
    /// All streams.
    pub const WHOLE: Self = Self { nth: 0, of: 1 };

    /// What is in this share.
    #[must_use]
    pub fn pick<T: Clone>(self, all: &[T]) -> Vec<T> {
        all.iter().skip(self.nth).step_by(self.of).cloned().collect()
    }

    /// Which of all streams is number `i` of this share.
    #[must_use]
    pub const fn whole(self, i: usize) -> usize {
        self.nth + i * self.of
    }
}
