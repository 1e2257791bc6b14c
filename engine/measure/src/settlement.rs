//! Settlement of a stream: how many frames were lost, and whether all frames are conserved. All back ends use the same
//! rule, whether the frames were counted here or in the kernel.

/// Counters of a stream, from the sender's report and from the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settlement {
    /// Frames that left.
    pub sent: u64,
    /// Exclusive upper bound of the numbers used: `sent`, or more where refused frames used up numbers.
    pub numbered: u64,
    /// Arrivals, duplicates included.
    pub received: u64,
    /// Arrivals of a frame that had arrived before.
    pub duplicated: u64,
    /// One above the largest number that arrived.
    pub next: u64,
}

impl Settlement {
    /// Different frames that arrived.
    #[must_use]
    pub const fn unique(&self) -> u64 {
        self.received.saturating_sub(self.duplicated)
    }

    /// Frames that left and never arrived.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.unique())
    }

    /// Returns true if frames arrived that were not sent: a number that was not used, or more frames than left. Then
    /// another sender uses our stream's number, or a count is wrong, and `lost` is meaningless.
    #[must_use]
    pub const fn is_beyond(&self) -> bool {
        self.next > self.numbered || self.unique() > self.sent
    }

    /// Returns true if the frames are conserved: `sent` + `duplicated` = `received` + `lost`, and nothing arrived that
    /// was not sent.
    #[must_use]
    pub const fn balances(&self) -> bool {
        !self.is_beyond() && self.sent + self.duplicated == self.received + self.lost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_balances_only_if_everything_that_arrived_was_sent() {
        for (sent, numbered, received, duplicated, next, lost, balances, why) in [
            (10, 10, 10, 0, 10, 0, true, "all arrived"),
            (10, 10, 8, 0, 9, 2, true, "one lost in the middle, and the last"),
            (10, 10, 11, 1, 10, 0, true, "all arrived, one twice"),
            (4, 7, 3, 0, 6, 1, true, "three refused frames used up numbers"),
            (0, 0, 0, 0, 0, 0, true, "nothing sent, nothing arrived"),
            (10, 10, 10, 0, 5001, 0, false, "number 5000 of 10: the count alone would balance"),
            (4, 5, 3, 0, 6, 1, false, "a number beyond those that refused frames used up"),
            (2, 7, 3, 0, 6, 0, false, "more arrived than left"),
            (0, 0, 1, 0, 1, 0, false, "nothing was sent and one arrived"),
        ] {
            let s = Settlement { sent, numbered, received, duplicated, next };
            assert_eq!((s.lost(), s.balances()), (lost, balances), "{why}");
        }
    }
}
