"""Systems and generators that dutlab never met are marked: in the plan, in each record and in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dutlab.choices import GENERATORS
from dutlab.cli.plan_text import plan_lines
from dutlab.plan.trials import make_plan
from dutlab.spec.experiment import Experiment
from dutlab.spec.loader import load_testbed
from dutlab.spec.model import FILE_CONTEXT
from dutlab.spec.untried import untried
from dutlab.systems import SYSTEMS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("bed", "generator", "words"),
    [
        ("vyos", "pkt-gen", ["family vyos", "generator pkt-gen"]),
        ("vpp", "engine", []),
        ("e302-9d", "engine", ["family pfsense"]),
        ("black-box", "trafgen", []),
    ],
)
def test_a_plan_names_what_was_never_tried(bed: str, generator: str, words: list[str]) -> None:
    testbed = load_testbed(ROOT / "examples" / "testbeds" / f"{bed}.yaml")
    sweep = {"frame_sizes": [64], "rates": ["1kpps"], "generator": generator}
    mode = "as-found" if bed == "black-box" else "router"
    raw = {"experiment": "x", "testbed": "bed.yaml", "factors": {"mode": [mode]}, "workloads": [{"sweep": sweep}]}
    plan = make_plan(Experiment.model_validate(raw, context=FILE_CONTEXT), testbed)
    assert list(untried(testbed, plan.generators)) == words
    assert any("untried: " in line for line in plan_lines(plan, testbed)) is bool(words)


def test_the_documentation_names_the_same_ones() -> None:
    page = (ROOT / "docs" / "reference" / "testbed-file.md").read_text()
    (listed,) = re.findall(r"> \*\*Untried\*\*: (.*?)\. ", page, re.DOTALL)
    assert set(re.findall(r"`([\w-]+)`", listed)) == {name for name, system in SYSTEMS.items() if system.untried}
    (generators,) = re.findall(r"The generators (.*?) were tried against stand-ins", (ROOT / "README.md").read_text())
    assert set(re.findall(r"`([\w-]+)`", generators)) == {name for name, plug in GENERATORS.items() if plug.untried}
