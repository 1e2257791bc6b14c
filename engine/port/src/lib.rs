//! Network ports: where frames leave and enter the machine.
//!
//! - [`port`]: the traits. A back end sends either in bursts that the agent paces ([`BurstSender`]) or takes a whole
//!   plan into the kernel ([`PlanSender`]); it receives either frames ([`BurstReceiver`]) or counts in the kernel
//!   ([`CountingReceiver`])
//! - [`batch`]: the buffers of a burst, and the trait that fills them
//! - [`plan`]: input of a [`PlanSender`]: frame templates, offsets of changing fields, pacing
//! - [`af_packet`], [`memory`], [`pcap`]: back ends; those that use eBPF are in the crate `dutlab-xdp`
//! - [`neighbour`]: the MAC of the next hop
//! - [`iface`]: facts of an interface, and the check that it is not part of a network in use; [`speed`]: its link's
//!   speed; [`network`]: its addresses; [`feeds`]: the receive queues behind it; [`missed`]: drops of its hardware;
//!   [`link_watch`]: losses of its link; [`promiscuous`]: frames for other stations; [`card_clock`], [`stamping`],
//!   [`card_times`]: times of the card, by our clock; [`link`], [`ethtool`]: queries to the kernel and its driver
//! - [`sys`], [`mapping`], [`stall`]: building blocks of back ends
//!
//! This crate does not parse headers or probes: frames are bytes.

pub mod af_packet;
pub mod batch;
pub mod card_clock;
pub mod card_times;
pub mod clock;
pub mod cpu;
pub mod error;
pub mod ethtool;
pub mod feeds;
pub mod iface;
pub mod link;
pub mod link_watch;
pub mod mapping;
pub mod memory;
pub mod missed;
pub mod neighbour;
mod netlink;
pub mod network;
pub mod pcap;
pub mod plan;
pub mod port;
pub mod promiscuous;
pub mod routes;
pub mod signal;
pub mod speed;
pub mod stall;
pub mod stamping;
pub mod sys;

pub use batch::{Batch, Fill, Slot};
pub use error::{ErrorKind, PortError, Refusal};
pub use plan::{Counter, Field, FlowSet, Pace, PlanStream, SendPlan, Template, Varied};
pub use port::{
    Arrived, BurstReceiver, BurstSender, By, Counted, CountedStream, CountingReceiver, Gaps, Handed, Order,
    PlanControl, PlanSender, Receiver, Sender, Stamped, StreamTotals, Unsent, Variation, Watch, WatchedStream,
};
