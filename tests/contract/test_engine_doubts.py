"""The engine's own commands distrust what dutlab distrusts: the same doubts by the same names, of the same replies, with the same weight."""

import json
import re
from pathlib import Path

import pytest

from dutlab.doubts import DoubtKind, Grade
from dutlab.methods import ledger
from dutlab.methods.ports import Offer
from dutlab.spec.mixes import Mix
from dutlab.tools.engine.protocol import Received, Sent
from dutlab.tools.engine.report import doubts_of, flow_of, links_lost
from dutlab.tools.engine.typed import read
from dutlab.units import Pps, Seconds

ROOT = Path(__file__).parents[2]
SOURCE = (ROOT / "engine" / "protocol" / "src" / "doubt.rs").read_text()
TABLE = json.loads((ROOT / "tests" / "data" / "engine-doubts.json").read_text())
"""Replies and what is doubted of them; the tests of engine/agent/src/cli/verdict.rs give them to the engine's commands."""
OF_THE_ENGINE = {"held_back", "port_failed"}
"""A figure and an error in dutlab."""


def kinds():
    defs = json.loads((ROOT / "contracts" / "protocol.schema.json").read_text())["$defs"]
    return {one["const"] for one in defs["DoubtKind"]["oneOf"]}


def test_every_doubt_of_the_engine_is_one_of_dutlabs_with_the_same_weight():
    notes = re.search(r"matches!\(\s*self,(.*?)\)\s*}", SOURCE, re.DOTALL)
    noted = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in re.findall(r"Self::(\w+)", notes[1])}
    for kind in kinds() - OF_THE_ENGINE:
        assert (DoubtKind[kind.upper()].grade is Grade.NOTE) == (kind in noted), kind


def test_both_give_them_from_the_same_bounds_on():
    bounds = {name: float(value) for name, value in re.findall(r"pub const (\w+): f64 = ([\d.]+);", SOURCE)}
    assert bounds == {"DUPLICATES_SHARE": ledger.DUPLICATES_SHARE, "RATE_TOLERANCE": ledger.RATE_TOLERANCE}


def reply(kind, case, part):
    return read(kind, {**TABLE[part], **case.get(part, {}), "streams": [{**TABLE[f"{part}_stream"], **case.get(f"{part}_stream", {})}]})


@pytest.mark.parametrize("case", TABLE["cases"], ids=json.dumps)
def test_both_doubt_the_same_replies(case):
    sent, received = reply(Sent, case, "sent"), reply(Received, case, "received")
    parts = sent.streams[0], received.streams[0], received
    offer = Offer(links=("a",), mix=Mix.model_validate(64), rate=Pps(10_000.0), duration=Seconds(1.0))
    doubts = [*doubts_of("a", *parts), *ledger.doubts_of(offer, flow_of("a", *parts))]
    found = [d.kind.name.lower() for d in doubts] + ["link_went_down"] * bool(
        links_lost(sent, received)
    )  # of which the runner makes the doubt
    assert sorted(found) == [kind for kind in case["doubts"] if kind not in OF_THE_ENGINE]


def test_the_table_has_every_doubt_but_that_of_a_port_that_failed():
    assert {kind for case in TABLE["cases"] for kind in case["doubts"]} == kinds() - {"port_failed"}
