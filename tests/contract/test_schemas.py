"""The contracts of both languages: the files in contracts/ are what the code says, and what really goes over the wire fits them."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema

from dutlab.store.record import record_schema
from dutlab.tools.engine.engine import find_engine
from processes import LIMIT_S

ROOT = Path(__file__).parents[2]
CONTRACTS = ROOT / "contracts"


def talk(*requests):
    """The agent's replies to requests, in a process of its own that ends with its input."""
    asked = "".join(json.dumps({"id": i, **request}) + "\n" for i, request in enumerate(requests, start=1))
    done = subprocess.run([find_engine(), "agent"], input=asked, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def schema_of(name):
    """The schema of one kind of message, with the definitions that it refers to."""
    whole = json.loads((CONTRACTS / "protocol.schema.json").read_text())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": f"#/$defs/{name}", "$defs": whole["$defs"]}


def test_the_record_s_contract_is_what_the_code_says():
    assert json.loads((CONTRACTS / "record.schema.json").read_text()) == record_schema()


def test_the_protocol_s_contract_is_what_the_binary_says():
    printed = subprocess.run([find_engine(), "schema"], capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout
    assert json.loads((CONTRACTS / "protocol.schema.json").read_text()) == json.loads(printed)


def test_the_types_of_what_the_engine_says_are_those_of_its_contract():
    printed = subprocess.run(
        [sys.executable, ROOT / "scripts" / "protocol"], capture_output=True, text=True, check=True, timeout=LIMIT_S
    ).stdout
    assert (ROOT / "src" / "dutlab" / "tools" / "engine" / "protocol.py").read_text() == printed


def test_both_contracts_are_valid_schemas():
    for path in CONTRACTS.glob("*.schema.json"):
        jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


def test_replies_of_a_real_agent_fit_the_contract():
    replies = talk({"op": "hello"}, {"op": "open", "port": "x", "iface": "no-such-port"}, {"op": "wait", "port": "never-opened"})
    assert [("ok" in r, "err" in r) for r in replies] == [(True, False), (False, True), (False, True)]
    for reply in replies:
        jsonschema.validate(reply, schema_of("Reply"))


def test_a_request_with_an_unknown_key_is_refused():
    (reply,) = talk({"op": "hello", "colour": "blue"})
    assert "colour" in reply["err"]["message"]
