//! Tests that the published contract is the one made from these types.

use dutlab_protocol::{Request, schema};

#[test]
fn the_published_schema_is_the_one_made_from_the_types() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contracts/protocol.schema.json");
    let published: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for (name, made) in schema(|_| {})["$defs"].as_object().unwrap() {
        assert!(published["$defs"][name] == *made, "{name}: run dutlab-engine schema > contracts/protocol.schema.json");
    }
}

#[test]
fn an_unknown_key_is_refused_with_its_name_and_the_request_number() {
    for line in [
        r#"{"id":7,"op":"wait","port":"a","timeout":3}"#,
        r#"{"id":7,"op":"hello","timeout":3}"#,
        r#"{"id":7,"op":"open","port":"a","guard":{"timeout":1}}"#,
    ] {
        let bad = Request::parse(line).unwrap_err();
        assert_eq!(bad.id, Some(7), "{line}");
        assert!(bad.what.contains("timeout"), "{line}: {}", bad.what);
    }
}

#[test]
fn an_unknown_operation_is_refused_with_the_known_ones() {
    let bad = Request::parse(r#"{"id":1,"op":"explode"}"#).unwrap_err();
    assert!(bad.what.contains("explode") && bad.what.contains("settle"), "{}", bad.what);
}

#[test]
fn what_is_no_object_or_has_no_number_is_refused_without_one() {
    for line in ["", "null", "[1]", "{", r#"{"op":"hello"}"#, r#"{"id":-1,"op":"hello"}"#, r#"{"id":"1","op":"hello"}"#]
    {
        assert_eq!(Request::parse(line).unwrap_err().id, None, "{line}");
    }
}

#[test]
fn every_line_of_the_reference_page_is_read_and_written_back_unchanged() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/engine-protocol.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut seen = 0;
    for line in page.lines() {
        if let Some(request) = line.strip_prefix("→ ") {
            let parsed = Request::parse(request).unwrap_or_else(|e| panic!("{}: {request}", e.what));
            let again = Request::parse(&serde_json::to_string(&parsed).unwrap()).unwrap();
            assert_eq!(parsed, again);
            seen += 1;
        } else if let Some(from_agent) = line.strip_prefix("← ") {
            let value: serde_json::Value = serde_json::from_str(from_agent).unwrap();
            let again = if value.get("event").is_some() {
                serde_json::to_value(serde_json::from_value::<dutlab_protocol::Event>(value.clone()).unwrap())
            } else {
                serde_json::to_value(serde_json::from_value::<dutlab_protocol::Reply>(value.clone()).unwrap())
            };
            assert_eq!(again.unwrap(), value, "{from_agent}");
            seen += 1;
        }
    }
    assert!(seen >= 12, "the page shows {seen} lines only");
}
