"""Verdicts on published measurements, as their authors found them by hand; and each rule on its own ground."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disturbance import interference, record
from dutlab.analysis.doctor.inventory import CoreShare, WatchedCores
from dutlab.analysis.limited import ArrayFacts, Confidence, Core, Facts, LimitCause, Neighbour, Subset, limit_of_array, limit_of_result
from dutlab.analysis.limited.finding import LimitFinding
from dutlab.hosts.netns import NetnsHost
from dutlab.hosts.reach import host_at
from dutlab.physics.ceilings import frames, tcp_goodput
from dutlab.physics.ceilings.assumed import other_goodputs
from dutlab.physics.interference import ThreadTime
from dutlab.report.model.groups import Group
from dutlab.report.sections.limits import _at_cards, _call_share, _cycle_share
from dutlab.runner.at_rest import busy_threads
from dutlab.runner.examine import _polling
from dutlab.store.record import TrialRecord
from dutlab.systems import SYSTEMS
from dutlab.systems.polled import parse_polled
from dutlab.systems.sample_names import CYCLES
from dutlab.systems.watched import POLLING_CORES
from dutlab.units import BpsL1
from golden import Golden

DATA = Path(__file__).parents[1] / "data"
ONE_G, TEN_G = BpsL1(1e9), BpsL1(10e9)
IMIX = (7 * 64 + 4 * 594 + 1518) / 12
MB = 2**20


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open() as f:
        return list(csv.DictReader(f))


def page(verdicts: Iterable[LimitFinding]) -> str:
    return "".join(
        f"{v.words} ({v.confidence.name.lower()})\n" + "".join(f"    {line}\n" for line in (*v.evidence, *v.others)) for v in verdicts
    )


# ---- PC Engines APU6: two 1G ports, in both directions at once


def apu6(product: str, load: str) -> Facts:
    mean = {"64b": 64.0, "imix": IMIX}
    line = {name: 2 * frames(ONE_G, size).pps for name, size in mean.items()}
    pps = {r["loadtest"]: float(r["kpps"]) * 1e3 for r in rows("apu6-loadtest.csv") if r["product"] == product}
    other = "imix" if load == "64b" else "64b"
    return Facts(
        value=pps[load], unit="pps", line=line[load], pps=pps[load], mean_bytes=mean[load],
        neighbours=(Neighbour(other, mean[other], pps[other], pps[other] / line[other]),),
    )  # fmt: skip


def test_the_apu6_is_limited_by_its_processor_but_by_the_line_at_imix_with_vpp_and_danos() -> None:
    for product in ("linux", "openbsd", "vpp", "danos"):
        found = limit_of_result(apu6(product, "64b"))
        assert (found.limit, found.confidence) == (LimitCause.PER_PACKET, Confidence.LIKELY)
        assert "processor" in found.words
        mixed = limit_of_result(apu6(product, "imix"))
        if product in {"vpp", "danos"}:
            assert (mixed.limit, mixed.confidence) == (LimitCause.LINE, Confidence.SHOWN)
        else:
            assert mixed.limit is LimitCause.PER_PACKET


# ---- OpenBSD on an APU2: MTU 1500 and 9000


def apu2(mtu: int, megabytes: float) -> Facts:
    best = {m: max(float(r["mbytes_per_s"]) for r in rows("apu2-openbsd-factors.csv") if r["mtu"] == str(m)) for m in (1500, 9000)}

    def pps(of: int, rate: float) -> float:
        return rate * MB / (of - 40)

    def line(of: int) -> float:
        return tcp_goodput(ONE_G, mtu=of, timestamps=False)

    other = 9000 if mtu == 1500 else 1500
    return Facts(
        value=megabytes * MB * 8, unit="b/s", line=line(mtu), pps=pps(mtu, megabytes), mean_bytes=mtu + 18, streams=1,
        neighbours=(Neighbour(f"MTU {other}", other + 18, pps(other, best[other]), best[other] * MB * 8 / line(other)),),
    )  # fmt: skip


def test_openbsd_at_mtu_1500_is_limited_by_the_cost_of_each_packet() -> None:
    for row in rows("apu2-openbsd-factors.csv"):
        found = limit_of_result(apu2(int(row["mtu"]), float(row["mbytes_per_s"])))
        assert found.limit is (LimitCause.PER_PACKET if row["mtu"] == "1500" else LimitCause.LINE), row


# ---- Supermicro E302-9D: four 10G ports, iperf3 with four streams


def e302(mode: str) -> Facts:
    of = {r["mode"]: float(r["single_ixl2_ixl0_gbps"]) * 1e9 for r in rows("e302-9d-iperf3.csv")}
    both = {r["mode"]: (float(r["dual_ixl2_ixl0_gbps"]) + float(r["dual_ixl3_ixl1_gbps"])) * 1e9 for r in rows("e302-9d-iperf3.csv")}
    return Facts(value=of[mode], unit="b/s", line=tcp_goodput(TEN_G), streams=4, together=both[mode],
                 other_modes={m: v for m, v in of.items() if m != mode})  # fmt: skip


def test_the_e302_9d_routes_at_line_rate_and_is_limited_by_its_processor_once_it_filters() -> None:
    found = limit_of_result(e302("router"))
    assert (found.limit, found.confidence) == (LimitCause.LINE, Confidence.SHOWN)
    for mode in ("filter-empty", "filter-default", "nat"):
        found = limit_of_result(e302(mode))
        assert (found.limit, found.confidence) == (LimitCause.MODE, Confidence.LIKELY)


# ---- iperf3 -u with small datagrams: 0.21 Mpps through a router that took 1.0 Mpps from another generator


SMALL = Facts(value=0.21e6, unit="pps", line=frames(TEN_G, 64).pps, pps=0.21e6, mean_bytes=64, asked=1.0e6, sent=0.21e6, loss_ratio=0.0,
              generator_core=100.0)  # fmt: skip


def test_iperf3_with_small_datagrams_is_its_own_limit() -> None:
    found = limit_of_result(SMALL)
    assert (found.limit, found.confidence) == (LimitCause.GENERATOR, Confidence.SHOWN)
    assert limit_of_result(replace(SMALL, generator_core=None)).confidence is Confidence.LIKELY


# ---- 32 NVMe drives


def era(name: str) -> dict[str, float]:
    return {r[next(iter(r))]: float(r["value"]) for r in rows(name)}


def era_reads() -> ArrayFacts:
    one = era("era-drive-spec.csv")["random_read_4k"]
    value = {
        int(r["drives"]): float(r["value"])
        for r in rows("era-workloads.csv")
        if r["workload"] == "random_read" and r["block_bytes"] == "4096"
    }
    cpu = next(float(r["era_raid5_50"]) for r in rows("era-raid-comparison.csv") if r["parameter"] == "mean_cpu_at_max")
    return ArrayFacts(value[32], "IOPS", 32, 32 * one, cpu_percent=cpu, fewer=(Subset(16, value[16], 16 * one),))


def era_sequential() -> ArrayFacts:
    """Three engines meet at the same rate."""
    one = era("era-drive-spec.csv")["sequential_read"] * 1e6
    of = next(r for r in rows("era-raid-comparison.csv") if r["parameter"] == "sequential_read")
    others = {name: float(of[name]) * 1e9 for name in ("linux_raid10", "linux_raid5")}
    return ArrayFacts(float(of["era_raid5_50"]) * 1e9, "B/s", 32, 32 * one, cpu_percent=13, other_engines=others)


ARRAYS = [
    (era_reads(), LimitCause.BUS),  # by the path that they share, not by the drives
    (era_sequential(), LimitCause.BUS),
    (ArrayFacts(53e9, "B/s", 32, 224e9, uplinks=57.6e9), LimitCause.BUS),
    (ArrayFacts(18e6, "IOPS", 32, 19.5e6), LimitCause.DRIVE_SPEC),
    (ArrayFacts(0.57e6, "IOPS", 32, 2.4e6, arithmetic=0.6e6), LimitCause.RAID),
    (ArrayFacts(5e6, "IOPS", 32, 19.5e6, cpu_percent=98), LimitCause.ALL_CORES),
    (ArrayFacts(5e6, "IOPS", 32, 19.5e6), LimitCause.UNKNOWN),
]


def test_each_rung_of_an_array(golden: Golden) -> None:
    found = [limit_of_array(facts) for facts, _ in ARRAYS]
    assert [f.limit for f in found] == [limit for _, limit in ARRAYS]
    golden.check("limits-arrays.txt", page(found))


# ---- each rule of forwarding on its own ground

TENTH = Facts(value=1e6, unit="pps", line=10e6, pps=1e6, mean_bytes=64)
HOT, COOL = Core(1, {"softirq": 97.0, "user": 2.0}), Core(0, {"system": 20.0})
POLLS = {"dut_cores": (COOL, HOT), "polling": frozenset({1})}


@pytest.mark.parametrize(
    ("facts", "limit", "confidence"),
    [
        ({"dut_cores": (COOL, HOT), "loss_ratio": 0.3}, LimitCause.ONE_CORE, Confidence.SHOWN),
        ({"dut_cores": (COOL, HOT), "refused_ratio": 0.9}, LimitCause.ONE_CORE, Confidence.SHOWN),
        ({"dut_cores": (COOL, HOT), "loss_ratio": 0.3, "shared_cores": "the lab shares them"}, LimitCause.PER_PACKET, Confidence.LIKELY),
        ({"dut_cores": (COOL, HOT), "shared_cores": "the lab shares them"}, LimitCause.SHARED_CORES, Confidence.LIKELY),
        ({"dut_cores": (COOL, HOT), "refused_ratio": 0.8, "shared_cores": "the lab shares them", "line": None}, LimitCause.PER_PACKET, Confidence.LIKELY),
        ({"dut_cores": (HOT, Core(2, {"softirq": 93.0})), "loss_ratio": 0.3}, LimitCause.ALL_CORES, Confidence.SHOWN),
        ({"loss_ratio": 0.2, "places": {"sink's card": 0.9, "DUT in": 0.1}}, LimitCause.SINK, Confidence.SHOWN),
        ({"sink_core": 99.0, "dut_cores": (COOL,)}, LimitCause.SINK, Confidence.LIKELY),
        ({"loss_ratio": 0.2, "places": {"DUT in": 0.9}, "dut_cores": (COOL,)}, LimitCause.NIC, Confidence.LIKELY),
        ({"loss_ratio": 0.2, "at_cards": {"no descriptor": 0.9}, "dut_cores": (COOL,)}, LimitCause.NIC, Confidence.SHOWN),
        ({"loss_ratio": 0.2, "over_allowance": 0.9, "dut_cores": (COOL,)}, LimitCause.ALLOWANCE, Confidence.LIKELY),
        ({"table_entries": 262_000.0, "table_size": 262_144.0}, LimitCause.STATE_TABLE, Confidence.SHOWN),
        ({"fragments": 0.9e6}, LimitCause.FRAGMENTS, Confidence.LIKELY),
        ({"frequency_drop": 0.2}, LimitCause.HEAT, Confidence.LIKELY),
        ({"throttled": "heat throttled it (dut: 3 times)"}, LimitCause.HEAT, Confidence.SHOWN),
        ({"power_limited": "a limit of power slowed it"}, LimitCause.HEAT, Confidence.LIKELY),
        ({"memory_share": 0.8}, LimitCause.MEMORY, Confidence.LIKELY),
        ({"sent": 1e6, "generator_best": 1.01e6, "loss_ratio": 0.0}, LimitCause.GENERATOR, Confidence.LIKELY),
        ({"sent": 1e6, "generator_best": 1.01e6, "loss_ratio": 0.0, "refused_ratio": 0.9}, LimitCause.PER_PACKET, Confidence.POSSIBLE),
        ({"loss_ratio": 0.5}, LimitCause.PER_PACKET, Confidence.POSSIBLE),
        ({"other_modes": {"router": 2e6}}, LimitCause.MODE, Confidence.LIKELY),
        ({"neighbours": (Neighbour("1518 B", 1518, 0.9e6),)}, LimitCause.PER_PACKET, Confidence.LIKELY),
        ({"neighbours": (Neighbour("70 B", 70, 1e6),)}, LimitCause.UNKNOWN, Confidence.NONE),
        ({"streams": 1, "dut_cores": (COOL,)}, LimitCause.TCP, Confidence.POSSIBLE),
        ({"unit": "b/s", "streams": 4, "window_bytes": 65535.0, "rtt_s": 2.1}, LimitCause.TCP, Confidence.SHOWN),
        ({"streams": 4, "retransmits_per_s": 5e3, "dut_cores": (COOL,)}, LimitCause.TCP, Confidence.LIKELY),
        ({"unit": "b/s", "pcie_bps": 1.1e6}, LimitCause.PCIE, Confidence.LIKELY),
        ({**POLLS}, LimitCause.UNKNOWN, Confidence.NONE),
        ({**POLLS, "call_share": 0.1}, LimitCause.UNKNOWN, Confidence.NONE),
        ({**POLLS, "call_share": 0.9, "loss_ratio": 0.3}, LimitCause.ONE_CORE, Confidence.SHOWN),
        ({"dut_cores": (COOL, HOT), "polling": frozenset({0, 1}), "call_share": 0.9}, LimitCause.ALL_CORES, Confidence.LIKELY),
        ({"dut_cores": (COOL, HOT), "polling": frozenset({0})}, LimitCause.ONE_CORE, Confidence.LIKELY),
        ({**POLLS, "loss_ratio": 0.3, "places": {"DUT in": 1.0}}, LimitCause.UNKNOWN, Confidence.NONE),
        ({**POLLS, "loss_ratio": 0.3, "places": {"DUT in": 1.0}, "cycle_share": 0.2}, LimitCause.NIC, Confidence.LIKELY),
        ({**POLLS, "loss_ratio": 0.3, "places": {"DUT in": 1.0}, "cycle_share": 0.99}, LimitCause.ONE_CORE, Confidence.SHOWN),
        ({**POLLS, "cycle_share": 0.99, "shared_cores": "all work here"}, LimitCause.SHARED_CORES, Confidence.POSSIBLE),
        ({**POLLS, "sink_core": 100.0}, LimitCause.UNKNOWN, Confidence.NONE),
        ({**POLLS, "sink_core": 100.0, "dut_cores": (HOT,)}, LimitCause.UNKNOWN, Confidence.NONE),
        ({**POLLS, "streams": 1}, LimitCause.UNKNOWN, Confidence.NONE),
        ({}, LimitCause.UNKNOWN, Confidence.NONE),
    ],
)  # fmt: skip
def test_each_limit_is_told_from_what_was_measured(facts: dict[str, Any], limit: LimitCause, confidence: Confidence) -> None:
    found = limit_of_result(replace(TENTH, **facts))
    assert (found.limit, found.confidence) == (limit, confidence)
    assert found.next_experiment
    assert found.evidence or limit is LimitCause.UNKNOWN


FAST_LINE = tcp_goodput(TEN_G)
FAST = Facts(value=9.84e9, unit="b/s", line=FAST_LINE, assumed="1500 bytes assumed", other_lines=other_goodputs(FAST_LINE, mtu=None))
BLAMED = replace(TENTH, dut_cores=(COOL, HOT), loss_ratio=0.3, other_modes={"router": 2e6})
EASY = replace(TENTH, asked=TENTH.value, sent=TENTH.value, loss_ratio=0.0, neighbours=(Neighbour("1518-byte frames", 1518, 1e6),))


def test_what_is_said_of_limits_is_the_golden_page(golden: Golden) -> None:
    every = [apu6("linux", "64b"), *(e302(mode) for mode in ("router", "filter-empty", "nat")), SMALL, BLAMED, EASY, FAST]
    every += [replace(FAST, value=9.27e9, most_seen=9.84e9), replace(FAST, value=9.48e9), unknown := Facts(value=1e6, unit="pps")]
    found = limit_of_result(unknown)
    golden.check("limits.txt", page(map(limit_of_result, every)) + "\n".join((found.next_experiment, *found.missing)) + "\n")


@pytest.mark.parametrize(
    "veto", [{"void": ("other work disturbed the trial",)}, {"rig": "limited by the rig"}, {"untested": "no upper bound"}]
)
def test_a_doubt_that_forbids_it_leaves_nothing_to_blame_on_the_dut(veto: dict[str, Any]) -> None:
    assert "DUT" in limit_of_result(BLAMED).words
    found = limit_of_result(replace(BLAMED, **veto))
    assert "DUT's" not in found.words and not any("DUT's" in o for o in found.others)
    assert next(iter(veto.values()))[0] in found.evidence or next(iter(veto.values())) in found.evidence


def test_a_load_that_came_through_whole_says_nothing_of_the_dut() -> None:
    found = limit_of_result(EASY)
    assert (found.limit, found.next_experiment) == (LimitCause.UNKNOWN, "offer more")
    # The same rate with other frames was asked for, too.
    lossy = replace(EASY, value=0.97 * EASY.value, pps=0.97 * EASY.value, loss_ratio=0.03)
    assert (limit_of_result(lossy).limit, limit_of_result(lossy).confidence) != (LimitCause.PER_PACKET, Confidence.LIKELY)
    # Less than was asked, at the same rate with other frames, is the DUT's own.
    full = replace(EASY, asked=2 * EASY.value, loss_ratio=0.5)
    assert (limit_of_result(full).limit, limit_of_result(full).confidence) == (LimitCause.PER_PACKET, Confidence.LIKELY)


def test_a_mode_that_is_slower_while_the_dut_idles_is_not_its_processors_work() -> None:
    far = Facts(value=50e6, unit="b/s", streams=1, dut_cores=(COOL,), other_modes={"router": 1e9})
    assert (limit_of_result(far).limit, limit_of_result(far).confidence) == (LimitCause.TCP, Confidence.POSSIBLE)
    assert limit_of_result(replace(far, dut_cores=())).limit is LimitCause.MODE


def test_a_rig_at_line_rate_leaves_the_line_as_the_limit() -> None:
    assert limit_of_result(replace(TENTH, value=9.9e6, rig="headroom 1.01")).limit is LimitCause.LINE


def test_above_its_ceiling_the_assumption_is_at_fault_and_named() -> None:
    found = limit_of_result(FAST)  # with MTU 9000 the ceiling is 1e10 * (9000 - 52) / 9038
    assert (found.limit, found.confidence) == (LimitCause.LINE, Confidence.LIKELY)
    assert limit_of_result(replace(FAST, value=9.27e9, most_seen=9.84e9)).confidence is Confidence.POSSIBLE


def test_above_every_ceiling_there_is_no_verdict() -> None:
    line = frames(TEN_G, 64).pps  # 1e10 / 672
    found = limit_of_result(Facts(value=15.88e6, unit="pps", line=line, other_modes={"router": 20e6}))
    assert found.limit is LimitCause.UNKNOWN and "106.7%" in found.evidence[0]
    assert limit_of_result(Facts(value=1.01 * line, unit="pps", line=line)).limit is LimitCause.LINE  # a second that two clocks cut


NUMBERS = st.none() | st.floats(0, 1e12)


@settings(max_examples=60)
@given(
    st.builds(
        Facts, value=st.floats(0, 1e12), unit=st.sampled_from(["pps", "b/s"]), line=NUMBERS, pps=NUMBERS, mean_bytes=NUMBERS, asked=NUMBERS,
        sent=NUMBERS, loss_ratio=st.none() | st.floats(0, 1), refused_ratio=st.none() | st.floats(0, 1), generator_best=NUMBERS,
        table_entries=NUMBERS, table_size=NUMBERS, window_bytes=NUMBERS, rtt_s=NUMBERS, streams=st.none() | st.integers(1, 8),
        neighbours=st.lists(st.builds(Neighbour, name=st.text(), mean_bytes=st.floats(0, 1e4), pps=st.floats(0, 1e9)), max_size=3),
        other_modes=st.dictionaries(st.text(), st.floats(0, 1e12), max_size=3),
        dut_cores=st.lists(st.builds(Core, number=st.integers(0, 99), shares=st.dictionaries(st.text(), st.floats(0, 100), max_size=3)), max_size=3),
    )
)  # fmt: skip
def test_any_facts_have_a_verdict(facts: Facts) -> None:
    found = limit_of_result(facts)
    assert found.words
    assert found.next_experiment


def test_what_a_polling_input_found_at_once_is_told_of_the_one_that_found_most() -> None:
    def trial(n: int, calls: float, frames: float) -> TrialRecord:
        counters = {
            "vpp_dpdk-input_calls": calls,
            "vpp_dpdk-input_vectors": frames,
            "vpp_tap-input_calls": 9.0,
            "vpp_tap-input_vectors": 9.0,
        }
        return record(n).model_copy(update={"counters": {"dut": counters}})

    trials = [trial(1, 100, 25600 * 0.9), trial(2, 100, 25600), trial(3, 100, 25600 * 0.8)]
    assert _call_share(Group("router", trials[0].cell, [1, 2, 3], trials), "dut") == pytest.approx(0.9)
    assert _call_share(Group("router", trials[0].cell, [1], [record(1)]), "dut") is None
    pmd = """pmd thread numa_id 0 core_id 1:
  packets received: 900
  idle cycles: 1000 (10.00%)
  processing cycles: 9000 (90.00%)
