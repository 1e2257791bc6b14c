//! Addresses and ports of a frame: ranges counted through, or a pseudo-random set (RFC 4814).
//!
//! A flow is a member of the product of six ranges, numbered in mixed radix. With a seed, a permutation of all members
//! is applied first: its first n members are n different flows spread over the whole ranges, and no table is needed.

use crate::macs;
use crate::permutation::shuffled;
use std::fmt;

/// Flows of a stream: offsets from the stream's own addresses and ports. A function of its parameters alone, so the set
/// is the same in all trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flows {
    count: u32,
    ranges: [u32; 6],
    seed: Option<u64>,
}

/// One flow: the offsets that are added to the stream's own values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Flow {
    /// Added to the source port.
    pub source_port: u16,
    /// Added to the destination port.
    pub destination_port: u16,
    /// Added to the source address.
    pub source: u32,
    /// Added to the destination address.
    pub destination: u32,
    /// Number of the source MAC.
    pub source_mac: u32,
    /// Number of the destination MAC.
    pub destination_mac: u32,
}

/// Flows that cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowError {
    /// A count or a range is 0.
    Empty,
    /// A range of ports is longer than 65536.
    TooManyPorts(u32),
    /// More MACs than the pattern has.
    TooManyMacs(u32),
    /// More flows are asked for than the ranges have members.
    TooMany {
        /// Flows that were asked for.
        asked: u32,
        /// Members that the ranges have together.
        members: u128,
    },
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "a count of 0: flows, addresses and ports are at least 1"),
            Self::TooManyPorts(n) => write!(f, "{n} ports: there are 65536"),
            Self::TooManyMacs(n) => write!(f, "{n} MACs: the pattern of RFC 4814 has {}", macs::MOST),
            Self::TooMany { asked, members } => {
                write!(f, "{asked} flows asked for, but the ranges have {members} members; widen a range")
            }
        }
    }
}

impl std::error::Error for FlowError {}

impl Flows {
    /// Makes flows. `ranges`: numbers of source ports, destination ports, source addresses, destination addresses,
    /// source MACs, destination MACs.
    pub fn new(count: u32, ranges: [u32; 6], seed: Option<u64>) -> Result<Self, FlowError> {
        if count == 0 || ranges.contains(&0) {
            return Err(FlowError::Empty);
        }
        if let Some(n) = ranges[..2].iter().find(|n| **n > 1 << 16) {
            return Err(FlowError::TooManyPorts(*n));
        }
        if let Some(n) = ranges[4..].iter().find(|n| **n > macs::MOST) {
            return Err(FlowError::TooManyMacs(*n));
        }
        let members = ranges.iter().map(|r| u128::from(*r)).product();
        if u128::from(count) > members {
            return Err(FlowError::TooMany { asked: count, members });
        }
        Ok(Self { count, ranges, seed })
    }

    /// Number of flows.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Flow number `index`, below [`count`](Self::count). Different indices are different flows.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "each remainder is below its range, which was checked")]
    pub fn flow(&self, index: u32) -> Flow {
        let members = self.ranges.iter().map(|r| u128::from(*r)).product();
        let mut member = self.seed.map_or(u128::from(index), |seed| shuffled(u128::from(index), members, seed));
        let [source_port, destination_port, source, destination, source_mac, destination_mac] =
            self.ranges.map(|range| {
                let offset = member % u128::from(range);
                member /= u128::from(range);
                offset as u32
            });
        Flow {
            source_port: source_port as u16,
            destination_port: destination_port as u16,
            source,
            destination,
            source_mac,
            destination_mac,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn ranges_are_counted_through_with_the_source_port_fastest() {
        let flows = Flows::new(6, [2, 1, 3, 1, 1, 1], None).unwrap();
        let seen: Vec<_> = (0..6).map(|i| (flows.flow(i).source_port, flows.flow(i).source)).collect();
        assert_eq!(seen, [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]);
    }

    #[test]
    fn a_seed_gives_the_same_set_every_time_and_another_seed_another() {
        let set = |seed| {
            (0..100)
                .map(|i| Flows::new(100, [60_000, 1, 200, 1, 1, 1], Some(seed)).unwrap().flow(i))
                .collect::<Vec<_>>()
        };
        assert_eq!(set(1), set(1));
        assert_ne!(set(1), set(2));
    }

    #[test]
    fn more_flows_than_members_are_refused() {
        assert_eq!(Flows::new(7, [2, 1, 3, 1, 1, 1], None), Err(FlowError::TooMany { asked: 7, members: 6 }));
        assert_eq!(Flows::new(1, [0, 1, 1, 1, 1, 1], None), Err(FlowError::Empty));
        assert_eq!(Flows::new(1, [65_537, 1, 1, 1, 1, 1], None), Err(FlowError::TooManyPorts(65_537)));
    }

    /// Pearson's chi-squared of `counts` against a uniform distribution.
    fn chi_squared(counts: &[u32]) -> f64 {
        let mean = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
        counts.iter().map(|n| (f64::from(*n) - mean).powi(2) / mean).sum()
    }

    #[test]
    fn a_million_flows_of_the_recommended_ranges_all_differ_and_fill_hash_buckets_evenly() {
        // RFC 4814 section 4.4: source ports 1024 to 65535, destination ports 1 to 49151. 256 addresses on each side.
        let flows = Flows::new(1_000_000, [64_512, 49_151, 256, 256, 1, 1], Some(7)).unwrap();
        let mut seen = HashSet::with_capacity(1_000_000);
        let (mut sources, mut ports, mut xor) = (vec![0; 256], vec![0; 64], vec![0; 256]);
        for i in 0..1_000_000 {
            let f = flows.flow(i);
            assert!(seen.insert(f), "flow {i} comes twice");
            sources[f.source as usize] += 1;
            ports[usize::from(f.source_port) * 64 / 64_512] += 1;
            // Distribution of a card without a good hash: exclusive or of all fields, folded to eight bits.
            let all = (f.source ^ f.destination) ^ u32::from(f.source_port ^ f.destination_port);
            xor[((all ^ all >> 8) & 255) as usize] += 1;
        }
        // The 99.9 % quantiles of chi-squared with 255 and 63 degrees of freedom are 330.5 and 103.4.
        for (name, chi, most) in [
            ("source addresses", chi_squared(&sources), 330.5),
            ("source ports", chi_squared(&ports), 103.4),
            ("folded exclusive or", chi_squared(&xor), 330.5),
        ] {
            assert!(chi < most, "{name}: {chi}");
        }
    }

    proptest! {
        #[test]
        fn all_flows_differ_and_lie_in_their_ranges(
            ranges in [1_u32..20, 1_u32..20, 1_u32..20, 1_u32..20, 1_u32..6, 1_u32..6], seed: Option<u64>, part in 1_u32..=100,
        ) {
            let count = (ranges.iter().product::<u32>() * part / 100).clamp(1, 5000);
            let flows = Flows::new(count, ranges, seed).unwrap();
            let seen: HashSet<Flow> = (0..count).map(|i| flows.flow(i)).collect();
            prop_assert_eq!(seen.len(), count as usize);
            for f in seen {
                prop_assert!(u32::from(f.source_port) < ranges[0] && u32::from(f.destination_port) < ranges[1]);
                prop_assert!(f.source < ranges[2] && f.destination < ranges[3]);
                prop_assert!(f.source_mac < ranges[4] && f.destination_mac < ranges[5]);
            }
        }
    }
}
