//! Fields that vary, in words: `FIELD=FROM..TO/STEP`, `FIELD=random:FROM..TO`, `FIELD=A,B,C`.

use dutlab_protocol::plan::{Bits, FieldValue, RandomValues, StepValues, Values, VariedField, Vary};

/// Reads what follows `--vary`.
pub fn vary(text: &str) -> Result<Vary, String> {
    let (name, values) = text.split_once('=').ok_or("write FIELD=VALUES, as in source-port=1024..2047")?;
    Ok(Vary { field: field(name)?, values: series(values)?, phase: 0, every: 1 })
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

fn series(text: &str) -> Result<Values, String> {
    let (random, range) = text.strip_prefix("random:").map_or((false, text), |range| (true, range));
    let Some((from, rest)) = range.split_once("..") else {
        return if random { Err(format!("{text:?}: write random:FROM..TO")) } else { list(text) };
    };
    if random {
        return Ok(Values::Random(RandomValues { from: value(from)?, to: value(rest)?, seed: 0 }));
    }
    let (to, by) = rest.split_once('/').unwrap_or((rest, "1"));
    let by = by.parse().map_err(|_| format!("{by:?} is not a step"))?;
    Ok(Values::Step(StepValues { from: value(from)?, to: value(to)?, by }))
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
        assert!(vary("ttl=1..5/x").unwrap_err().contains("not a step"));
        assert!(vary("ttl").unwrap_err().contains("FIELD=VALUES"));
        assert!(vary("ttl=random:7").unwrap_err().contains("FROM..TO"));
    }
}
