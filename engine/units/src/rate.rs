//! Frame rates and bit rates, by layer.

use crate::ETH_L1_OVERHEAD;

/// Frames per second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Pps(pub f64);

/// Bits per second on the wire, with preamble and gap.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct L1Bits(pub f64);

/// Bits per second of frames with FCS, without preamble and gap.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct L2Bits(pub f64);

impl Pps {
    /// Rate on the wire of frames of `mean` bytes with FCS (RFC 5180 appendix A).
    #[must_use]
    pub fn l1(self, mean: f64) -> L1Bits {
        L1Bits(self.0 * (mean + f64::from(ETH_L1_OVERHEAD)) * 8.0)
    }

    /// Rate of frames of `mean` bytes with FCS, without preamble and gap.
    #[must_use]
    pub fn l2(self, mean: f64) -> L2Bits {
        L2Bits(self.0 * mean * 8.0)
    }
}

impl L1Bits {
    /// Frames of `mean` bytes with FCS that fill this rate (RFC 5180 appendix A).
    #[must_use]
    pub fn frames(self, mean: f64) -> Pps {
        Pps(self.0 / ((mean + f64::from(ETH_L1_OVERHEAD)) * 8.0))
    }
}

impl L2Bits {
    /// Frames of `mean` bytes with FCS that fill this rate.
    #[must_use]
    pub fn frames(self, mean: f64) -> Pps {
        Pps(self.0 / (mean * 8.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 2544 appendix B, Ethernet at 10 Mb/s: whole frames per second for each size.
    const RFC2544_APPENDIX_B: [(f64, f64); 8] = [
        (64.0, 14880.0),
        (128.0, 8445.0),
        (256.0, 4528.0),
        (512.0, 2349.0),
        (768.0, 1586.0),
        (1024.0, 1197.0),
        (1280.0, 961.0),
        (1518.0, 812.0),
    ];

    #[test]
    fn line_rates_are_those_of_rfc_2544() {
        for (size, frames) in RFC2544_APPENDIX_B {
            assert!((L1Bits(10e6).frames(size).0.floor() - frames).abs() < f64::EPSILON, "{size}");
        }
    }

    #[test]
    fn shortest_frames_fill_ten_gigabit_at_14_88_million() {
        // 10^10 / ((64 + 20) * 8)
        assert!((Pps(14_880_952.38).l1(64.0).0 - 1e10).abs() < 10.0);
        assert!((Pps(14_880_952.38).l2(64.0).0 - 7.619e9).abs() < 1e6);
    }

    #[test]
    fn bit_rates_and_frame_rates_are_inverse() {
        assert!((L2Bits(Pps(1e6).l2(361.83).0).frames(361.83).0 - 1e6).abs() < 1e-3);
        assert!((L1Bits(Pps(1e6).l1(361.83).0).frames(361.83).0 - 1e6).abs() < 1e-3);
    }
}
