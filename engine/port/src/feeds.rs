//! Receive queues that feed an interface, and whether they can reorder frames inside this host.
//!
//! Queues are polled one after the other, or at the same time by several CPUs. So frames of two queues are not
//! delivered in the order of the link, and software stamps them in the order of delivery too.

use crate::port::Order;
use crate::{ethtool, link, speed};

/// Receive queues behind an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feeds {
    /// One receive queue.
    OneQueue,
    /// Several queues of the interface itself.
    Queues {
        /// True for a card, which puts all frames of a flow into one queue.
        wired: bool,
    },
    /// Several queues of lower interfaces, or none that are visible from this namespace.
    Others {
        /// True if all of these are cards.
        wired: bool,
    },
}

/// Returns the queues behind the interface with this index. An interface that cannot be queried counts as one with
/// several queues.
#[must_use]
pub fn of(index: u32) -> Feeds {
    let Ok(Some(leaves)) = link::leaves(index) else { return Feeds::Others { wired: false } };
    // Without an answer of the driver, all queues count as used.
    let queues = |leaf: &link::Leaf| ethtool::queues(&leaf.name).map_or(leaf.queues, |q| q.receive);
    if leaves.iter().all(|leaf| queues(leaf) <= 1) {
        return Feeds::OneQueue;
    }
    let wired = leaves.iter().all(|leaf| speed::is_wired(&leaf.name));
    let own = matches!(&leaves[..], [leaf] if link::named(&leaf.name).is_ok_and(|l| l.index == index));
    if own { Feeds::Queues { wired } } else { Feeds::Others { wired } }
}

impl Feeds {
    /// Returns the order of frames that are delivered without their queue number.
    #[must_use]
    pub const fn order(self) -> Order {
        match self {
            Self::OneQueue => Order::Link,
            Self::Queues { wired: true } | Self::Others { wired: true } => Order::Flow,
            _ => Order::Nothing,
        }
    }

    /// Returns the order of frames of one queue.
    #[must_use]
    pub const fn order_of_queue(self, number: u32) -> Order {
        match self {
            Self::OneQueue => Order::Link,
            Self::Queues { .. } => Order::Queue(number),
            Self::Others { .. } => self.order(),
        }
    }
}
