"""Which programs a plan needs where, and the look for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cells import cell_of
from dutlab.dut import family
from dutlab.errors import ToolMissing, ToolsMissing
from dutlab.hosts.local import LocalHost
from dutlab.hosts.programs import ETHTOOL, IP, IPERF3, NFT, PING, PYTHON3, SYSCTL, TASKSET, UNSHARE, Program, all_there, insist, missing_on
from dutlab.labs import description
from dutlab.plan.cell import Cell
from dutlab.reason import MOST, reason_in
from dutlab.runner.needs import needs_of
from dutlab.spec.testbed import Testbed

LAB = description("three-node").testbed
NO_SUCH, NOR_THIS = Program("dutlab-no-such", "no-such"), Program("dutlab-nor-this", "this", others=("dutlab-nor-that",))


def cell(workload: str = "sweep", mode: str = "router", tool: str = "engine", **params: str | float | None) -> Cell:
    return cell_of(workload, mode=mode, tool=tool, **params)


def needs(*cells: Cell, bed: Testbed = LAB, pinned: dict[str, tuple[int, ...]] | None = None) -> dict[str, set[str]]:
    found = needs_of(bed, cells, family(bed.hosts["dut"].family).modes_among({}), pinned or {}, ("source", "sink"))
    assert all(len(programs) == len(set(programs)) for programs in found.values())
    return {role: {p.name for p in programs} for role, programs in found.items() if programs}


ENDS = {"source": {"ip", "ping"}, "sink": {"ip", "ping"}}


def test_a_router_needs_nft_and_sysctl_and_its_ends_what_finds_the_next_hop() -> None:
    assert needs(cell()) == {**ENDS, "dut": {"nft", "sysctl"}}


@pytest.mark.parametrize("mode", ["filter-empty", "filter-default", "nat"])
def test_a_mode_that_tracks_needs_what_forgets_flows(mode: str) -> None:
    assert needs(cell(mode=mode))["dut"] == {"nft", "sysctl", "conntrack"}


def test_the_mode_that_a_change_ends_in_counts_too() -> None:
    assert "conntrack" in needs(cell("reconf", to="nat"))["dut"]
    assert "conntrack" not in needs(cell("reconf", to="reload"))["dut"]


def test_tunnels_need_what_both_their_ends_are_set_with() -> None:
    found = needs(cell("iperf3", mode="ipsec", tool="iperf3"))
    assert found["source"] == {"ip", "ping", "unshare", "iperf3"}
    assert found["dut"] == {"ip", "unshare", "nft", "sysctl"}


def test_iperf3_is_needed_where_it_runs_and_taskset_where_it_is_pinned() -> None:
    found = needs(cell("iperf3", tool="iperf3"), pinned={"source": (0,), "dut": (1,)})
    assert {role: programs - {"ip", "ping"} for role, programs in found.items()} == {
        "source": {"iperf3", "taskset"}, "sink": {"iperf3"}, "dut": {"nft", "sysctl"}
    }  # fmt: skip
    pair = needs(cell("matrix", tool="iperf3", client="dut", server="sink"))
    assert "iperf3" in pair["dut"] and "iperf3" in pair["sink"] and "iperf3" not in pair["source"]


@pytest.mark.parametrize(
    ("workload", "params", "role", "more"),
    [
        ("routes", {"duration_s": 1.0}, "dut", {"ip"}),
        ("state", {}, "dut", {"conntrack"}),
        ("rfc2544", {"tests": "throughput,reset"}, "dut", {"ip"}),
        ("rfc2544", {"tests": "throughput"}, "dut", set()),
        ("rfc2544", {"tests": "throughput", "modifiers": "routing"}, "dut", {"ip"}),
        ("rfc2544", {"tests": "throughput", "modifiers": "broadcast,management"}, "source", {"python3"}),
    ],
)
def test_workloads_add_what_they_change_the_dut_with(workload: str, params: dict[str, str], role: str, more: set[str]) -> None:
    assert needs(cell(workload, **params))[role] - needs(cell())[role] == more


def test_a_dut_of_another_system_is_asked_for_no_program_of_linux() -> None:
    hosts = {**LAB.hosts, "dut": LAB.hosts["dut"].model_copy(update={"family": "openbsd-pf"})}
    bed = LAB.model_copy(update={"hosts": hosts})
    assert needs(cell(mode="nat"), bed=bed) == ENDS


async def test_what_is_missing_is_named_with_its_package() -> None:
    missing = await missing_on(
        LocalHost("dut"), [NO_SUCH, Program("sh", "dash"), NOR_THIS, Program("dutlab-x", "x", others=("sh",)), NO_SUCH]
    )
    assert [(m.host, m.tool, m.remedy.partition("apt ")[2]) for m in missing] == [
        ("dut", "dutlab-no-such", "install no-such)"), ("dut", "dutlab-nor-this", "install this)"),
    ]  # fmt: skip
    assert await missing_on(LocalHost("dut"), []) == []


async def test_each_host_and_program_is_named_once_whoever_missed_it() -> None:
    def absent(tool: str, host: str, what: str = "is not installed") -> ToolMissing:
        return ToolMissing(f"{tool} {what}", tool=tool, host=host, remedy="install it")

    async def looks() -> str:
        raise absent("nft", "dut", "was seen missing again")

    with pytest.raises(ToolsMissing) as several:
        await all_there([looks()], [absent("nft", "dut"), absent("ping", "source"), absent("ping", "sink")])
    assert [(m.host, m.tool) for m in several.value.missing] == [("dut", "nft"), ("source", "ping"), ("sink", "ping")]
    with pytest.raises(ToolMissing):
        insist([absent("nft", "dut"), absent("nft", "dut")])
    insist([])


def test_every_package_is_one_that_the_scripts_install() -> None:
    script = (Path(__file__).parents[2] / "scripts" / "needs").read_text()
    for program in (ETHTOOL, IP, IPERF3, NFT, PING, SYSCTL, TASKSET):
        assert f"{program.name}:{program.package}" in script
    assert {PYTHON3.package, UNSHARE.package} == {"python3", "util-linux"}


# ---- Why a program failed, in what real programs print


WITHOUT_NETMAP = (Path(__file__).parents[1] / "data" / "pkt-gen" / "without-netmap.txt").read_text()
TRACEBACK = """Traceback (most recent call last):
  File "trex_client.py", line 40, in connect
    self.api = importlib.import_module("trex.stl.api")
