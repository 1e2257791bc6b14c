"""NAT64 by tayga in the embedded lab: frames that leave as IPv6 and arrive as IPv4, through each mode with rules."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from capability import need_program
from forked import Forked
from main_job import events, only_run, processes_in, records
from processes import eventually

Dutlab = Callable[..., subprocess.CompletedProcess[str]]
PREFIX = "2001:db8:64::/96"
EXPERIMENT = """
experiment: translated
testbed: {lab: three-node}
factors:
  mode: [router, filter-default, nat]
  nat64: ["off", "2001:db8:64::/96"]
workloads:
  - sweep: {frame_sizes: [84, 1498], rates: [500pps], duration: 300ms, warmup: 0s, links: [[a]]}
order: as-written
repeats: 1
disturbed: count
watch: []
"""
OTHERS = """
experiment: translated
testbed: {lab: three-node}
factors: {mode: [nat], nat64: ["2001:db8:64::/96"]}
workloads:
  - stateful-nat:
      {tests: [establishment, throughput, tear-down], frame_sizes: [84], connections: [50], fill_rate: 1kpps, highest: 1kpps, width: 50%,
       scale: 0.005, drain: 100ms, links: [[a]]}
  - iperf3: {streams: 1, omit: 0s, duration: 1s, links: [[a]]}
  - sweep: {frame_sizes: [200], rates: [500pps], duration: 300ms, warmup: 0s, links: [[a]], traffic: {transport: tcp, flows: 8}}
repeats: 1
disturbed: count
watch: []
"""
LIMITS = """
experiment: translated
testbed: {lab: three-node}
factors: {mode: [router], nat64: ["2001:db8:64::/96"]}
workloads:
  - search: {GOALS, frame_sizes: [84], lowest: 50pps, highest: 400pps, warmup: 0s, drain: 100ms, links: [[a]]}
  - latency: {frame_sizes: [84], rate: 400pps, shares: [100%], duration: 300ms, warmup: 0s, drain: 100ms, links: [[a]]}
  - loadtest:
      {frame_sizes: [128], warmup_rate: 100pps, warmup: 200ms, rampup: 3s, hold: 0s, line_rate: 500kbit/s, drain: 100ms, links: [[a]]}
  - soak: {frame_sizes: [84], rate: 400pps, share: 100%, duration: 3s, warmup: 0s, drain: 100ms, links: [[a]]}
  - rfc2544: {tests: [throughput, latency], frame_sizes: [84], scale: 0.001, width: 0.5, latency_repeats: 1, directions: both, links: [[a]]}
