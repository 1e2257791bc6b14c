"""What a plan says that it can prove: the rule of the verdicts, before anything is measured."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from dutlab import labs
from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Comparison, Pair
from dutlab.analysis.verdict import Reason, Verdict
from dutlab.plan.plan import Plan
from dutlab.plan.proof import Proof, proof_of, proof_words
from dutlab.plan.trials import make_plan
from dutlab.spec.loader import load_experiment, read_experiment
from dutlab.spec.loader import testbed_of as bed_of
from dutlab.stats.few import shared_spread
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


# ---- Few repeats of many cells: what is there is found, and what is not there is seldom said


Draw = Callable[[random.Random], float]


def run(dice: random.Random, draw: Callable[[str], Draw], repeats: int = 3, slow: float = 1.0) -> tuple[Comparison, ...]:
    """Four modes of six sizes, each two compared; the first mode is `slow` times as fast as the others."""
    cells = {
        (mode, size): tuple((slow if mode == "a" else 1.0) * 1e5 * draw(size)(dice) for _ in range(repeats))
        for mode in "abcd"
        for size in "123456"
    }
    return compare([Pair(size, "received_pps", cells[x, size], cells[y, size]) for size in "123456" for x, y in combinations("abcd", 2)])


def test_a_fifth_slower_in_three_repeats_is_found() -> None:
    found = run(random.Random(1), lambda _: lambda dice: dice.gauss(1, 0.02), slow=0.8)
    with_a, others = [c for n, c in enumerate(found) if n % 6 < 3], [c for n, c in enumerate(found) if n % 6 >= 3]
    assert {c.verdict for c in with_a} == {Verdict.BETTER}
    assert {(c.verdict, c.reason) for c in others} <= {(Verdict.NO_DIFFERENCE, Reason.CHANCE), (Verdict.NO_DIFFERENCE, Reason.INTERVAL)}
    assert all(c.could_prove and c.ratio is not None and c.ratio.interval is not None for c in found)


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda _: lambda dice: dice.gauss(1, 0.02), id="normal"),
        pytest.param(lambda size: lambda dice: dice.gauss(1, {"1": 0.08}.get(size, 0.002)), id="one size is noisy"),
        pytest.param(lambda _: lambda dice: dice.gauss(1, 0.003) * (0.85 if dice.random() < 0.4 else 1), id="two states"),
        pytest.param(lambda _: lambda dice: dice.gauss(1, 0.01) * (0.7 if dice.random() < 0.1 else 1), id="outliers"),
    ],
)
def test_equal_modes_are_seldom_called_different(draw: Callable[[str], Draw]) -> None:
    dice = random.Random(20261126)
    false = sum(any(c.verdict is not Verdict.NO_DIFFERENCE for c in run(dice, draw)) for _ in range(100))
    assert false <= 8  # of 5 %, 97 in 100 such tests have no more


def test_one_cell_that_shows_no_spread_is_not_believed() -> None:
    spread = shared_spread([(100.0, 100.0, 100.0), (100.0, 104.0, 96.0), (100.0, 97.0, 103.0), (100.0, 95.0, 105.0)])
    assert spread.floor > 0.03**2
    assert spread.levels((100.0, 100.0, 100.0), (101.0, 101.0, 101.0)).p(0.0) > 0.5
