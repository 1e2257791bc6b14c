//! Rates as people write them on the command line.

use super::exit::Refused;
use super::quantity::{duration, scale, split};
use dutlab_protocol::plan::{BurstsAt, Percent, Rate, ReplayTiming, Stretch};

/// A requested rate, of all streams together.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// As fast as the port takes frames.
    Max,
    /// Frames per second.
    Pps(f64),
    /// Bits per second with preamble and gap.
    BpsL1(f64),
    /// Bits per second of frames with FCS.
    BpsL2(f64),
    /// Share of the link's speed on the wire, from 0 to 1.
    Share(f64),
    /// A rate over time.
    Profile(Vec<Stretch>),
}

impl Asked {
    /// Returns the rate of each of `streams`, as the protocol has it. `speed` is the link's, if given; `burst` is the
    /// number of frames in a burst.
    pub fn of_each(&self, streams: u16, speed: Option<f64>, burst: Option<u32>) -> Result<Rate, Refused> {
        let parts = f64::from(streams);
        match (self, burst) {
            (Self::Pps(pps), Some(frames)) => Ok(Rate::BurstsAt(BurstsAt { frames, pps: pps / parts })),
            (_, Some(_)) => {
                Err(Refused::input("--burst needs a rate in frames per second", "write --rate as in 100kpps"))
            }
            (Self::Max, None) => Ok(Rate::Max(true)),
            (Self::Pps(pps), None) => Ok(Rate::Pps(pps / parts)),
            (Self::BpsL1(bps), None) => Ok(Rate::BpsL1(bps / parts)),
            (Self::BpsL2(bps), None) => Ok(Rate::BpsL2(bps / parts)),
            (Self::Share(share), None) => Ok(Rate::Percent(Percent { percent: share * 100.0 / parts, of_bps: speed })),
            (Self::Profile(stretches), None) => {
                let part = |s: &Stretch| Stretch { from_pps: s.from_pps / parts, to_pps: s.to_pps / parts, ..*s };
                Ok(Rate::Profile(stretches.iter().map(part).collect()))
            }
        }
    }

    /// Returns the duration of a rate over time.
    pub fn span_ns(&self) -> Option<u64> {
        match self {
            Self::Profile(stretches) => Some(stretches.iter().map(|s| s.duration_ns).sum()),
            _ => None,
        }
    }
}

/// Parses a rate: `100kpps`, `1Gbit/s-l1`, `1Gbit/s-l2`, `50%`, `max`, or, over time, `100kpps:2s,100kpps..1Mpps:10s`.
pub fn rate(text: &str) -> Result<Asked, String> {
    let bad = || {
        format!(
            "{text:?} is not a rate; write 100kpps, 1Gbit/s-l1 (with preamble and gap), 1Gbit/s-l2 (without), 50% or max; over time \
             100kpps:2s,100kpps..1Mpps:10s"
        )
    };
    if text == "max" {
        return Ok(Asked::Max);
    }
    if text.contains(':') {
        return text.split(',').map(stretch).collect::<Result<_, _>>().map(Asked::Profile);
    }
    let (n, unit) = split(text).ok_or_else(bad)?;
    if !(n > 0.0 && n.is_finite()) {
        return Err(format!("{text:?}: a rate is above 0"));
    }
    if unit == "%" {
        return if n <= 100.0 {
            Ok(Asked::Share(n / 100.0))
        } else {
            Err(format!("{text:?}: 100% is all that a link carries"))
        };
    }
    if let Some(by) = scale(unit, "pps") {
        return Ok(Asked::Pps(n * by));
    }
    let (bits, layer) = match unit.rsplit_once(['-', '_', ' ']) {
        Some((bits, layer)) => (bits.trim(), layer),
        None => (unit, ""),
    };
    let Some(by) = ["bit/s", "b/s", "bps"].iter().find_map(|u| scale(bits, u)) else { return Err(bad()) };
    match layer {
        "l1" | "L1" => Ok(Asked::BpsL1(n * by)),
        "l2" | "L2" => Ok(Asked::BpsL2(n * by)),
        "" => Err(format!(
            "{text:?} does not say its layer: write {text}-l1 (with preamble and gap) or {text}-l2 (frames with FCS)"
        )),
        _ => Err(bad()),
    }
}

