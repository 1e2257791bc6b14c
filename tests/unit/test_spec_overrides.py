"""`--set KEY=VALUE`: what it changes, and the text of its own faults."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.errors import FaultKind, SpecRefused
from dutlab.spec.loader import experiment_of
from spec_faults import brief, faults_of_experiment

TEXT = """\
experiment: x
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - iperf3: {links: [[a]]}
  - sweep: {frame_sizes: [64], links: [[a]]}
  - sweep: {frame_sizes: [128], links: [[a]]}
"""


def load(*options: str, text: str = TEXT):
    return experiment_of(text.encode(), Path("e.yaml"), options)


@pytest.mark.parametrize(
    ("option", "name", "levels"),
    [
        ("factors.mode=router,nat", "mode", ("router", "nat")),
        ("factors.mode=[router, nat]", "mode", ("router", "nat")),
        ("factors.mode=nat", "mode", ("nat",)),
        ("factors.bios-turbo=on", "bios-turbo", ("on",)),
    ],
)
def test_a_list_is_written_with_commas_or_as_yaml_and_one_level_needs_neither(option, name, levels):
    assert load(option).factors[name] == levels


def test_values_are_taken_as_the_file_would_take_them_and_later_ones_win():
    experiment = load("repeats=8", "repeats=7", "order=as-written", "seed = 3")
    assert (experiment.repeats, experiment.order, experiment.seed) == (7, "as-written", 3)
    assert load("workloads.1.sweep.links=[[a, b]]").workloads[1].links == (("a", "b"),)


def test_the_name_of_a_workload_reaches_every_one_of_that_name():
    experiment = load("workloads.sweep.duration=2s", "workloads.iperf3.duration=3s", "workloads.2.sweep.drain=1s")
    assert [w.duration for w in experiment.workloads] == [3, 2, 2]
    assert [w.drain for w in experiment.workloads[1:]] == [0.5, 1]


def test_a_mapping_takes_the_place_of_a_value():
    assert load("testbed.lab=three-node-ssh", text=TEXT.replace("{lab: three-node}", "absent.yaml")).testbed.lab == "three-node-ssh"
    assert load("repeats=3", "repeats.until=2%", "repeats.most=12").repeats == load("repeats={until: 2%, most: 12}").repeats


WRONG = [
    ("factors.mode=ruter,nat", "1:1 factors.mode.0 unfit"),
    ("workloads.iperf3.duration=2", "1:1 workloads.0.iperf3.duration unit"),
    ("repeat=2", "1:1 repeat unknown-key"),
    ("repeats=", "1:1 repeats range"),
    ("repeats", "1:1 repeats syntax"),
    ("=2", "1:1 file syntax"),
    ("workloads.fio.size=2", "1:1 workloads.fio.size unknown-key"),
    ("workloads.9.sweep.drain=2s", "1:1 workloads.9.sweep.drain unknown-key"),
    ("workloads.9=2s", "1:1 workloads.9 unknown-key"),
    ("experiment.x=2", "1:1 experiment type"),
    ("factors.mode=[router", "1:1 factors.mode syntax"),
    ("order.first=a", "1:1 order unknown-name"),
]


@pytest.mark.parametrize(("option", "expected"), WRONG)
def test_a_fault_of_an_option_is_placed_at_the_option(option, expected):
    (fault,) = faults_of_experiment(TEXT, option)
    (second,) = faults_of_experiment(TEXT, "repeats=2", option)
    assert brief([fault]) == [expected]
    assert second == replace(fault, line=2) and fault.file == "--set"


def test_a_place_of_thousands_of_digits_is_a_place_that_is_not_there():
    assert [fault.kind for fault in faults_of_experiment(TEXT, f"workloads.{'9' * 5000}.duration=1s")] == [FaultKind.UNKNOWN_KEY]


def test_what_is_said_of_each(golden):
    golden.check("refusals-options.txt", "".join(f"{option}\n    {faults_of_experiment(TEXT, option)[0]}\n" for option, _ in WRONG))


@settings(max_examples=40)
@given(
    st.lists(st.one_of(st.text(max_size=30), st.from_regex(r"[a-z0-9.]{1,25}=[-\[\]{},:\"'a-z0-9 &*!|]{0,20}", fullmatch=True)), max_size=3)
)
def test_any_option_gives_an_experiment_or_faults(sets):
    try:
        load(*sets)
    except SpecRefused as refused:
        for fault in refused.faults:
            assert str(fault).isprintable()
