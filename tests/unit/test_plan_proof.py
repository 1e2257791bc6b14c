"""What a plan says that it can prove: the rule of the verdicts, before anything is measured."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dutlab import labs
from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Pair
from dutlab.analysis.verdict import Verdict
from dutlab.plan.plan import Plan
from dutlab.plan.proof import Proof, proof_of, proof_words
from dutlab.plan.trials import make_plan
from dutlab.spec.loader import load_experiment, read_experiment
from dutlab.spec.loader import testbed_of as bed_of
from golden import Golden

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXT = """\
experiment: proof
testbed: {{lab: three-node}}
factors: {{mode: [{modes}]}}
workloads:
  - sweep: {{frame_sizes: [64, 512, 1518], duration: 1s, links: [[a]]}}
{repeats}
"""


def planned(tmp_path: Path, modes: str = "router, nat", repeats: str = "") -> Plan:
    path = tmp_path / "e.yaml"
    path.write_text(TEXT.format(modes=modes, repeats=repeats))
    return make_plan(load_experiment(path), labs.description("three-node").testbed, seed=1)


def test_two_repeats_prove_nothing_and_the_plan_says_so(tmp_path: Path, golden: Golden) -> None:
    plan = planned(tmp_path, repeats="repeats: 2")
    assert proof_of(plan) == Proof(2, 3, None, None)
    golden.check("plan-proof.txt", "\n".join(map(proof_words, (plan, planned(tmp_path), planned(tmp_path, modes="router")))) + "\n")


def test_the_default_proves_differences_and_the_plan_says_from_what_on(tmp_path: Path) -> None:
    found = proof_of(planned(tmp_path))
    assert (found.repeats, found.comparisons) == (6, 3)
    assert found.least is not None and 0.02 < found.least < 0.06
    assert f"{found.least * 100:.2g} %" in proof_words(planned(tmp_path))


@pytest.mark.parametrize("repeats", [3, 4, 6])
def test_what_it_says_is_what_the_verdicts_do(tmp_path: Path, repeats: int) -> None:
    least, dice, proven = proof_of(planned(tmp_path, repeats=f"repeats: {repeats}")).least, random.Random(20261122), 0
    assert least is not None
    for _ in range(200):
        sides = [tuple(level * dice.gauss(1, 0.01) for _ in range(repeats)) for level in (100, 100 * (1 + least))]
        others = [[tuple(dice.gauss(100, 1) for _ in range(repeats)) for _ in range(2)] for _ in range(2)]
        same = [Pair(name, "received_pps", *of) for name, of in zip("ab", others, strict=True)]
        proven += compare([Pair("cell", "received_pps", *sides), *same])[0].verdict is Verdict.BETTER
    assert proven / 200 == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize(
    ("name", "cell", "together"),
    [
        ("firewall-modes/experiment", True, True),
        ("firewall-modes/demo", True, True),
        ("latency/experiment", True, True),
        ("ndr-pdr/experiment", True, True),
    ],
)
def test_the_examples_that_compare_modes_can_prove_something(name: str, cell: bool, together: bool) -> None:
    given = read_experiment(EXAMPLES / f"{name}.yaml")
    found = proof_of(make_plan(given.experiment, bed_of(given)))
    assert (found.least is not None, found.together is not None) == (cell, together)
