//! Quantities as people write them on the command line, and as they are shown.

use dutlab_protocol::plan::{Genome, Sizes, Swept, WeightedSize};
use dutlab_tcp::message::LONGEST_BODY;
use dutlab_tcp::objects::Object;
use dutlab_tcp::tls::Version;
use dutlab_traffic::NamedMix;
use dutlab_traffic::mixes::MIXES;
use dutlab_units::Nanos;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Splits a text into a number and the unit behind it.
pub fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim()))
}

/// Returns the factor of the decimal prefix in front of `unit`.
pub fn scale(text: &str, unit: &str) -> Option<f64> {
    match text.strip_suffix(unit)? {
        "" => Some(1.0),
        "k" => Some(1e3),
        "M" => Some(1e6),
        "G" => Some(1e9),
        "T" => Some(1e12),
        _ => None,
    }
}

/// Parses `10G`, `2.5Gbit/s`: the speed of a link, in bits per second on the wire.
pub fn speed(text: &str) -> Result<f64, String> {
    let of = |(n, unit): (f64, &str)| ["bit/s", ""].iter().find_map(|u| scale(unit, u)).map(|by| n * by);
    let asked = split(text).and_then(of).filter(|n| *n >= 1e3);
    asked.ok_or_else(|| format!("{text:?} is not a link speed; write 10G or 2.5Gbit/s"))
}

/// Parses `20000-20015`, or one port.
pub fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(first..=last),
        _ => Err("not ports; write 20000-20015, the lower first".to_owned()),
    }
}

/// Sizes of the bodies of responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objects(pub Vec<Object>);

/// Parses `1024`, or several sizes by weight: `1024:60,102400:40`.
pub fn objects(text: &str) -> Result<Objects, String> {
    let object = |part: &str| {
        let (bytes, weight) = part.split_once(':').unwrap_or((part, "1"));
        let object = Object { bytes: bytes.parse().ok()?, weight: weight.parse().ok()? };
        (object.bytes <= LONGEST_BODY && (1..=10_000).contains(&object.weight)).then_some(object)
    };
    let all = text.split(',').map(object).collect::<Option<_>>().map(Objects);
    all.ok_or_else(|| {
        format!("{text:?} are not bodies; write bytes, at most {LONGEST_BODY}, or weights as in 1024:60,102400:40")
    })
}

/// Parses versions of TLS: `any`, `1.2`, `1.3`.
pub fn tls(text: &str) -> Result<Version, String> {
    match text {
        "any" => Ok(Version::Any),
        "1.2" => Ok(Version::Tls12),
        "1.3" => Ok(Version::Tls13),
        _ => Err("not a version of TLS; write 1.2, 1.3 or any".to_owned()),
    }
}

/// Parses a rate per second above 0.
pub fn per_second(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|n: &f64| n.is_finite() && *n > 0.0)
        .ok_or_else(|| "not a rate; write a number above 0, as in 5000".to_owned())
}

