"""JSON Schemas of the files that users write: every file of the examples fits, and what an editor should mark does not."""

import json
from pathlib import Path

import jsonschema
import pytest

from dutlab.choices import FILE_MODELS
from dutlab.spec.file_schema import file_schema
from dutlab.spec.yaml_source import parse

ROOT = Path(__file__).parents[2]
SCHEMAS = {kind: jsonschema.Draft202012Validator(file_schema(kind)) for kind in FILE_MODELS}


def kind_of(data):
    """Which kind of file it is, by its first key; None for a file of another program."""
    return next((kind for kind in FILE_MODELS if isinstance(data, dict) and kind == next(iter(data), None)), None)


def test_every_file_of_the_examples_fits():
    seen = []
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        data = parse(path.read_bytes(), path.name).data
        if kind := kind_of(data):
            seen.append(kind)
            assert [f"{path}: {e.json_path}: {e.message}" for e in SCHEMAS[kind].iter_errors(json.loads(json.dumps(data)))] == []
    assert set(seen) >= {"testbed", "experiment"}


EXPERIMENT = {"experiment": "e", "testbed": {"lab": "three-node"}, "factors": {"mode": ["router"]}, "workloads": [{"sweep": None}]}
HOST = {"ssh": "root@192.0.2.1", "family": "linux"}


@pytest.mark.parametrize(
    ("kind", "change", "fits"),
    [
        ("experiment", {}, True),
        ("experiment", {"workloads": [{"sweep": {"frame_sizes": "rfc2544", "rates": ["max", "80%"], "generator": "trafgen"}}]}, True),
        ("experiment", {"workloads": [{"sweep": {"frame_sizes": [64, "imix", {"name": "web", "parts": {"64": 7, "1518": 5}}]}}]}, True),
        ("experiment", {"workloads": [{"sweep": {"generator": {"trafgen": {"streams": 2}}}}], "profile": "yes"}, True),
        ("experiment", {"repeats": {"until": "2%", "most": 12}, "exclude": [{"mode": "router"}]}, True),
        ("experiment", {"repeat": 3}, False),
        ("experiment", {"order": "random"}, False),
        ("experiment", {"workloads": [{"swep": {}}]}, False),
        ("experiment", {"workloads": [{"sweep": {"duration": 30}}]}, False),
        ("experiment", {"workloads": [{"sweep": {}, "soak": {}}]}, False),
        ("experiment", {"testbed": None}, False),
        ("testbed", {}, True),
        ("testbed", {"sensors": {"psu": {"kind": "command", "host": "a", "command": "x", "unit": "W"}}}, True),
        ("testbed", {"sensors": {"psu": {"kind": "magic"}}}, False),
        ("testbed", {"hosts": {"a": {**HOST, "name": "b"}}}, False),
        ("testbed", {"hosts": {"a": {**HOST, "power": {"kind": "plug", "model": "shelly", "url": "http://192.0.2.9"}}}}, True),
        ("campaign", {"hours": "22:00-06:00", "fleet": "local", "versions": {"new": [{"apply": ["x"], "restore": ["y"]}]}}, True),
        ("campaign", {"experiments": []}, False),
    ],
)
def test_what_an_editor_marks(kind, change, fits):
    whole = {
        "experiment": EXPERIMENT,
        "testbed": {"testbed": "t", "hosts": {"a": HOST}},
        "campaign": {"campaign": "c", "experiments": ["e.yaml"]},
    }
    assert SCHEMAS[kind].is_valid({**whole[kind], **change}) == fits


def test_keys_have_words_and_defaults():
    schema = file_schema("experiment")
    repeats = schema["properties"]["repeats"]
    assert (repeats["default"], "95 %" in repeats["description"]) == (6, True)
    assert schema["$defs"]["SweepWorkload"]["anyOf"][-1]["properties"]["duration"]["default"].endswith("s")


@pytest.mark.parametrize("kind", FILE_MODELS)
def test_the_contract_is_what_the_models_say(kind):
    assert json.loads((ROOT / "contracts" / f"{kind}.schema.json").read_text()) == file_schema(kind)


@pytest.mark.parametrize("kind", list(FILE_MODELS))
def test_every_truth_value_may_be_yes_or_no(kind):
    def bare(node, at):
        """Paths of values that are true or false only."""
        if isinstance(node, dict):
            takes_words = any(part.get("type") == "string" or "yes" in part.get("enum", ()) for part in node.get("anyOf", ()))
            for name, part in node.items():
                if name == "properties":
                    yield from (found for key, of in part.items() for found in bare(of, f"{at}.{key}"))
                elif name != "anyOf" or not takes_words:
                    yield from bare(part, at)
            if node.get("type") == "boolean":
                yield at
        elif isinstance(node, list):
            for part in node:
                yield from bare(part, at)

    assert set(bare(file_schema(kind), "")) == set()