pmd thread numa_id 0 core_id 2:
  polling cycles:500 (100.00%)
main thread:
  packets received: 7
  processing cycles: 70 (100.00%)
"""
    lcores = """{"/eal/lcore/usage": {"lcore_ids": [3], "total_cycles": [800], "busy_cycles": [600]}}
{"/eal/lcore/usage": {"lcore_ids": [], "total_cycles": [], "busy_cycles": []}}
{"/eal/lcore/usage": null}
Error connecting to /run/dpdk/other/dpdk_telemetry.v2
"""
    cycles = parse_polled(pmd, lcores)
    whole = {name: cycles[name + CYCLES] for name in ("pmd1", "pmd2", "lcore3")}
    assert len(cycles) == 5 and whole == {"pmd1": 10000, "pmd2": 500, "lcore3": 800}
    counted = record(1).model_copy(update={"counters": {"dut": cycles}})
    assert _cycle_share(Group("router", trials[0].cell, [1], [counted]), "dut") == 0.9
    assert _cycle_share(Group("router", trials[0].cell, [1], [record(1)]), "dut") is None


def test_what_the_duts_cards_counted_is_a_share_of_the_lost_frames_of_its_test_ports_alone() -> None:
    counters = {"in-a_rx_no_buffer": 60.0, "in-a_rx_buffer_late": 9.0, "eth0_rx_no_buffer": 99.0, "in-a_over_allowance": 500.0}
    counted = record(1).model_copy(update={"counters": {"dut": counters}})
    group, bed = Group("router", counted.cell, [1], [counted]), SimpleNamespace(hosts={"dut": {"interfaces": {"in-a": {}}}}, dut="dut")
    assert _at_cards(group, [SimpleNamespace(lost_frames=100)], bed) == {"rx_no_buffer": 0.6, "over_allowance": 1.0}  # type: ignore[arg-type, list-item]
    assert _at_cards(group, [], bed) == {}  # type: ignore[arg-type]


def test_threads_that_run_or_wait_all_the_time_poll() -> None:
    threads = {"pmd": ThreadTime(0.2, 0.31), "napi/in-a": ThreadTime(0.5, 0.0), "iperf3": ThreadTime(0.3, 0.1)}
    assert busy_threads(replace(interference(0.0), seconds=0.5, threads=threads)) == ("pmd", "napi/in-a")


def test_busy_cores_of_this_machine_are_no_fact_of_the_dut_since_other_programs_run_here_too() -> None:
    busy = WatchedCores(0.5, {0: CoreShare(busy_percent=100.0, stolen_percent=0.0), 1: CoreShare(3.0, 0.0)})
    elsewhere = host_at("dut", "root@192.0.2.1", system=SYSTEMS["vpp"])
    assert _polling(elsewhere, busy) == {POLLING_CORES: [0]}
    assert _polling(NetnsHost("dut", "box", system=SYSTEMS["vpp"]), busy) == _polling(elsewhere, None) == {}