ModuleNotFoundError: No module named 'trex'
bye
"""
ARGPARSE = "usage: x [-h] --size SIZE\n  -h, --help   show this message, which has no error in it\nx: error: argument --size: invalid int value: 'a'\n"
NFT_FAILED = "/dev/stdin:3:1-9: Error: Could not process rule: No such file or directory\nadd rule ip x y drop\n            ^\n"
FIO = "warning: a bad option was ignored\nfio: pid=5509, err=5/file:io_u.c:1896, func=io_u error, error=Input/output error\nRun status group 0\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (WITHOUT_NETMAP, "/dev/netmap: No such file or directory"),
        (TRACEBACK, "ModuleNotFoundError: No module named 'trex'"),
        (ARGPARSE, "x: error: argument --size: invalid int value: 'a'"),
        (NFT_FAILED, "/dev/stdin:3:1-9: Error: Could not process rule: No such file or directory"),
        (FIO, "fio: pid=5509, err=5/file:io_u.c:1896, func=io_u error, error=Input/output error"),
        ("one\n  two\n", "one two"),
        ("", ""),
        (" \n\n", ""),
    ],
)
def test_the_line_that_says_it_is_found(text: str, reason: str) -> None:
    assert reason_in(text) == reason


def test_a_long_line_is_cut_and_of_a_text_without_a_reason_the_end_is_told() -> None:
    assert len(reason_in(f"cannot open {'x' * 500}\n")) == MOST
    assert reason_in("a " * 500 + "end").endswith(" a end")
