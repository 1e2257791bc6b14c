"""What distorts results, from facts: none on a healthy testbed, whatever facts are missing or damaged, in order and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.analysis.doctor import CoreShare, Finding, Inventory, InventoryLink, Price, Streams, WatchedCores, examine
from dutlab.analysis.doctor.finding import by_price
from patients import CARD, HOPS, HOST, PORTS, STEP, card, found_on, healthy, only, with_host


def test_a_healthy_testbed_has_no_findings() -> None:
    quiet = {name: WatchedCores(1.0, {0: CoreShare(2.0, 0.0)}) for name in healthy()}
    assert found_on(healthy(), watched=quiet, loads=(Streams("iperf3", 4),)) == []
    absent = {"source": {}, "dut": {"interfaces": None, "cpu": None}, "sink": {"interfaces": {"e1": {"pcie": None, "optic": None}}}}
    assert found_on(absent) == [], "facts that are not there"


def test_both_directions_at_once_are_measured_one_by_one() -> None:
    found = only(found_on(healthy(), loads=(Streams("iperf3", 4, both_ways=True),)), "both-ways")
    assert (found.where, found.price.percent, found.proof.levels) == (("link a",), None, ("direction", ("forward", "reverse", "bidir")))


def test_one_stream_on_a_fast_link() -> None:
    found = only(found_on(healthy(), loads=(Streams("iperf3", 1),)), "one-stream")
    assert found.where == ("link a",) and found.price.percent is None  # nobody knows before it is measured
    at_100g = {f.kind: f for f in found_on(healthy(), links=(InventoryLink("a", PORTS, HOPS, 100e9),), loads=(Streams("iperf3", 1),))}
    assert at_100g["one-stream"].price.percent == pytest.approx(58)  # 42 Gb/s a core, SIGCOMM 2021
    slow = {n: {**of, "interfaces": {i: card(speed_mbps=1000) for i in of["interfaces"]}} for n, of in healthy().items()}
    assert found_on(slow, links=(InventoryLink("a", PORTS, HOPS, 1e9),), loads=(Streams("iperf3", 1),)) == []


def with_iperf3(**versions: str) -> dict[str, dict[str, Any]]:
    return {name: {**of, "programs": {"iperf3": versions.get(name, "3.16")}} for name, of in healthy().items()}


def test_versions_of_iperf3_that_count_differently() -> None:
    four = (Streams("iperf3", 4),)
    assert found_on(with_iperf3(), loads=four) == found_on(with_iperf3(source="3.17"), loads=four) == []
    mixed = {f.kind: f for f in found_on(with_iperf3(source="3.7"), loads=four)}
    assert mixed["iperf3-versions"].where == ("source", "dut", "sink")
    assert mixed["iperf3-one-thread"].where == ("source",)
    assert {f.kind for f in found_on(with_iperf3(source="3.7", dut="3.7", sink="3.7"))} == set(), "no load of several streams"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9) | st.sampled_from(["half", "hpet", "0", "1-9", "STALE"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*STEP, "rx", "now", "most", "state", "table", "findings", "x"]), inner),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=40)
@given(
    of_card=st.dictionaries(st.sampled_from([*CARD, "near_cores", "pause_frames"]), JSON),
    of_host=st.dictionaries(st.sampled_from(list(HOST)), JSON),
)
def test_facts_of_a_damaged_file_never_end_the_examination(of_card: dict[str, Any], of_host: dict[str, Any]) -> None:
    facts = {p.host: {**HOST, **of_host, "interfaces": {p.interface: {**CARD, **of_card}}} for p in PORTS}
    for finding in found_on(facts):
        assert Finding.from_json(json.loads(json.dumps(finding.to_json()))) == finding


def test_the_largest_impact_is_first_the_unknown_after_and_what_costs_nothing_last() -> None:
    def of(kind: str, percent: float | None) -> Finding:
        return Finding(kind, kind, Price(percent, "x", "y"), ("dut",), (), (), ())

    given = [of("governor", None), of("one-stream", 0.0), of("busy-cpu", 5.0), of("half-duplex", 40.0)]
    assert [f.kind for f in by_price(given)] == ["half-duplex", "busy-cpu", "governor", "one-stream"]
    with pytest.raises(ValueError, match="'a'"):
        of("a", None)


def test_the_same_on_two_ports_is_one_finding_with_both() -> None:
    facts = with_host("dut", interfaces={"in0": card(duplex="half"), "out0": card(duplex="half")})
    found = only(found_on(facts), "half-duplex")
    assert found.where == ("dut:in0", "dut:out0") and len(found.cure) == len(found.undo) == 2


def test_a_name_that_is_a_command_is_quoted_in_cure_and_undo() -> None:
    name = "e0;reboot"
    facts = {"source": {**HOST, "interfaces": {name: card(duplex="half", offloads_off_by_choice=["generic-receive-offload"])}}}
    for finding in examine(Inventory(facts)):
        for step in (*finding.cure, *finding.undo):
            assert "'e0;reboot'" in step.command