order: as-written
repeats: 1
disturbed: count
watch: []
""".replace("GOALS", "goals: [{name: all, loss: 0%, exceed: 0%, final: 200ms, sum: 200ms, width: 50%, initial: 200ms, steps: 1}]")
STATE = "ip -o link; ip address; ip route show table all; ip -6 route; nft list ruleset; sysctl -a 2>/dev/null | grep -E 'disable_ipv6|forwarding'"


@pytest.fixture(autouse=True)
def _machine(no_leak: None) -> None:
    for program in ("tayga", "nft", "iperf3"):
        need_program(program)


def left(label: str) -> str:
    """All that the factor sets, on the hosts that it changes."""
    inside = (["ip", "netns", "exec", f"dutlab-{label}-{host}", "sh", "-c", STATE] for host in ("source", "dut"))
    return "".join(subprocess.run(argv, capture_output=True, text=True, check=True).stdout for argv in inside)


def translators(label: str) -> list[int]:
    return [pid for pid, line in processes_in(label).items() if line.split(b"\0")[0].endswith(b"tayga")]


@pytest.mark.smoke
def test_frames_leave_as_ipv6_and_arrive_as_ipv4_in_each_mode_and_nothing_is_left(
    dutlab: Dutlab, experiment: Callable[[str], str], standing_lab: str, tmp_path: Path
) -> None:
    before = left(standing_lab)
    done = dutlab("run", experiment(EXPERIMENT), "--lab", standing_lab)
    assert done.returncode == 0, done.stderr
    found = {
        (r["cell"]["mode"], r["cell"]["factors"]["nat64"], round(r["flows"][0]["mean_frame_bytes"])): r for r in records(only_run(tmp_path))
    }
    assert {r["status"] for r in found.values()} == {"measured"} and len(found) == 12, done.stderr
    for (mode, level, size), record in found.items():
        (flow,) = record["flows"]
        shorter = 20 if level == PREFIX else 0
        assert flow["received_frames"] == flow["sent_frames"] == 150, (mode, level, flow)
        assert flow["received_bytes"] == 150 * (size - shorter)
        assert flow["sources"] == ["172.16.10.1" if mode == "nat" else "172.16.0.2"]
        checks = {check["what"]: check["passed"] for check in record["checks"]}
        assert checks.get("the translator carried the frames", False) is (level == PREFIX)
    assert left(standing_lab) == before and not translators(standing_lab)
    assert not list(Path("/run").glob("dutlab-tayga-*"))


def test_the_state_of_a_translator_with_masquerade_tcp_and_many_flows_are_measured(
    dutlab: Dutlab, experiment: Callable[[str], str], standing_lab: str, tmp_path: Path
) -> None:
    done = dutlab("run", experiment(OTHERS), "--lab", standing_lab)
    assert done.returncode == 0, done.stderr
    found = {r["cell"]["setting"]["kind"]: r for r in records(only_run(tmp_path))}
    assert {kind: r["status"] for kind, r in found.items()} == dict.fromkeys(("stateful-nat", "iperf3", "sweep"), "measured"), done.stderr
    tables = found["stateful-nat"]["tables"]
    assert {row["different_connections"] for row in tables["establishment_trials"] if row["passed"] == "yes"} == {50}
    (torn,) = tables["tear_down"]
    assert torn["tracked_flows"] >= 2 * 50 and torn["left_connections"] == 0  # each is tracked as IPv6, and as IPv4
    assert found["iperf3"]["figures"]["a"]["goodput_bps"] > 0
    (flow,) = found["sweep"]["flows"]
    assert flow["received_frames"] == flow["sent_frames"] == 150


def test_limits_latency_and_long_loads_are_measured_through_a_translator(
    dutlab: Dutlab, experiment: Callable[[str], str], standing_lab: str, tmp_path: Path
) -> None:
    done = dutlab("run", experiment(LIMITS), "--lab", standing_lab)
    assert done.returncode == 0, done.stderr
    found = {r["cell"]["setting"]["kind"]: r for r in records(only_run(tmp_path))}
    assert {kind: r["status"] for kind, r in found.items()} == dict.fromkeys(
        ("search", "latency", "loadtest", "soak", "rfc2544"), "measured"
    ), done.stderr
    for kind in ("latency", "loadtest", "soak"):
        for flow in found[kind]["flows"]:
            longer = 20 if flow["link"] == "a.back" else -20
            assert flow["balances"] and flow["received_frames"] > 0, (kind, flow)
            assert flow["received_bytes"] == flow["received_frames"] * (flow["mean_frame_bytes"] + longer), (kind, flow)
    assert [flow["link"] for flow in found["loadtest"]["flows"]] == ["a", "a.back"]
    assert 0 < found["search"]["figures"]["a"]["all/lower_pps"] <= 400
    suite = found["rfc2544"]
    assert suite["figures"]["a"]["max_pps"] > 0 and suite["tables"]["arrivals"][0]["trials"] >= 2
    if "throughput_pps" in suite["figures"]["a"]:  # a busy machine may lose a frame at any rate
        assert suite["figures"]["a"]["latency_p50_ns"] > 0


def test_a_translator_that_ends_voids_its_trial_and_after_kill_9_undo_ends_it(
    start: Callable[..., Forked], dutlab: Dutlab, experiment: Callable[[str], str], standing_lab: str, tmp_path: Path
) -> None:
    before = left(standing_lab)
    text = EXPERIMENT.replace("[router, filter-default, nat]", "[filter-default]").replace('"off", ', "").replace("[84, 1498]", "[84]")
    running = start("run", experiment(text.replace("300ms", "5s")), "--lab", standing_lab)

    def begun(kind: str, times: int) -> bool:
        journals = (tmp_path / "runs").glob("*/journal.jsonl")
        return sum(e["event"] == kind for journal in journals for e in events(journal.parent)) >= times

    assert eventually(lambda: begun("trial-started", 1))
    (first,) = translators(standing_lab)
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: begun("trial-started", 2), 60), "the trial is repeated"
    assert list(only_run(tmp_path).glob("trials/*mode-lost*"))
    os.kill(running.pid, signal.SIGKILL)
    running.ended()
    assert len(translators(standing_lab)) == 1
    done = dutlab("undo", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert left(standing_lab) == before and not translators(standing_lab)
