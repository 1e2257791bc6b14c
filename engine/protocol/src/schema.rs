//! JSON Schema of the protocol: the contract for other languages.

use crate::{Event, PROTOCOL, Reply, Request};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// Returns the JSON Schema of every line in both directions: `$defs/Request` for the lines that an agent reads,
/// `$defs/Reply` and `$defs/Event` for those that it writes. `others` adds the output of other commands.
#[must_use]
pub fn schema(others: impl FnOnce(&mut SchemaGenerator)) -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let request = generator.subschema_for::<Request>();
    let reply = generator.subschema_for::<Reply>();
    let event = generator.subschema_for::<Event>();
    others(&mut generator);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dutlab-engine protocol",
        "description": format!("Protocol {PROTOCOL}: one JSON object a line; requests to the agent, replies and events from it."),
        "anyOf": [request, reply, event],
        "$defs": generator.take_definitions(true),
    })
}
