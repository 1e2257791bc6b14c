"""Testbeds of other shapes than source, DUT and sink, from their examples to their records."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from capability import have_engine, need, need_program
from processes import LIMIT_S

EXAMPLES = Path(__file__).parents[2] / "examples" / "shapes"


def run(tmp_path: Path, name: str, *sets: str) -> list[dict[str, Any]]:
    """The records of an example, cut short."""
    words = [word for one in sets for word in ("--set", one)]
    command = [sys.executable, "-c", "from dutlab.cli.main import main; main()", "run", str(EXAMPLES / f"{name}.yaml"), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return [json.loads(p.read_text()) for p in tmp_path.glob("runs/*/trials/*/record.json")]


def journal(tmp_path: Path) -> list[dict[str, Any]]:
    (path,) = tmp_path.glob("runs/*/journal.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def ran(records: list[dict[str, Any]], program: str) -> set[str]:
    """The hosts on which a program was started."""
    return {c["host"] for r in records for c in r["commands"] if any(word.endswith(program) for word in c["argv"])}


def test_two_hosts_send_and_two_receive_alone_and_together(tmp_path: Path) -> None:
    need("engine", have_engine())
    need_program("iperf3")
    short = ("workloads.iperf3.duration=1s", "workloads.iperf3.omit=0s", "workloads.sweep.duration=500ms", "workloads.sweep.rates=[2kpps]")
    search = ("preset=quick", "warmup=0s", "drain=100ms", "budget=4s")
    records = run(tmp_path, "four-hosts", *short, *(f"workloads.search.{one}" for one in search))
    assert {r["status"] for r in records} == {"measured"}
    by = {(r["cell"]["setting"]["kind"], r["cell"]["mode"], "+".join(r["cell"]["links"])): r for r in records}
    assert len(by) == 2 * (3 + 2 + 2)
    for mode in ("router", "nat"):
        both = by["iperf3", mode, "a+b"]
        assert all(both["figures"][link]["goodput_bps"] > 0 for link in ("a", "b", "a+b"))
        assert {c["host"] for c in both["commands"] if "iperf3" in c["argv"] and "-P" in c["argv"]} == {"s1", "s2"}
        sweep = by["sweep", mode, "a+b"]["figures"]
        assert all(sweep[link]["received_pps"] > 0 for link in ("a", "b"))
        checks = {c["what"]: c["found"] for c in by["sweep", mode, "a"]["checks"]}
        seen = {"router": "172.16.1.2", "nat": "172.16.11.1"}[mode]
        assert any(what.startswith("link b: it arrives") and seen in found for what, found in checks.items())


def test_four_hosts_send_to_one_port_and_every_frame_is_accounted_for(tmp_path: Path) -> None:
    need("engine", have_engine())
    short = (
        "workloads.sweep.duration=500ms",
        "workloads.sweep.rates=[1kpps]",
        "workloads.search.preset=quick",
        "workloads.search.budget=4s",
    )
    records = run(tmp_path, "fan-in", *short, "workloads.search.warmup=0s", "workloads.search.drain=100ms")
    assert {r["status"] for r in records} == {"measured"}
    sweeps = {(r["cell"]["mode"], "+".join(r["cell"]["links"])): r for r in records if r["cell"]["setting"]["kind"] == "sweep"}
    assert set(sweeps) == {(mode, links) for mode in ("router", "nat") for links in ("a", "a+b+c+d")}
    for (mode, links), record in sweeps.items():
        assert [f["link"] for f in record["flows"]] == links.split("+")
        for flow in record["flows"]:
            assert flow["balances"] and flow["intended_frames"] == 500 and flow["sent_frames"] + flow["refused_frames"] == 500
        known = {place for flow in record["flows"] for place in flow["places"]}
        assert "DUT in" in known and ("DUT out" in known) == (links == "a"), "a port that all share tells nothing of one"
        checks = {c["what"]: c["found"] for c in record["checks"]}
        seen = {"router": "172.16.3.2", "nat": "172.16.10.1"}[mode]
        assert any(what.startswith("link d: it arrives") and seen in found for what, found in checks.items())
    searches = [r for r in records if r["cell"]["setting"]["kind"] == "search"]
    assert len(searches) == 2 and all(r["cell"]["links"] == ["a", "b", "c", "d"] for r in searches)


def test_hosts_of_one_network_are_measured_pair_by_pair_without_the_engine(tmp_path: Path) -> None:
    need_program("iperf3")
    records = run(tmp_path, "flat", "workloads.matrix.duration=1s", "workloads.matrix.omit=0s")
    assert {r["status"] for r in records} == {"measured"}
    names = ("pc1", "pc2", "pc3")
    pairs = {(r["cell"]["setting"]["client"], r["cell"]["setting"]["server"]) for r in records if r["cell"]["setting"]["kind"] == "matrix"}
    assert pairs == {(a, b) for a in names for b in names if a != b}
    (mtu,) = (r for r in records if r["cell"]["setting"]["kind"] == "path-mtu")
    assert {(row["from"], row["to"], row["path_mtu_bytes"]) for row in mtu["tables"]["path_mtu"]} == {
        (a, f"{b}:eth0", 1500) for a in names for b in names if a != b
    }
    assert mtu["figures"]["lan"]["path_mtu_bytes"] == 1500
    assert not ran(records, "dutlab-engine") and all("engine" not in r["tool_facts"] for r in records)
    (report,) = tmp_path.glob("runs/*/report/report.json")
    assert {s["workload"] for s in json.loads(report.read_text())["runs"][0]["sections"]} >= {"matrix", "path-mtu"}


def test_two_hosts_back_to_back_are_measured_without_a_dut(tmp_path: Path) -> None:
    need("engine", have_engine())
    need_program("iperf3")
    short = [f"workloads.{one}" for one in ("iperf3.duration=1s", "iperf3.omit=0s", "matrix.duration=1s", "sweep.duration=500ms")]
    records = run(tmp_path, "back-to-back", *short)
    assert {r["status"] for r in records} == {"measured"} and all(r["checks"] == [] for r in records)
    sweeps = [r["figures"]["a"] for r in records if r["cell"]["setting"]["kind"] == "sweep"]
    assert len(sweeps) == 2 and all(f["received_pps"] > 0 for f in sweeps)
    (mtu,) = (r for r in records if r["cell"]["setting"]["kind"] == "path-mtu")
    assert {(row["from"], row["to"]) for row in mtu["tables"]["path_mtu"]} == {("source", "sink:eth0"), ("sink", "source:eth0")}


def test_one_host_without_a_link_carries_steps(tmp_path: Path) -> None:
    records = run(tmp_path, "alone")
    assert [r["status"] for r in records] == ["measured", "measured"]
    assert not ran(records, "dutlab-engine")
    assert not any(line["event"] == "engine-copying" for line in journal(tmp_path))


def test_every_mode_holds_on_a_path_of_six_ports(tmp_path: Path) -> None:
    need("engine", have_engine())
    need_program("iperf3")
    need_program("nft")
    short = [f"workloads.{one}" for one in ("iperf3.duration=1s", "iperf3.omit=0s", "sweep.duration=500ms")]
    records = run(tmp_path, "two-routers", *short)
    assert {(r["cell"]["mode"], r["status"]) for r in records} == {
        (mode, "measured") for mode in ("router", "filter-25", "filter-default", "nat")
    }, [r["why"] for r in records]
    by = {(r["cell"]["mode"], r["cell"]["setting"]["kind"]): r for r in records}
    seen = {c["what"]: c["found"] for c in by["nat", "sweep"]["checks"]}
    assert any(what.startswith("link a: it arrives translated") and "172.16.5.1" in found for what, found in seen.items())
    for mode, hops in (("router", ["router:in-a", "sink:eth-a"]), ("nat", ["sink:eth-a"])):
        rows = by[mode, "path-mtu"]["tables"]["path_mtu"]
        there = [row["to"] for row in rows if row["from"] == "source"]
        assert there == ["dut:in-a", *hops], "a router that the filter hides keeps nobody from the end"
        assert by[mode, "path-mtu"]["figures"]["a"]["path_mtu_bytes"] == 1500
