"""The rig without a DUT against a simulation whose limits are known, and headroom from it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from cells import cell_of
from disturbance import BusyMachine, no_sleep
from dutlab.choices import Rig
from dutlab.doubts import DoubtKind
from dutlab.errors import MeasurementError
from dutlab.labs.direct import direct_testbed
from dutlab.methods.calibrate import HEADROOM, LOADS, LOADS_ALONE, calibrate, headroom, mix_key
from dutlab.methods.ports import Measured
from dutlab.methods.rfc2544.deviations import BENCHMARK_NETWORKS
from dutlab.methods.undisturbed import Undisturbed
from dutlab.runner import rig
from dutlab.runner.headroom import RigLoad, loads_of, with_headroom
from dutlab.spec.generators import ENGINE, GENERATORS
from dutlab.spec.lab_files import description, lab_names
from dutlab.spec.mixes import Mix, frame_mix
from dutlab.store.calibration import LASTS, Calibration, cache_file, cache_folder, cached, keep, superseded
from dutlab.tools.generator_tool import GeneratorSite
from simulated import Dut, Simulation

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SHORT = frame_mix(64)


TRAFGEN, TREX = GENERATORS["trafgen"], GENERATORS["trex"]
MADE_BY = {ENGINE: "0.9", TRAFGEN(): "0.6.8", TRAFGEN(cores=(2,)): "0.6.8", TREX(): "3.08"}
"""Generator → version, in a calibration."""


def cell(workload="sweep", links=("a",), **params):
    return cell_of(workload, links=links, **{"frame_size": "64", **params})


def points(capacity_pps=1e6, *, reach_pps=2e6, links=("a",), random_loss=0.0):
    rig = Simulation(Dut(capacity_pps, random_loss=random_loss), reach_pps=reach_pps)
    return asyncio.run(calibrate(rig, links, SHORT))


def calibration(found):
    return Calibration(measured=NOW, facts={"kernel": "6.18"}, points=found)


def test_full_speed_says_what_the_sink_takes_and_the_other_loads_are_shares_of_it():
    found = points(capacity_pps=1e6, reach_pps=2e6)
    assert [p.intended_pps for p in found] == [None, *(pytest.approx(1e6 * share) for share in LOADS[1:])]
    assert found[0].received_pps == pytest.approx(1e6)
    assert found[0].failed_ratio == pytest.approx(0.5)
    assert [p.failed_ratio for p in found[1:]] == [0, 0, 0]
    assert [p.rate_error_ratio for p in found[1:]] == pytest.approx([0, 0, 0], abs=1e-9)
    # The loss floor is the least of all loads.
    found = points(random_loss=0.01)
    least = min(p.failed_ratio for p in found)
    assert 0.005 < least < 0.02


def test_a_rig_of_which_nothing_comes_back_is_an_error_not_a_figure():
    with pytest.raises(MeasurementError, match=r"\blink a\b"):
        asyncio.run(calibrate(Simulation(Dut(1e6), deaf_from=0), ("a",), SHORT))


def test_a_result_is_held_against_what_the_rig_received_or_carried_and_a_sum_against_its_sum():
    assert headroom({"a": {"received_pps": 4e5}}, points(1e6), ("a",), "64") == {"a": pytest.approx(2.5)}
    # A bound without loss is held against the highest load that the rig carried.
    assert headroom({"a": {"ndr/lower_pps": 4.5e5}}, points(1e6), ("a",), "64") == {"a": pytest.approx(2.0)}
    # The sum of links is held against the sum of the rigs.
    figures = {"a": {"received_pps": 5e5}, "a+b": {"received_pps": 1e6}}
    found = headroom(figures, points(1e6, links=("a", "b")), ("a", "b"), "64")
    assert found["a+b"] == pytest.approx(found["a"])


@pytest.mark.parametrize(("links", "mix"), [(("b",), "64"), (("a",), "128"), (("a", "b"), "64")])
def test_where_the_rig_was_not_measured_there_is_no_headroom(links, mix):
    assert headroom({"a": {"received_pps": 4e5}}, points(), links, mix) == {}


@pytest.mark.parametrize(("result", "doubted"), [(0.95e6, True), (0.90e6, False)])
def test_below_1_1_a_result_is_marked_as_limited_by_the_rig(result, doubted):
    measured = with_headroom(Measured({"a": {"received_pps": result}}), cell(), calibration(points(1e6)))
    assert measured.figures["a"][HEADROOM] == pytest.approx(1e6 / result)
    assert [(d.kind, d.about) for d in measured.doubts] == ([(DoubtKind.RIG_LIMITED, "a")] if doubted else [])


def test_without_a_calibration_and_for_other_tools_a_result_stays_as_it_is():
    measured = Measured({"a": {"received_pps": 1.0}})
    assert with_headroom(measured, cell(), None) is measured
    assert with_headroom(measured, cell_of("iperf3"), calibration(points())) is measured


@pytest.mark.parametrize(
    ("workload", "figures", "ratio"),
    [
        ("loadtest", {"max_received_pps": 5e5, "max_offered_pps": 9e5}, 2.0),
        ("soak", {"received_pps": 8e5}, 1.25),
        ("soak", {"critical_pps": 4.5e5}, 2.0),
        ("latency", {"reference_pps": 4.5e5}, 2.0),
        ("rfc2544", {"throughput_pps": 4.5e5, "max_pps": 5e5}, 2.0),
    ],
)
def test_every_workload_that_finds_a_rate_has_a_headroom(workload, figures, ratio):
    found = with_headroom(Measured({"a": figures}), cell(workload), calibration(points(1e6)))
    assert found.figures["a"][HEADROOM] == pytest.approx(ratio)


def test_a_critical_rate_of_each_of_two_links_is_held_against_both():
    found = headroom({"a+b": {"critical_pps": 4.5e5}}, points(1e6, links=("a", "b")), ("a", "b"), "64")
    assert found["a+b"] == pytest.approx(2.0)


def test_both_ways_are_held_against_a_rig_loaded_both_ways():
    of = cell("rfc2544", directions="both")
    (load,) = loads_of([of])
    assert load.flows == ("a", "a.back")
    both = asyncio.run(calibrate(Simulation(Dut(1e6), reach_pps=2e6), ("a",), SHORT, directions=load.directions))
    found = with_headroom(Measured({"a": {"throughput_pps": 9e5}}), of, calibration(both))
    assert found.figures["a"][HEADROOM] == pytest.approx(2.0), "the throughput is of both directions together"
    forward = points(1e6)
    assert HEADROOM not in with_headroom(Measured({"a": {"throughput_pps": 9e5}}), of, calibration(forward)).figures["a"]


def test_each_mix_on_each_set_of_links_is_calibrated_once():
    found = loads_of([cell(), cell(rate_pps=5.0), cell(links=("a", "b")), cell_of("iperf3"), cell(frame_size="imix")])
    assert [(load.links, mix_key(load.mix)) for load in found] == [(("a",), "64"), (("a", "b"), "64"), (("a",), "64:7,594:4,1518:1")]
    # Two mixes of one name are two.
    assert mix_key(Mix(name="x", parts=((64, 1), (128, 2)))) != mix_key(Mix(name="x", parts=((64, 2), (128, 1))))


def test_a_calibration_is_found_again_by_the_same_facts_and_by_no_others_unless_its_file_was_cut(tmp_path):
    made = calibration(points())
    assert keep(made, tmp_path) == cache_file(made.facts, tmp_path)
    assert cached({"kernel": "6.18"}, tmp_path, now=NOW) == made
    assert cached({"kernel": "6.19"}, tmp_path, now=NOW) is None
    # A file that was cut is measured again.
    made = calibration(points())
    cache_file(made.facts, tmp_path).write_bytes(keep(made, tmp_path).read_bytes()[:40])
    assert cached(made.facts, tmp_path, now=NOW) is None
    # A cache that cannot be written is no fault of the rig.
    (tmp_path / "file").write_text("")
    assert keep(calibration(points()), tmp_path / "file") is None
    # The cache lies where the xdg specification puts it.
    assert str(cache_folder({"XDG_CACHE_HOME": "/var/c"})) == "/var/c/dutlab/calibrations"
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) == cache_folder({})


def test_what_another_version_of_a_generator_made_is_not_taken(tmp_path):
    made = calibration([replace(p, generator=model, version=version) for model, version in MADE_BY.items() for p in points()])
    keep(made, tmp_path)
    found = cached(made.facts, tmp_path, now=NOW, versions={"engine": "0.9", "trafgen": "0.6.9", "iperf3": "3.12"})
    assert {p.generator for p in found.points} == {ENGINE, TREX()}, "nobody knows better of TRex"
    assert not found.has(("a",), "64", '{"trafgen":{"cores":[2]}}')
    assert cached(made.facts, tmp_path, now=NOW) == made


def test_a_calibration_lasts_a_week_from_its_oldest_point(tmp_path):
    made = calibration(points())
    keep(made, tmp_path)
    assert cached(made.facts, tmp_path, now=NOW + LASTS) == made
    assert cached(made.facts, tmp_path, now=NOW + LASTS + timedelta(seconds=1)) is None
    younger = made.with_points(points(links=("b",)), NOW + timedelta(days=6))
    assert younger.measured == NOW
    assert made.with_points(points(), NOW + timedelta(days=6)).measured == NOW + timedelta(days=6), "no old point is left"


def test_what_has_changed_since_the_rig_was_last_measured_is_named(tmp_path):
    facts = {"testbed": "mine", "rig": "looped", "source": {"kernel": {"release": "6.18"}, "interfaces": {"eth1": {"mtu": 1500}}}}
    for days, other in ((0, facts), (2, {**facts, "source": {**facts["source"], "interfaces": {}}}), (3, {**facts, "testbed": "another"})):
        keep(Calibration(measured=NOW + timedelta(days=days), facts=other, points=[]), tmp_path)
    (tmp_path / "torn.json").write_text("{")
    now = {**facts, "source": {"kernel": {"release": "6.19"}, "interfaces": {"eth1": {"mtu": 1500}}}}
    assert superseded(now, tmp_path) == (NOW + timedelta(days=2), ["source.interfaces.eth1", "source.kernel.release"])
    assert superseded({**now, "rig": "generator-alone"}, tmp_path) is None


def test_a_generator_alone_tells_what_it_makes_and_needs_nothing_to_come_back():
    rig = Simulation(Dut(1e5), reach_pps=2e6)
    found = asyncio.run(calibrate(rig, ("a",), SHORT, loads=LOADS_ALONE, rig=Rig.GENERATOR))
    assert [p.intended_pps for p in found] == [None, pytest.approx(1e6)]
    assert found[0].offered_pps == pytest.approx(2e6)
    assert {(p.received_pps, p.failed_ratio, p.latency_min_ns) for p in found} == {(None, None, None)}
    assert headroom({"a": {"ndr/lower_pps": 1e5}}, found, ("a",), "64") == {"a": pytest.approx(20)}
    # A generator alone needs nothing to come back.
    deaf = Simulation(Dut(1e5), reach_pps=2e6, deaf_from=0)
    assert asyncio.run(calibrate(deaf, ("a",), SHORT, loads=LOADS_ALONE, rig=Rig.GENERATOR))


def test_newer_points_replace_those_of_the_same_load():
    made = calibration(points(1e6)).with_points(points(2e6, reach_pps=4e6), NOW)
    assert len(made.points) == len(LOADS)
    assert made.points[0].received_pps == pytest.approx(2e6)


@pytest.mark.parametrize("name", lab_names())
def test_the_rig_has_the_links_of_the_lab_but_ports_and_networks_of_its_own(name):
    lab = description(name).testbed
    rig = direct_testbed(lab)
    through = lab.through_dut().links
    assert list(rig.links) == list(through)
    networks = {a.network for link in rig.links.values() for a in link.addresses}
    assert len(networks) == 2 * len(through)
    of_others = [a.network for other in lab_names() for link in description(other).testbed.links.values() for a in link.addresses]
    for network in networks:
        assert not any(network.version == other.version and network.overlaps(other) for other in [*of_others, *BENCHMARK_NETWORKS])
    assert {link.sink.interface for link in rig.links.values()}.isdisjoint({link.sink.interface for link in through.values()})


BED = description("three-node").testbed


async def measured_beside(taken, monkeypatch, disturbed="repeat"):
    """What with_loads() makes of two mixes on a machine of which others take a share of each offer, what it tells of, and the offers."""
    busy = BusyMachine(Simulation(Dut(1e6), reach_pps=2e6), taken)
    monkeypatch.setattr(rig, "make", lambda *_: busy)
    monkeypatch.setattr(rig, "accounts_of", lambda *_: busy)
    monkeypatch.setattr(BusyMachine, "check", lambda _: asyncio.sleep(0, "0.9"), raising=False)
    monkeypatch.setattr(BusyMachine, "close", lambda _: asyncio.sleep(0), raising=False)
    monkeypatch.setattr(rig, "Undisturbed", partial(Undisturbed, sleep=no_sleep))
    failed = []
    found = await rig.OpenRig(GeneratorSite({}, BED, {}, None), disturbed=disturbed).with_loads(
        calibration([]), [RigLoad(("a",), frame_mix(size)) for size in (64, 512)],
        failed=lambda load, why: failed.append((load.mix.name, str(why))),
    )  # fmt: skip
    return found, failed, busy.offers


async def test_a_load_of_the_rig_that_other_work_disturbs_is_offered_again_and_then_left_out(monkeypatch):
    found, failed, offers = await measured_beside(lambda n: 0.4 if n == 2 else 0.0, monkeypatch)
    assert (len(offers), failed) == (2 * len(LOADS) + 1, [])
    assert not any(p.disturbed for p in found.points)
    # A mix that other work disturbs every time is not in the calibration and the user is told.
    found, failed, _ = await measured_beside(lambda n: 0.4 if n <= 2 else 0.0, monkeypatch)
    assert {p.mix for p in found.points} == {"512"}
    ((mix, why),) = failed
    assert mix == "64" and "3 times" in why


async def test_where_disturbed_loads_count_they_are_marked_and_the_cache_has_them_for_such_runs_alone(monkeypatch, tmp_path):
    found, failed, offers = await measured_beside(lambda n: 0.4 if n == 2 else 0.0, monkeypatch, disturbed="count")
    assert (len(offers), failed) == (2 * len(LOADS), [])
    assert [bool(p.disturbed) for p in found.points] == [False, False, True, *5 * [False]]
    keep(found, tmp_path)
    assert cached(found.facts, tmp_path, now=NOW, disturbed="count") == found
    assert {p.mix for p in cached(found.facts, tmp_path, now=NOW).points} == {"512"}
