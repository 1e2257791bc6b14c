//! Rates, from the controller's plan.

use dutlab_port as port;
use dutlab_port::speed::Speed;
use dutlab_protocol::plan::{self, Rate};
use dutlab_traffic::{Piece, Profile, Spaced};
use dutlab_units::{L1Bits, L2Bits, Nanos};

/// Relative error that bursts at a mean rate may have, because their period is in whole nanoseconds.
const RATE_ERROR: f64 = 0.001;

/// Converts a rate for frames of `mean` bytes with FCS; also returns the link's speed if the rate is a share of it.
pub fn lower_on(rate: &Rate, mean: f64, speed: &dyn Fn() -> Speed) -> Result<(Profile, Option<f64>), String> {
    let constant = |pps: f64| Ok((Profile::constant(positive(pps)?), None));
    match rate {
        Rate::Max(true) => Ok((Profile::Max, None)),
        Rate::Max(false) => Err("`max` is true or absent".into()),
        Rate::Pps(pps) => constant(*pps),
        Rate::BpsL1(bps) => constant(L1Bits(*bps).frames(mean).0),
        Rate::BpsL2(bps) => constant(L2Bits(*bps).frames(mean).0),
        Rate::Percent(p) => {
            let link = match (p.of_bps, speed) {
                (Some(bps), _) => bps,
                (None, speed) => match speed() {
                    Speed::Bps(bps) => bps,
                    Speed::Unknown(why) => {
                        return Err(format!("percent of a speed that is not known: {why}; give `of_bps`"));
                    }
                },
            };
            let pps = positive(L1Bits(link * p.percent / 100.0).frames(mean).0)?;
            Ok((Profile::constant(pps), Some(link)))
        }
        Rate::Profile(stretches) if stretches.is_empty() => Err("profile: give at least one stretch".into()),
        Rate::Profile(stretches) => {
            let pieces = stretches.iter().enumerate().map(|(i, s)| piece(s).map_err(|e| format!("profile[{i}].{e}")));
            Ok((Profile::Linear(pieces.collect::<Result<_, String>>()?), None))
        }
        Rate::Bursts(b) if b.frames == 0 || b.period_ns == 0 => {
            Err("bursts: frames and period_ns must be above 0".into())
        }
        Rate::Bursts(b) => Ok((Profile::Bursts { frames: b.frames, period: Nanos(b.period_ns) }, None)),
        Rate::BurstsAt(b) => Ok((bursts_at(*b)?, None)),
        Rate::MultiBurst(b) if b.frames == 0 || b.gap_ns == 0 => {
            Err("multi_burst: frames and gap_ns must be above 0".into())
        }
        Rate::MultiBurst(b) => {
            let pps = positive(b.pps).map_err(|e| format!("multi_burst: {e}"))?;
            Ok((Profile::Spaced(Spaced { frames: b.frames, pps, gap: Nanos(b.gap_ns) }), None))
        }
    }
}

fn piece(s: &plan::Stretch) -> Result<Piece, String> {
    if s.duration_ns == 0 {
        return Err("duration_ns: must be above 0".into());
    }
    let (from_pps, to_pps) = (not_negative(s.from_pps)?, not_negative(s.to_pps)?);
    Ok(Piece { from_pps, to_pps, span: Nanos(s.duration_ns) })
}

fn bursts_at(b: plan::BurstsAt) -> Result<Profile, String> {
    let pps = positive(b.pps)?;
    if b.frames == 0 {
        return Err("bursts_at.frames: must be above 0".into());
    }
    let exact = f64::from(b.frames) * 1e9 / pps;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates; checked right below")]
    let period = exact.round() as u64;
    if (exact - period as f64).abs() > exact * RATE_ERROR || period == 0 {
        return Err(format!(
            "bursts_at: {} frames at {pps} a second are {exact} ns apart, which whole nanoseconds miss; take longer bursts",
            b.frames
        ));
    }
    Ok(Profile::Bursts { frames: b.frames, period: Nanos(period) })
}

fn positive(pps: f64) -> Result<f64, String> {
    if pps > 0.0 && pps.is_finite() { Ok(pps) } else { Err(format!("{pps} frames per second: must be above 0")) }
}

