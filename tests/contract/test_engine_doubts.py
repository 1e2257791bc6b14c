"""The engine's own commands distrust what dutlab distrusts: the same doubts by the same names, from the same bounds on."""

import json
import re
from pathlib import Path

from dutlab.doubts import DoubtKind, Grade
from dutlab.methods.ledger import DUPLICATES_SHARE, RATE_TOLERANCE

ROOT = Path(__file__).parents[2]
SOURCE = (ROOT / "engine" / "protocol" / "src" / "doubt.rs").read_text()
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
    assert bounds == {"DUPLICATES_SHARE": DUPLICATES_SHARE, "RATE_TOLERANCE": RATE_TOLERANCE}
