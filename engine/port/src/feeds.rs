//! The receive queues that the frames of an interface come from: whether they can change places inside of this host.
//!
//! Queues are polled one after the other, or at the same time by several CPUs. So frames of two queues come in an order that is not that of
//! the link, and get the times of software in that order too.

use crate::port::Order;
use crate::{ethtool, link, speed};

/// What feeds an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feeds {
    /// One receive queue.
    OneQueue,
    /// Several of its own.
    Queues {
        /// Whether it is a card, which puts all frames of a flow into one queue.
        wired: bool,
    },
    /// Several of interfaces below it, or none that can be seen from this namespace.
    Others {
        /// Whether all of these are cards.
        wired: bool,
    },
}

/// What feeds the interface of this number. What cannot be asked has several queues.
#[must_use]
pub fn of(index: u32) -> Feeds {
    let Ok(Some(leaves)) = link::leaves(index) else { return Feeds::Others { wired: false } };
    // A driver that does not say uses all that it has.
    let queues = |leaf: &link::Leaf| ethtool::queues(&leaf.name).map_or(leaf.queues, |q| q.receive);
    if leaves.iter().all(|leaf| queues(leaf) <= 1) {
        return Feeds::OneQueue;
    }
    let wired = leaves.iter().all(|leaf| speed::is_wired(&leaf.name));
    let own = matches!(&leaves[..], [leaf] if link::named(&leaf.name).is_ok_and(|l| l.index == index));
    if own { Feeds::Queues { wired } } else { Feeds::Others { wired } }
}

impl Feeds {
    /// The order of frames that are given without their queue.
    #[must_use]
    pub const fn order(self) -> Order {
        match self {
            Self::OneQueue => Order::Link,
            Self::Queues { wired: true } | Self::Others { wired: true } => Order::Flow,
            _ => Order::Nothing,
        }
    }

    /// The order of frames that the queue of this number gives.
    #[must_use]
    pub const fn order_of_queue(self, number: u32) -> Order {
        match self {
            Self::OneQueue => Order::Link,
            Self::Queues { .. } => Order::Queue(number),
            Self::Others { .. } => self.order(),
        }
    }
}