/// Parses a duration: `500ms`, `10s`, `2min`.
pub fn duration(text: &str) -> Result<Nanos, String> {
    let bad = || format!("{text:?} is not a duration; write a number and one of us, ms, s, min, h, as in 10s");
    let (n, unit) = split(text).ok_or_else(bad)?;
    let ns = match unit {
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        "h" => 3600e9,
        _ => return Err(bad()),
    };
    let ns = n * ns;
    // A week: a longer time is probably a mistake.
    if !(1.0..=604_800e9).contains(&ns) {
        return Err(format!("{text:?}: from 1 ns to a week are possible"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok(Nanos(ns as u64))
}

/// Parses frame sizes in bytes with FCS: `64`, `64,594,1518` (in this order), `64:7,594:4` (by weight), `64..1518/2`
/// (one of each, in steps), a mix by name, an IMIX genome (RFC 6985).
pub fn sizes(text: &str) -> Result<Sizes, String> {
    if NamedMix::find(text).is_ok() {
        return Ok(Sizes::Mix(text.to_owned()));
    }
    // The letters of RFC 6985 that have a size, and how often. A single letter is more likely a mistake, as in 64b.
    let letters = text.bytes().filter(|b| (b'a'..=b'i').contains(b)).count();
    if letters > 1 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'i').contains(&b)) {
        return Ok(Sizes::Genome(Genome { letters: text.to_owned(), table: BTreeMap::new() }));
    }
    let bad = |part: &str| {
        let names: Vec<_> = MIXES.iter().map(|m| m.name).collect();
        format!(
            "{part:?} is not a frame size; write bytes with FCS as in 64, an order as in 64,594, weights as in 64:7,594:4, a \
             sweep as in 64..1518/2, a genome as in aaafg, or one of {}",
            names.join(", ")
        )
    };
    let number = |part: &str| part.trim().parse::<u32>().map_err(|_| bad(part));
    if let Some((from, to)) = text.split_once("..") {
        let (to, step) = to.split_once('/').unwrap_or((to, "1"));
        return Ok(Sizes::SweptBytes(Swept { from: number(from)?, to: number(to)?, step: number(step)? }));
    }
    let parts: Vec<_> = text.split(',').collect();
    if parts.iter().any(|p| p.contains(':')) {
        let part = |p: &&str| {
            let (bytes, weight) = p.split_once(':').ok_or_else(|| bad(p))?;
            Ok(WeightedSize { bytes: number(bytes)?, weight: number(weight)? })
        };
        return parts.iter().map(part).collect::<Result<_, String>>().map(Sizes::Weighted);
    }
    match parts.as_slice() {
        [one] => number(one).map(Sizes::FixedBytes),
        many => many.iter().map(|p| number(p)).collect::<Result<_, _>>().map(Sizes::SequenceBytes),
    }
}

/// Parses numbers of streams: `1`, `1-8`, `1,5,9-12`.
pub fn streams(text: &str) -> Result<Vec<u16>, String> {
    let bad = || format!("{text:?} are not stream numbers; write 1, 1-8 or 1,5,9-12");
    let number = |t: &str| t.trim().parse::<u16>().map_err(|_| bad());
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last || u32::from(last - first) >= 4096 {
            return Err(format!("{part:?}: from the lower to the higher, 4096 at most"));
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Parses a share in percent, such as `0.1%`, as a ratio.
pub fn percent(text: &str) -> Result<f64, String> {
    match split(text) {
        Some((n, "%")) if (0.0..=100.0).contains(&n) => Ok(n / 100.0),
        _ => Err(format!("{text:?} is not a share; write 0% to 100%")),
    }
}

/// Returns true if the address has the family of `like`.
pub const fn same_family(a: IpAddr, like: IpAddr) -> bool {
    a.is_ipv4() == like.is_ipv4()
}

/// Formats a number with three digits and the decimal prefix that keeps it readable.
#[must_use]
pub fn si(value: f64, unit: &str) -> String {
    let prefixes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    // A value that would be shown as 1000 gets the next prefix.
    let (by, prefix) = prefixes.into_iter().find(|(by, _)| value.abs() >= by * 0.9995).unwrap_or((1.0, ""));
    let n = value / by;
    let decimals =
        if prefix.is_empty() && n.fract() == 0.0 || n.abs() >= 99.95 { 0 } else { usize::from(n.abs() < 9.995) + 1 };
    format!("{n:.decimals$} {prefix}{unit}")
}

/// Formats a span with three digits.
#[must_use]
pub fn span(ns: f64) -> String {
    if ns < 999.5 {
        format!("{ns:.0} ns")
    } else if ns < 999_500.0 {
        si(ns / 1e3, "µs")
    } else if ns < 999_500_000.0 {
        si(ns / 1e6, "ms")
    } else {
        si(ns / 1e9, "s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("1.5s"), Ok(Nanos(1_500_000_000)));
        assert_eq!(duration("2min"), Ok(Nanos(120_000_000_000)));
        for bad in ["10", "s", "0s", "9d", "1e9s", "1000h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_one_or_an_order_or_a_mix() {
        assert_eq!(sizes("64"), Ok(Sizes::FixedBytes(64)));
        assert_eq!(sizes("64,1518"), Ok(Sizes::SequenceBytes(vec![64, 1518])));
        let two = vec![WeightedSize { bytes: 64, weight: 7 }, WeightedSize { bytes: 594, weight: 4 }];
        assert_eq!(sizes("64:7,594:4"), Ok(Sizes::Weighted(two)));
        assert_eq!(sizes("64..1518/2"), Ok(Sizes::SweptBytes(Swept { from: 64, to: 1518, step: 2 })));
        assert_eq!(sizes("64..66"), Ok(Sizes::SweptBytes(Swept { from: 64, to: 66, step: 1 })));
        assert_eq!(sizes("imix"), Ok(Sizes::Mix("imix".into())));
        assert!(matches!(sizes("aaafg"), Ok(Sizes::Genome(g)) if g.letters == "aaafg"));
        assert!(matches!(sizes("40a20fg"), Ok(Sizes::Genome(_))));
        for bad in ["", "x", "64b", "64:", "64,x", "64:7,594", "jmix", "64..", "64../2", "64..70/x"] {
            assert!(sizes(bad).unwrap_err().contains("imix"), "{bad}");
        }
    }

    #[test]
    fn bodies_are_one_or_several_by_weight() {
        assert_eq!(objects("0"), Ok(Objects(vec![Object { bytes: 0, weight: 1 }])));
        let two = [(1024, 60), (102_400, 40)].map(|(bytes, weight)| Object { bytes, weight });
        assert_eq!(objects("1024:60,102400:40"), Ok(Objects(two.to_vec())));
        for bad in ["", "x", "1:0", "1:10001", "1,", "67108865"] {
            assert!(objects(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn stream_numbers_are_lists_and_ranges() {
        assert_eq!(streams("3,1-2,2"), Ok(vec![1, 2, 3]));
        for bad in ["", "2-1", "0-65535", "70000", "a"] {
            assert!(streams(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_shown_with_three_digits() {
        assert_eq!(si(1_488_095.0, "pps"), "1.49 Mpps");
        assert_eq!(si(999_990.0, "pps"), "1.00 Mpps");
        assert_eq!((si(2.0, "frames"), si(12_345.0, "pps")), ("2 frames".into(), "12.3 kpps".into()));
        assert_eq!(
            (span(812.0), span(8_110.0), span(20_500_000.0)),
            ("812 ns".into(), "8.11 µs".into(), "20.5 ms".into())
        );
        assert_eq!((span(999_700.0), span(2e9)), ("1.00 ms".into(), "2 s".into()));
    }
}
