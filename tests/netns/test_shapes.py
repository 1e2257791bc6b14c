"""Testbeds of other shapes than source, DUT and sink, from their examples to their records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from capability import have_engine, need, need_program
from run_records import records_below

EXAMPLES = Path(__file__).parents[2] / "examples" / "shapes"
SWEEP = ("duration=200ms", "warmup=0s", "drain=100ms")
SEARCH = ("preset=quick", "warmup=0s", "drain=100ms", "budget=1s")
TCP = ("duration=1s", "omit=0s")

Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(dutlab: Any, tmp_path: Path) -> Run:
    """Carries out an example, cut short, without some of its workloads; returns its records, all of them measured."""

    def carried_out(name: str, *sets: str, without: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
        asked = YAML(typ="safe").load(EXAMPLES / f"{name}.yaml")
        asked["workloads"] = [workload for workload in asked["workloads"] if not without & workload.keys()]
        if isinstance(asked["testbed"], str):
            asked["testbed"] = str(EXAMPLES / asked["testbed"])
        (tmp_path / "experiment.yaml").write_text(json.dumps(asked))
        done = dutlab("run", "experiment.yaml", *(word for one in sets for word in ("--set", one)))
        assert done.returncode == 0, done.stderr
        records = records_below(tmp_path)
        assert [r["why"] for r in records if r["status"] != "measured"] == []
        return records

    return carried_out


def journal(tmp_path: Path) -> list[dict[str, Any]]:
    (path,) = tmp_path.glob("runs/*/journal.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def ran(records: list[dict[str, Any]], program: str) -> set[str]:
    """The hosts on which a program was started."""
    return {c["host"] for r in records for c in r["commands"] if any(word.endswith(program) for word in c["argv"])}


def of_kind(records: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [r for r in records if r["cell"]["setting"]["kind"] == kind]


def seen_by_sink(record: dict[str, Any], link: str) -> str:
    """The source address of frames of a link at its sink, as the check of the mode found it."""
    return next(c["found"] for c in record["checks"] if c["what"].startswith(f"link {link}: it arrives"))


def of(workload: str, *settings: str) -> list[str]:
    return [f"workloads.{workload}.{setting}" for setting in settings]


def test_two_hosts_send_and_two_receive_alone_and_together(run: Run) -> None:
    need("engine", have_engine())
    need_program("iperf3")
    short = [*of("iperf3", *TCP, "links=[[a, b]]"), *of("sweep", *SWEEP, "rates=[2kpps]"), *of("search", *SEARCH, "links=[[a, b]]")]
    records = run("four-hosts", "factors.mode=nat", *short)
    by = {(r["cell"]["setting"]["kind"], "+".join(r["cell"]["links"])): r for r in records}
    assert by.keys() == {("iperf3", "a+b"), ("sweep", "a"), ("sweep", "a+b"), ("search", "a+b")}
    both = by["iperf3", "a+b"]
    assert all(both["figures"][link]["goodput_bps"] > 0 for link in ("a", "b", "a+b"))
    assert {c["host"] for c in both["commands"] if "iperf3" in c["argv"] and "-P" in c["argv"]} == {"s1", "s2"}
    assert all(by["sweep", "a+b"]["figures"][link]["received_pps"] > 0 for link in ("a", "b"))
    assert "172.16.11.1" in seen_by_sink(by["sweep", "a"], "b")


def test_four_hosts_send_to_one_port_and_every_frame_is_accounted_for(run: Run) -> None:
    need("engine", have_engine())
    records = run("fan-in", "factors.mode=router", *of("sweep", *SWEEP, "rates=[1kpps]"), *of("search", *SEARCH))
    sweeps = {"+".join(r["cell"]["links"]): r for r in of_kind(records, "sweep")}
    assert sweeps.keys() == {"a", "a+b+c+d"}
    for links, record in sweeps.items():
        assert [f["link"] for f in record["flows"]] == links.split("+")
        for flow in record["flows"]:
            assert flow["balances"] and flow["intended_frames"] == 200 == flow["sent_frames"] + flow["refused_frames"]
        known = {place for flow in record["flows"] for place in flow["places"]}
        assert "DUT in" in known and ("DUT out" in known) == (links == "a"), "a port that all share tells nothing of one"
        assert "172.16.3.2" in seen_by_sink(record, "d")
    (search,) = of_kind(records, "search")
    assert search["cell"]["links"] == ["a", "b", "c", "d"]


def test_ipv4_and_ipv6_on_one_path_are_driven_at_once_with_an_account_each(run: Run) -> None:
    need("engine", have_engine())
    records = run("dual-stack", *of("sweep", *SWEEP, "rates=[1kpps]"))
    sweeps = {"+".join(r["cell"]["links"]): r for r in records}
    assert sweeps.keys() == {"ipv4", "ipv6", "ipv4+ipv6"}
    for links, record in sweeps.items():
        counts = {f["link"]: (f["intended_frames"], f["received_frames"] + f["lost_frames"] + f["refused_frames"]) for f in record["flows"]}
        assert counts == dict.fromkeys(links.split("+"), (200, 200))
        assert [f["corrupted_frames"] for f in record["flows"]] == [0] * len(counts), "headers of two lengths share a page"
    assert "172.16.0.2" in seen_by_sink(sweeps["ipv4+ipv6"], "ipv4")
    assert "2001:2:0:1::2" in seen_by_sink(sweeps["ipv4+ipv6"], "ipv6")


def test_hosts_of_one_network_are_measured_pair_by_pair_without_the_engine(run: Run, tmp_path: Path) -> None:
    need_program("iperf3")
    records = run("flat", *of("matrix", *TCP))
    names = ("pc1", "pc2", "pc3")
    pairs = {(r["cell"]["setting"]["client"], r["cell"]["setting"]["server"]) for r in of_kind(records, "matrix")}
    assert pairs == {(a, b) for a in names for b in names if a != b}
    (mtu,) = of_kind(records, "path-mtu")
    assert {(row["from"], row["to"], row["path_mtu_bytes"]) for row in mtu["tables"]["path_mtu"]} == {
        (a, f"{b}:eth0", 1500) for a in names for b in names if a != b
    }
    assert mtu["figures"]["lan"]["path_mtu_bytes"] == 1500
    assert not ran(records, "dutlab-engine") and all("engine" not in r["tool_facts"] for r in records)
    (report,) = tmp_path.glob("runs/*/report/report.json")
    assert {s["workload"] for s in json.loads(report.read_text())["runs"][0]["sections"]} >= {"matrix", "path-mtu"}


def test_two_hosts_back_to_back_are_measured_without_a_dut(run: Run) -> None:
    need("engine", have_engine())
    need_program("iperf3")
    records = run("back-to-back", *of("iperf3", *TCP), *of("matrix", "duration=1s"), *of("sweep", *SWEEP))
    assert all(r["checks"] == [] for r in records)
    sweeps = [r["figures"]["a"] for r in of_kind(records, "sweep")]
    assert len(sweeps) == 2 and all(f["received_pps"] > 0 for f in sweeps)
    (mtu,) = of_kind(records, "path-mtu")
    assert {(row["from"], row["to"]) for row in mtu["tables"]["path_mtu"]} == {("source", "sink:eth0"), ("sink", "source:eth0")}


def test_one_host_without_a_link_carries_steps(run: Run, tmp_path: Path) -> None:
    records = run("alone")
    assert len(records) == 2
    assert not ran(records, "dutlab-engine")
    assert not any(line["event"] == "engine-copying" for line in journal(tmp_path))


def test_every_mode_holds_on_a_path_of_six_ports(run: Run) -> None:
    need("engine", have_engine())
    need_program("nft")
    records = run("two-routers", *of("sweep", *SWEEP), without=frozenset({"iperf3"}))
    by = {(r["cell"]["mode"], r["cell"]["setting"]["kind"]): r for r in records}
    assert {mode for mode, _ in by} == {"router", "filter-25", "filter-default", "nat"}
    assert "172.16.5.1" in seen_by_sink(by["nat", "sweep"], "a")
    for mode, hops in (("router", ["router:in-a", "sink:eth-a"]), ("nat", ["sink:eth-a"])):
        rows = by[mode, "path-mtu"]["tables"]["path_mtu"]
        there = [row["to"] for row in rows if row["from"] == "source"]
        assert there == ["dut:in-a", *hops], "a router that the filter hides keeps nobody from the end"
        assert by[mode, "path-mtu"]["figures"]["a"]["path_mtu_bytes"] == 1500
