//! Common mixes of frame sizes, by name. None is a standard (RFC 6985 section 1 does not define one), and tools count the
//! same frame differently, so each mix states what its source counts.

use dutlab_units::{FCS, FrameSize};
use std::fmt;

/// Meaning of a frame's size in a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// From destination address to FCS.
    WithFcs,
    /// From destination address to the end of the payload, without FCS: the bytes that are handed to a kernel.
    WithoutFcs,
    /// The IP datagram alone.
    Ip,
}

/// A mix with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedMix {
    /// Name of the mix.
    pub name: &'static str,
    /// Meaning of its sizes.
    pub counted: Counted,
    /// Sizes and weights, as in the source.
    pub parts: &'static [(u32, u32)],
    /// Source of the mix.
    pub source: &'static str,
}

/// All mixes.
pub const MIXES: [NamedMix; 10] = [
    NamedMix {
        name: "imix",
        counted: Counted::WithFcs,
        parts: &[(64, 7), (594, 4), (1518, 1)],
        source: "simple IMIX on Ethernet: nfvbench traffic_utils.py, ostinato.org/blog/imix",
    },
    NamedMix {
        name: "imix-ip",
        counted: Counted::Ip,
        parts: &[(40, 7), (576, 4), (1500, 1)],
        source: "simple IMIX as IP lengths: Linux pktgen imix_weights; its 40 bytes are padded to the shortest frame",
    },
    NamedMix {
        name: "imix-trex",
        counted: Counted::WithoutFcs,
        parts: &[(60, 28), (590, 16), (1514, 4)],
        source: "TRex scripts/stl/imix.py",
    },
    NamedMix {
        name: "imix-trex-bench",
        counted: Counted::WithoutFcs,
        parts: &[(68, 28), (590, 16), (1514, 4)],
        source: "TRex scripts/stl/bench.py and imix_azure.py",
    },
    NamedMix {
        name: "imix-trex-hlt",
        counted: Counted::WithFcs,
        parts: &[(64, 7), (570, 4), (1518, 1)],
        source: "TRex trex_stl_hltapi.py, whose l3_imix sizes are used as frame sizes",
    },
    NamedMix {
        name: "imix-trex-4-rates",
        counted: Counted::WithoutFcs,
        parts: &[(60, 4), (400, 3), (2000, 2), (8000, 1)],
        source: "TRex stl/hlt/hlt_imix_4rates.py; 60 is a legal frame only without FCS",
    },
    NamedMix {
        name: "imix-csit",
        counted: Counted::WithFcs,
        parts: &[(64, 28), (570, 16), (1518, 4)],
        source: "FD.io CSIT, data_plane_throughput.md, IPv4",
    },
    NamedMix {
        name: "imix-csit-v6",
        counted: Counted::WithFcs,
        parts: &[(78, 28), (570, 16), (1518, 4)],
        source: "FD.io CSIT, data_plane_throughput.md, IPv6",
    },
    NamedMix {
        name: "imix-spirent",
        counted: Counted::WithFcs,
        parts: &[(64, 61), (594, 21), (1518, 18)],
        source: "Spirent FAQ11671, in percent",
    },
    NamedMix {
        name: "imix-web",
        counted: Counted::WithFcs,
        parts: &[(64, 67), (570, 1), (594, 2), (1518, 1)],
        source: "a table of 2012 that many pages repeat",
    },
];

/// A name that no mix has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchMix(pub String);

impl fmt::Display for NoSuchMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = MIXES.iter().map(|m| m.name).collect();
        write!(f, "no mix is called {:?}; known: {}", self.0, names.join(", "))
    }
}

impl std::error::Error for NoSuchMix {}

impl NamedMix {
    /// Returns the mix with this name.
    pub fn find(name: &str) -> Result<&'static Self, NoSuchMix> {
        MIXES.iter().find(|m| m.name == name).ok_or_else(|| NoSuchMix(name.to_owned()))
    }

    /// Mean size as its source counts.
    #[must_use]
    pub fn mean_as_counted(&self) -> f64 {
        let (bytes, frames) = self.parts.iter().fold((0, 0), |(b, n), (size, weight)| (b + size * weight, n + weight));
        f64::from(bytes) / f64::from(frames)
    }

    /// Returns sizes with FCS and their weights. Shorter frames are padded to the shortest frame, as Ethernet does.
    #[must_use]
    pub fn frames(&self) -> Vec<(FrameSize, u32)> {
        let around = match self.counted {
            Counted::WithFcs => 0,
            Counted::WithoutFcs => u32::from(FCS),
            Counted::Ip => FrameSize::IP_OVERHEAD,
        };
        let frame = |size: u32| FrameSize::new((size + around).max(FrameSize::MIN.with_fcs()));
        self.parts.iter().filter_map(|(size, weight)| Some((frame(*size).ok()?, *weight))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sizes;
    use dutlab_units::L1Bits;

    fn mean(name: &str) -> f64 {
        Sizes::weighted(&NamedMix::find(name).unwrap().frames()).unwrap().mean()
    }

    // The averages as printed by the sources, or computed by hand from their sizes, to the digits printed.
    #[test]
    fn averages_are_those_of_the_sources() {
        let by_hand = (67.0 * 64.0 + 570.0 + 2.0 * 594.0 + 1518.0) / 71.0;
        for (name, printed, digit) in [
            ("imix", 361.83, 0.005),
            ("imix-trex", 361.83, 0.005),
            ("imix-trex-bench", 366.5, 0.05),
            ("imix-trex-hlt", 353.83, 0.005),
            ("imix-csit", 353.83, 0.005),
            ("imix-csit-v6", 362.0, 0.05),
            ("imix-spirent", 437.0, 0.05),
            // (60 * 4 + 400 * 3 + 2000 * 2 + 8000) / 10 without FCS, and 4 bytes of FCS
            ("imix-trex-4-rates", 1344.0 + 4.0, 0.005),
            ("imix-web", by_hand, 0.005),
        ] {
            assert!((mean(name) - printed).abs() <= digit, "{name}: {} instead of {printed}", mean(name));
        }
        let ip = NamedMix::find("imix-ip").unwrap();
        assert!((ip.mean_as_counted() - 340.3).abs() < 0.05, "as IP lengths");
        assert!((mean("imix-ip") - 361.83).abs() < 0.005, "on Ethernet it is the same mix as imix");
    }

    #[test]
    fn line_rates_at_ten_gigabit_are_those_of_the_sources() {
        // 10^10 / ((361.83 + 20) * 8) and 10^10 / ((353.83 + 20) * 8), as printed
        for (name, printed) in [("imix", 3_273_680.0), ("imix-csit", 3_343_736.0)] {
            assert!((L1Bits(1e10).frames(mean(name)).0 - printed).abs() < 1.0, "{name}");
        }
    }

    #[test]
    fn the_spirent_average_with_its_overhead_is_the_printed_one() {
        assert!((mean("imix-spirent") + 20.0 - 457.02).abs() < 0.005);
    }

    #[test]
    fn every_mix_has_all_its_sizes_and_a_name_of_its_own() {
        for (i, mix) in MIXES.iter().enumerate() {
            assert_eq!(mix.frames().len(), mix.parts.len(), "{}", mix.name);
            assert!(MIXES[..i].iter().all(|m| m.name != mix.name), "{}", mix.name);
        }
        assert!(NamedMix::find("imax").unwrap_err().to_string().contains("imix-csit-v6"));
    }
}
