"""A DUT that a person sets: what is asked, what frames must show, and what a plan for nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from dut_families import EXAMPLES, MODES, ProberOf
from dutlab.dut import family
from dutlab.dut.manual import question
from dutlab.errors import HostError, SpecRefused
from dutlab.hosts.black_box import BlackBox
from dutlab.hosts.reach import hosts_of
from dutlab.plan.trials import make_plan, needs_hand
from dutlab.spec.loader import load_experiment, load_testbed

BED = load_testbed(EXAMPLES / "manual.yaml")
EXPERIMENT = """\
experiment: by-hand
testbed: {bed}
factors: {{mode: [router, nat], cable: [old]}}
order: as-written
repeats: 1
workloads: [{{sweep: {{rates: [1kpps], frame_sizes: [64]}}}}]
"""


def faults(tmp_path: Path, text: str, bed: Path = EXAMPLES / "manual.yaml") -> list[tuple[int, str]]:
    (tmp_path / "e.yaml").write_text(text.format(bed=bed))
    with pytest.raises(SpecRefused) as refused:
        load_experiment(tmp_path / "e.yaml")
    return [(fault.line, fault.path) for fault in refused.value.faults]


def test_a_plan_names_what_a_person_would_have_to_do(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(EXPERIMENT.format(bed=EXAMPLES / "manual.yaml"))
    plan = make_plan(load_experiment(tmp_path / "e.yaml"), BED)
    assert plan.hand_factors == ("mode", "cable")
    assert needs_hand(plan) == ["set mode to router", "set cable to old", "set mode to nat"]


def test_a_question_says_what_a_mode_means_and_leaves_other_factors_alone() -> None:
    assert "nat" in question("mode", "nat") and "filter-default" in question("mode", "nat")
    assert question("mode", "of-my-own") == "set mode to of-my-own"
    assert question("cable", "nat") == "set cable to nat"


@pytest.mark.parametrize("mode", MODES)
async def test_frames_prove_what_a_person_set(mode: str) -> None:
    made, nowhere = family("manual").modes[mode], BlackBox("dut")
    assert await made.undo(nowhere, BED) == []
    await made.apply(nowhere, BED)
    assert all(c.passed for c in await made.verify(nowhere, BED, ProberOf(mode, BED)))
    other = "nat" if mode != "nat" else "router"
    assert not all(c.passed for c in await made.verify(nowhere, BED, ProberOf(other, BED)))


async def test_nothing_reaches_it_by_commands() -> None:
    assert sorted(hosts_of(BED)) == ["sink", "source"]
    nowhere = BlackBox("dut")
    for asked in (nowhere.run(["ls", "-l"]), nowhere.spawn(["ls"]), nowhere.put(b"", "/x"), nowhere.get("/x")):
        with pytest.raises(HostError, match=r"^dut: .*black box"):
            await asked


def test_what_needs_commands_is_refused_before_the_run(tmp_path: Path) -> None:
    own = EXPERIMENT + "modes: {{mine: {{apply: [x], restore: [y]}}, bare: {{}}}}\n"
    assert faults(tmp_path, own) == [(7, "modes.mine")]
    steps = EXPERIMENT.replace("{{sweep: {{rates: [1kpps], frame_sizes: [64]}}}}", "{{steps: {{run: {{dut: [ls]}}}}}}")
    assert faults(tmp_path, steps) == [(6, "workloads.0.steps.run.dut")]
    change = EXPERIMENT.replace("sweep: {{rates: [1kpps], frame_sizes: [64]}}", "reconf: {{to: [nat], rate: 1kpps}}")
    assert [line for line, _ in faults(tmp_path, change)][:1] == [6]


@pytest.mark.parametrize(
    ("old", "new", "at"),
    [
        ("{family: manual}", "{family: manual, ssh: root@192.0.2.1}", "hosts.dut.family"),
        ("sink:   {", "sink:   {family: manual, ", "hosts.sink.family"),
        ("{family: manual}", "{family: linux}", "hosts.dut.ssh"),
    ],
)  # fmt: skip
def test_a_testbed_that_mixes_hand_and_login_is_refused_where_it_does(tmp_path: Path, old: str, new: str, at: str) -> None:
    (tmp_path / "bed.yaml").write_text((EXAMPLES / "manual.yaml").read_text().replace(old, new, 1))
    with pytest.raises(SpecRefused) as refused:
        load_testbed(tmp_path / "bed.yaml")
    assert at in {fault.path for fault in refused.value.faults}
