"""A finding put to the test: the experiment of two levels, and what its figures say of the cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cells import cell_of
from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Pair
from dutlab.analysis.doctor import KINDS, CureStep, Evidence, Finding, Price
from dutlab.analysis.doctor.proof import CURED, NOTHING, ProofPair, experiment_of, link_of
from dutlab.cli.main import dutlab
from dutlab.cli.one_workload import as_yaml
from dutlab.dut.levels import CommandLevel
from dutlab.interop.imported_run import Imported, record_of
from dutlab.methods.ports import Measured
from dutlab.report.questions.proof import proof_pairs
from dutlab.report.questions.sides import ComparedRun
from dutlab.spec.loader import given_experiment

RING = Finding(
    "small-ring", "the ring is small", Price(None, "", "not known"), ("sink:eth-b",), (Evidence("sink", "ethtool -g", "64"),),
    (CureStep("sink", "ethtool -G eth-b rx 4096"), CureStep("source", "true")), (CureStep("sink", "ethtool -G eth-b rx 64"), CureStep("source", "true")),
)  # fmt: skip
BY_HAND = replace(RING, cure=(CureStep("sink", "by hand: move the card"),))
LINKS = {"a": ["source:eth-a", "sink:eth-a"], "b": ["source:eth-b", "sink:eth-b"]}


@pytest.mark.parametrize("kind", KINDS)
def test_every_proof_is_an_experiment_that_can_be_measured(kind: str) -> None:
    proof = KINDS[kind].proof
    data = experiment_of(
        kind,
        proof,
        replace(RING, kind=kind),
        testbed={"lab": "three-node"},
        link="a",
        is_segment=False,
        mode=proof.mode or "router",
        repeats=2,
    )
    workloads = given_experiment(as_yaml(data), Path("e.yaml")).experiment.workloads
    assert {w.kind for w in workloads} == {proof.workload}
    assert len(workloads) == (1 if proof.levels is None else len(proof.levels[1]))


async def test_on_a_segment_every_two_hosts_are_measured_and_its_level_as_found_needs_no_dut() -> None:
    data = experiment_of("small-ring", KINDS["offloads-off"].proof, RING, testbed={"lab": "flat"}, link="lan", is_segment=True, mode="as-found",
                         repeats=2)  # fmt: skip
    data["levels"][CURED]["small-ring"] = {}  # of the hosts of another lab
    experiment = given_experiment(as_yaml(data), Path("e.yaml")).experiment
    assert [w.kind for w in experiment.workloads] == ["matrix"]
    await CommandLevel("cured nothing", experiment.levels[CURED][NOTHING], dut="").apply({})


def test_the_cure_of_a_finding_is_a_level_with_its_undo_and_what_a_person_does_has_none() -> None:
    def data(finding: Finding) -> dict[str, Any]:
        return experiment_of("small-ring", finding.proof, finding, testbed="t.yaml", link="b", is_segment=False, mode="nat", repeats=6)

    written = data(RING)
    assert written["factors"] == {"mode": ["nat"], CURED: [NOTHING, "small-ring"]}
    assert written["levels"][CURED] == {
        NOTHING: {},
        "small-ring": [
            {"host": "sink", "apply": ["ethtool -G eth-b rx 4096"], "restore": ["ethtool -G eth-b rx 64"]},
            {"host": "source", "apply": ["true"], "restore": ["true"]},
        ],
    }
    assert "levels" not in data(BY_HAND)
    assert [link_of(of, LINKS) for of in (RING, replace(RING, where=("link b",)), replace(RING, where=("dut",)), None)] == [
        "b",
        "b",
        "a",
        "a",
    ]


@pytest.mark.parametrize(
    ("figure", "before", "after", "percent"),
    [
        ("goodput_bps", (1e9, 1.01e9, 0.99e9, 1.0e9, 1.02e9, 0.98e9), (2e9, 2.02e9, 1.98e9, 2.0e9, 2.04e9, 1.96e9), 50.0),
        ("tl_ns", (90e3, 91e3, 89e3, 90e3, 92e3, 88e3), (60e3, 61e3, 59e3, 60e3, 61e3, 59e3), 100 / 3),
        ("goodput_bps", (1e9, 1.1e9, 0.9e9, 1.0e9), (1e9, 1.1e9, 0.9e9, 1.0e9), None),
    ],
)
def test_the_cost_is_the_share_that_the_worse_level_lacks_where_a_difference_is_proven(
    figure: str, before: tuple[float, ...], after: tuple[float, ...], percent: float | None
) -> None:
    (comparison,) = compare([Pair("a", figure, before, after)])
    pair = ProofPair(NOTHING, "small-ring", "a", comparison)
    assert pair.is_proven is (percent is not None)
    assert pair.price.percent == (None if percent is None else pytest.approx(percent, abs=0.5))
    assert pair.to_json()["price"]["percent"] == pair.price.percent


def test_each_direction_of_both_at_once_is_held_against_that_direction_alone() -> None:
    rates = {"forward": {"a": 9e9}, "reverse": {"a.back": 8e9}, "bidir": {"a+a.back": 9.5e9, "a": 5e9, "a.back": 4.5e9}}
    cells = [(cell_of("iperf3", direction=way, repeat=n), of) for way, of in rates.items() for n in (1, 2)]
    records = tuple(
        record_of(
            n,
            cell,
            Imported(cell, Measured({place: {"goodput_bps": bps} for place, bps in of.items()})),
            datetime(2026, 11, 27, tzinfo=UTC),
        )
        for n, (cell, of) in enumerate(cells, 1)
    )
    found = proof_pairs(ComparedRun("x", records, {}), KINDS["both-ways"].proof)
    values = [(of.before, *(side.value for side in (of.comparison.first, of.comparison.second) if side)) for of in found]
    assert values == [("forward", 9e9, 5e9), ("reverse", 8e9, 4.5e9)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--prove", "small-ring"], "needs --testbed or --lab"), (["duration=1s"], "is for --prove"),
        (["--lab", "three-node", "--prove", "small-rings"], "did you mean"),
    ],
)  # fmt: skip
def test_what_cannot_be_proven_is_refused_before_anything_is_built(words: list[str], said: str) -> None:
    done = CliRunner().invoke(dutlab, ["doctor", *words])
    assert done.exit_code != 0
    assert said in done.output + str(done.exception)