fn not_negative(pps: f64) -> Result<f64, String> {
    if pps >= 0.0 && pps.is_finite() { Ok(pps) } else { Err(format!("{pps} frames per second: must not be below 0")) }
}

/// Converts a profile for a back end that paces the frames itself.
#[must_use]
pub fn pace(profile: &Profile) -> port::Pace {
    match profile {
        Profile::Max => port::Pace::Max,
        Profile::Bursts { frames, period } => port::Pace::Bursts { frames: *frames, period: *period },
        Profile::Spaced(bursts) => port::Pace::Spaced(*bursts),
        Profile::Linear(pieces) => port::Pace::Linear(
            pieces.iter().map(|p| port::plan::Piece { from_pps: p.from_pps, to_pps: p.to_pps, span: p.span }).collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pps(rate: &Rate, mean: f64, speed: &Speed) -> Result<f64, String> {
        match lower_on(rate, mean, &|| speed.clone())? {
            (Profile::Linear(pieces), _) => Ok(pieces[0].from_pps),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_unit_of_a_rate_means_the_same_frames() {
        let ten_gigabit = Speed::Bps(1e10);
        // 10^10 / ((64 + 20) * 8) frames a second fill 10 Gb/s (RFC 5180 appendix A).
        for rate in [
            Rate::Pps(14_880_952.380_952),
            Rate::BpsL1(1e10),
            Rate::BpsL2(1e10 * 64.0 / 84.0),
            Rate::Percent(plan::Percent { percent: 100.0, of_bps: None }),
        ] {
            assert!((pps(&rate, 64.0, &ten_gigabit).unwrap() - 14_880_952.380_952).abs() < 0.001, "{rate:?}");
        }
        let half = Rate::Percent(plan::Percent { percent: 50.0, of_bps: Some(1e9) });
        // The mean of the simple IMIX; 3,273,680 frames a second fill 10 Gb/s, so a twentieth half of 1 Gb/s.
        assert!((pps(&half, 4342.0 / 12.0, &ten_gigabit).unwrap() - 163_684.0).abs() < 0.1);
    }

    #[test]
    fn percent_of_a_speed_that_is_not_known_is_refused_with_the_reason_and_the_remedy() {
        let rate = Rate::Percent(plan::Percent { percent: 10.0, of_bps: None });
        let why = pps(&rate, 64.0, &Speed::Unknown("eth-a is of driver veth, which has no wire".into())).unwrap_err();
        assert!(why.contains("veth") && why.contains("of_bps"), "{why}");
    }

    #[test]
    fn a_stretch_without_time_or_with_a_negative_rate_is_refused_by_its_place() {
        let of = |from_pps, to_pps, duration_ns| plan::Stretch { from_pps, to_pps, duration_ns };
        let lower = |all: &[plan::Stretch]| pps(&Rate::Profile(all.to_vec()), 64.0, &Speed::Bps(1e9));
        assert_eq!(lower(&[of(5.0, 5.0, 1), of(5.0, 0.0, 1)]), Ok(5.0));
        assert_eq!(lower(&[]).unwrap_err(), "profile: give at least one stretch");
        assert_eq!(lower(&[of(5.0, 5.0, 1), of(5.0, 0.0, 0)]).unwrap_err(), "profile[1].duration_ns: must be above 0");
        assert!(lower(&[of(-5.0, 5.0, 1)]).unwrap_err().starts_with("profile[0].-5 frames per second"));
    }

    #[test]
    fn bursts_at_a_mean_rate_have_the_period_that_gives_it_or_are_refused() {
        let nobody = || Speed::Unknown("it was not asked for".into());
        let bursts = |frames, pps| {
            lower_on(&Rate::BurstsAt(plan::BurstsAt { frames, pps }), 64.0, &nobody).map(|(profile, _)| profile)
        };
        // RFC 2544 section 21: 16 frames, here at 1 Mpps, every 16 us.
        assert_eq!(bursts(16, 1e6), Ok(Profile::Bursts { frames: 16, period: Nanos(16_000) }));
        assert!(bursts(1, 7e8).unwrap_err().contains("longer bursts"), "1.43 ns apart");
        assert!(bursts(0, 1.0).is_err() && bursts(1, 0.0).is_err());
    }
}