/// Parses a speed: `2`, `0.5` are factors of the captured speed; `max` is as fast as possible.
pub fn replay(text: &str) -> Result<ReplayTiming, String> {
    match (text, text.parse::<f64>()) {
        ("max", _) => Ok(ReplayTiming::Max(true)),
        (_, Ok(times)) if times > 0.0 && times.is_finite() => Ok(ReplayTiming::Speed(times)),
        _ => Err(format!("{text:?} is not a speed of a replay; write 2 for twice as fast, 0.5, or max")),
    }
}

/// Parses a stretch: `100kpps:2s` is constant, `0pps..1Mpps:10s` changes linearly.
fn stretch(text: &str) -> Result<Stretch, String> {
    let bad = || format!("{text:?} is not a part of a rate over time; write 100kpps:2s, or 0pps..1Mpps:10s");
    let (rates, time) = text.rsplit_once(':').ok_or_else(bad)?;
    let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
    let pps = |text: &str| {
        let (n, unit) = split(text).ok_or_else(bad)?;
        scale(unit, "pps").map(|by| n * by).filter(|n| n.is_finite()).ok_or_else(bad)
    };
    Ok(Stretch { from_pps: pps(from)?, to_pps: pps(to)?, duration_ns: duration(time)?.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_unit_and_bit_rates_a_layer() {
        assert_eq!(rate("100kpps"), Ok(Asked::Pps(1e5)));
        assert_eq!(rate("1.5Gbit/s-l1"), Ok(Asked::BpsL1(1.5e9)));
        assert_eq!(rate("100 Mbit/s l2"), Ok(Asked::BpsL2(1e8)));
        assert_eq!(rate("50%"), Ok(Asked::Share(0.5)));
        assert_eq!(rate("max"), Ok(Asked::Max));
        assert!(rate("1Gbit/s").unwrap_err().contains("1Gbit/s-l1"));
        for bad in
            ["", "100", "pps", "-1pps", "0pps", "101%", "1Gbit", "1Gbit/s-l3", "1e3pps", "1Xpps", "ümax", "1µpps"]
        {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rate_over_time_is_steps_and_ramps_of_frames_per_second() {
        let stretch = |from_pps, to_pps, duration_ns| Stretch { from_pps, to_pps, duration_ns };
        let asked = rate("0pps:500ms,0pps..1Mpps:10s,1Mpps:2s").unwrap();
        let stretches =
            vec![stretch(0.0, 0.0, 500_000_000), stretch(0.0, 1e6, 10_000_000_000), stretch(1e6, 1e6, 2_000_000_000)];
        assert_eq!(asked, Asked::Profile(stretches));
        assert_eq!(asked.span_ns(), Some(12_500_000_000));
        let Ok(Rate::Profile(half)) = asked.of_each(2, None, None) else { panic!() };
        assert_eq!(half[1], stretch(0.0, 5e5, 10_000_000_000));
        for bad in ["1kpps:", ":1s", "1kpps:1s,", "1kpps..:1s", "50%:1s", "1Gbit/s-l1:1s", "1kpps:1", "-1pps:1s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_capture_is_sent_faster_slower_or_at_once() {
        assert_eq!((replay("2.5"), replay("max")), (Ok(ReplayTiming::Speed(2.5)), Ok(ReplayTiming::Max(true))));
        assert!(["", "0", "-1", "inf", "NaN", "fast"].into_iter().all(|bad| replay(bad).is_err()));
    }

    #[test]
    fn bursts_have_a_mean_rate_in_frames_per_second() {
        let burst = |asked: Asked| asked.of_each(2, None, Some(16));
        assert!(matches!(burst(Asked::Pps(1e6)), Ok(Rate::BurstsAt(b)) if b == BurstsAt { frames: 16, pps: 5e5 }));
        assert!(burst(Asked::Max).is_err() && burst(Asked::Share(0.5)).is_err());
    }
}
