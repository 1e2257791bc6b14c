//! Varying fields in words: `FIELD=FROM..TO/STEP`, `FIELD=random:FROM..TO/seed=S`, `FIELD=A,B,C`; each may end with
//! `/every=N` and `/phase=N`.

use dutlab_protocol::plan::{Bits, FieldValue, RandomValues, StepValues, Values, VariedField, Vary};

/// Parses the value of `--vary`.
pub fn vary(text: &str) -> Result<Vary, String> {
    let (name, rest) = text.split_once('=').ok_or("write FIELD=VALUES, as in source-port=1024..2047")?;
    let mut parts = rest.split('/');
    let values = parts.next().unwrap_or_default();
    let (mut step, mut seed, mut phase, mut every) = (None, None, None, None);
    for part in parts {
        let (place, number) = match part.split_once('=') {
            None => (&mut step, part),
            Some(("seed", number)) => (&mut seed, number),
            Some(("phase", number)) => (&mut phase, number),
            Some(("every", number)) => (&mut every, number),
            Some((other, _)) => {
                return Err(format!("{other:?}: behind the values write a step, seed=, phase= or every="));
            }
        };
        let given = number.parse::<u64>().map_err(|_| format!("{number:?} is not a number, in {part:?}"))?;
        if place.replace(given).is_some() {
            return Err(format!("{part:?}: duplicate"));
        }
    }
    let values = series(values, step, seed)?;
    Ok(Vary { field: field(name)?, values, phase: phase.unwrap_or(0), every: every.unwrap_or(1) })
}

fn field(name: &str) -> Result<VariedField, String> {
    if let Some(place) = name.strip_prefix("bits@") {
        let bits = place.split_once('+').and_then(|(at, width)| {
            let (byte, bit) = at.split_once('.').unwrap_or((at, "0"));
            Some(Bits { byte: byte.parse().ok()?, bit: bit.parse().ok()?, width: width.parse().ok()? })
        });
        return bits
            .map(VariedField::Bits)
            .ok_or_else(|| format!("{name:?}: write bits@BYTE.BIT+WIDTH, as in bits@60.4+12"));
    }
    // The names are those of the protocol.
    serde_json::from_value(serde_json::Value::String(name.replace('-', "_"))).map_err(|_| {
        format!(
            "{name:?} is not a field; known: source-mac, destination-mac, vlan-id, vlan-priority, inner-vlan-id, \
             inner-vlan-priority, source-address, destination-address, dscp, ttl, identification, flow-label, source-port, \
             destination-port, bits@BYTE.BIT+WIDTH"
        )
    })
}

fn series(text: &str, step: Option<u64>, seed: Option<u64>) -> Result<Values, String> {
    let (random, range) = text.strip_prefix("random:").map_or((false, text), |range| (true, range));
    if seed.is_some() && !random {
        return Err("seed= belongs to random values".into());
    }
    let Some((from, to)) = range.split_once("..") else {
        return match (random, step) {
            (true, _) => Err(format!("{text:?}: write random:FROM..TO")),
            (false, Some(_)) => Err("a step belongs to a range, as in 0..255/5".into()),
            (false, None) => list(text),
        };
    };
    let (from, to) = (value(from)?, value(to)?);
    match (random, step) {
        (true, Some(_)) => Err("random values have no steps".into()),
        (true, None) => Ok(Values::Random(RandomValues { from, to, seed: seed.unwrap_or(0) })),
        (false, _) => Ok(Values::Step(StepValues { from, to, by: step.unwrap_or(1) })),
    }
}

fn list(text: &str) -> Result<Values, String> {
    text.split(',').map(value).collect::<Result<_, _>>().map(Values::List)
}

fn value(text: &str) -> Result<FieldValue, String> {
    if text.is_empty() {
        return Err("a value is missing".into());
    }
    Ok(text.parse().map_or_else(|_| FieldValue::Text(text.to_owned()), FieldValue::Number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn steps_random_values_and_lists_are_what_the_protocol_calls_them() {
        for (text, meant) in [
            (
                "source-port=1024..2047",
                json!({"field": "source_port", "values": {"step": {"from": 1024, "to": 2047, "by": 1}}}),
            ),
            ("vlan-id=100..1/3", json!({"field": "vlan_id", "values": {"step": {"from": 100, "to": 1, "by": 3}}})),
            ("ttl=64,128", json!({"field": "ttl", "values": {"list": [64, 128]}})),
            (
                "source-address=random:2001:db8::1..2001:db8::ff",
                json!({"field": "source_address", "values": {"random": {"from": "2001:db8::1", "to": "2001:db8::ff"}}}),
            ),
            (
                "dscp=random:0..63/seed=7/every=16",
                json!({"field": "dscp", "values": {"random": {"from": 0, "to": 63, "seed": 7}}, "every": 16}),
            ),
            (
                "source-port=1024..2047/2/phase=3/every=256",
                json!({"field": "source_port", "values": {"step": {"from": 1024, "to": 2047, "by": 2}}, "phase": 3, "every": 256}),
            ),
            ("ttl=64,128/every=2", json!({"field": "ttl", "values": {"list": [64, 128]}, "every": 2})),
            (
                "bits@60.4+12=0..0xfff",
                json!({"field": {"bits": {"byte": 60, "bit": 4, "width": 12}}, "values": {"step": {"from": 0, "to": "0xfff"}}}),
            ),
        ] {
            assert_eq!(vary(text), Ok(serde_json::from_value(meant).unwrap()), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_what_is_known() {
        assert!(vary("tos=1..2").unwrap_err().contains("known: source-mac"));
        assert!(vary("bits@x+1=1..2").unwrap_err().contains("bits@60.4+12"));
        assert!(vary("ttl=1../2").unwrap_err().contains("a value is missing"));
        assert!(vary("ttl=1..5/x").unwrap_err().contains("not a number"));
        assert!(vary("ttl=1..5/each=2").unwrap_err().contains("seed=, phase= or every="));
        assert!(vary("ttl=1..5/every=2/every=3").unwrap_err().contains("duplicate"));
        assert!(vary("ttl=1..5/seed=2").unwrap_err().contains("random values"));
        assert!(vary("ttl=random:1..5/2").unwrap_err().contains("no steps"));
        assert!(vary("ttl=1,5/2").unwrap_err().contains("belongs to a range"));
        assert!(vary("ttl").unwrap_err().contains("FIELD=VALUES"));
        assert!(vary("ttl=random:7").unwrap_err().contains("FROM..TO"));
    }
}
