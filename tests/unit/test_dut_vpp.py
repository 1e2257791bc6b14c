"""Family vpp against its transcript: the very commands, the way back from everywhere, and what verify notices."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cells import setting_of
from dut_families import EXAMPLES, ProberOf, failed, there_and_back, ways_of
from dutlab.dut import family
from dutlab.dut.mode import OfFlows
from dutlab.dut.privilege import Root
from dutlab.dut.vpp_state import read
from dutlab.errors import CommandFailed, HostError
from dutlab.spec.loader import load_testbed
from golden import Golden
from transcript import TranscriptHost

BED = load_testbed(EXAMPLES / "vpp.yaml")
MODES = ("router", "filter-empty", "filter-1", "filter-25", "filter-default", "nat")
WAYS = ways_of(MODES)


async def applied(mode: str, **changes: str) -> TranscriptHost:
    dut = TranscriptHost.of("vpp", **changes)
    await family("vpp").modes[mode].apply(dut, BED)
    return dut


async def test_every_mode_holds_once_it_was_applied_and_the_way_leads_back_from_it_and_from_pairs() -> None:
    for mode in MODES:
        assert await failed("vpp", mode, await applied(mode), testbed=BED) == {}
    for modes in WAYS:
        await there_and_back("vpp", modes, TranscriptHost.of("vpp"), BED)


async def test_a_filter_takes_off_what_was_applied_and_applies_its_own_lists(golden: Golden) -> None:
    golden.check("commands-vpp-nat.txt", "".join(f"{c}\n" for c in (await applied("nat")).commands if "show" not in c))


@pytest.mark.parametrize(
    ("mode", "tampered", "noticed"),
    [
        ("router", {"up": "no"}, {"the DUT's ports are up"}),
        ("router", {"in2": "0"}, {"access lists are those of the mode"}),
        ("router", {"nat": "on"}, {"translation is that of the mode"}),
        ("nat", {"nat": "off"}, {"translation is that of the mode", "link a: the flow is tracked"}),
        ("filter-default", {"in2": "-"}, {"access lists are those of the mode"}),
        ("filter-empty", {"sessions": "0"}, {"link a: the flow is tracked"}),
        ("filter-empty", {"sessions": "left"}, {"link a: the flow is tracked"}),
    ],
)
async def test_what_somebody_changed_meanwhile_is_noticed(mode: str, tampered: dict[str, str], noticed: set[str]) -> None:
    dut = await applied(mode)
    if tampered == {"nat": "off"}:
        summary = next(e for e in dut.exchanges if e.argv == ("vppctl", "show", "nat44", "summary"))
        summary.needs, summary.stdout = {}, "max translations per thread: 64512 fib 0\ntotal sessions: 0\n"
    dut.state.update(tampered)
    assert set(await failed("vpp", mode, dut, testbed=BED)) == noticed


async def test_a_failure_of_vpp_is_noticed_although_vppctl_ends_with_0_and_another_users_translation_is_kept() -> None:
    dut = TranscriptHost.of("vpp")
    refusing = next(e for e in dut.exchanges if e.argv[:3] == ("vppctl", "nat44", "plugin"))
    refusing.stdout = "\x1b[0;31mnat44 plugin: enable failed\x1b[0m\n"
    with pytest.raises(CommandFailed, match="nat44 plugin: enable failed"):
        await family("vpp").modes["nat"].apply(dut, BED)
    with pytest.raises(HostError, match="TenGigabitEthernet3/0/0, TenGigabitEthernet3/0/1"):
        await family("vpp").modes["router"].undo(TranscriptHost.of("vpp", nat="on"), BED)
    with pytest.raises(HostError, match="no port"):  # its addresses and mappings may exist without a port
        await family("vpp").modes["router"].undo(TranscriptHost.of("vpp", nat="enabled"), BED)


async def test_ports_that_translate_on_their_output_are_translating() -> None:
    """Recorded from VPP 26.10 after `set interface nat44 out … output-feature`."""
    dut = TranscriptHost.of("vpp")
    shown = next(e for e in dut.exchanges if e.argv == ("vppctl", "show", "nat44", "interfaces"))
    shown.stdout = "NAT44 interfaces:\n TenGigabitEthernet3/0/1 output-feature in out\n"
    assert (await read(await Root.on(dut))).translates == {"TenGigabitEthernet3/0/1": "in"}


async def test_a_list_other_than_the_asked_one_is_refused_and_deleted() -> None:
    """VPP 26.10 stops at a word that it does not know, makes a list that permits everything, and reports success."""
    dut = TranscriptHost.of("vpp")
    shown = next(e for e in dut.exchanges if e.needs == {"lists": "empty"} and e.argv[-2:] == ("acl-plugin", "acl"))
    shown.stdout = (
        "acl-index 1 count 1 tag {cli}\n          0: ipv4 permit src 0.0.0.0/0 dst 0.0.0.0/0 proto 0 sport 0-65535 dport 0-65535\n"
    )
    with pytest.raises(HostError, match="dutlab-empty"):
        await family("vpp").modes["filter-empty"].apply(dut, BED)
    assert dut.state["lists"] == "theirs"
    assert dut.state["in1"] == "-"


async def test_rules_that_somebody_replaced_are_noticed() -> None:
    dut = await applied("filter-1")
    shown = next(e for e in dut.exchanges if e.needs == {"lists": "filters-1"} and e.argv[-2:] == ("acl-plugin", "acl"))
    shown.stdout = shown.stdout.replace("permit src 172.16.0.0/24 dst 172.16.10.0/24", "permit src 0.0.0.0/0 dst 172.16.10.0/24")
    assert "access lists are those of the mode" in await failed("vpp", "filter-1", dut, testbed=BED)


async def test_a_list_that_is_deleted_says_so_in_words_of_its_own() -> None:
    dut = await applied("filter-default")
    await family("vpp").modes["router"].apply(dut, BED)
    assert dut.state["lists"] == "theirs"
    for deleting in (e for e in dut.exchanges if e.argv[1:2] == ("delete",)):
        deleting.stdout = "acl_del_list: failed\n"
    await family("vpp").modes["filter-default"].apply(dut, BED)
    with pytest.raises(CommandFailed, match="acl_del_list: failed"):
        await family("vpp").modes["router"].apply(dut, BED)


async def test_translation_holds_the_flows_of_the_experiment_and_the_limit_is_in_the_record() -> None:
    nat = family("vpp").modes["nat"]
    assert isinstance(nat, OfFlows)
    dut = TranscriptHost.of("vpp")
    enable = next(e for e in dut.exchanges if "sessions" in e.argv and "enable" in e.argv)
    enable.argv = (*enable.argv[:-1], "2000000")
    await nat.sized_for(1_000_000).apply(dut, BED)
    (sized,) = (c for c in await nat.sized_for(1_000_000).verify(dut, BED, ProberOf("nat", BED)) if "2000000" in c.statement)
    assert (sized.passed, sized.found) == (False, "64512"), "as the transcript's VPP says of itself"
    (usual,) = (c for c in await nat.verify(dut, BED, ProberOf("nat", BED)) if "64512" in c.statement)
    assert usual.passed


@pytest.mark.parametrize(("flows", "few"), [(500_000, False), (500_001, True)])
async def test_the_limit_of_sessions_that_vpp_does_not_show_is_named_beside_the_flows_of_the_experiment(flows: int, few: bool) -> None:
    mode = family("vpp").modes["filter-default"]
    assert isinstance(mode, OfFlows)
    checks = {
        c.statement: c for c in await mode.sized_for(flows).verify(await applied("filter-default"), BED, ProberOf("filter-default", BED))
    }
    check = checks["acl-plugin takes as many sessions as VPP was started with"]
    assert "500000" in check.found and (f"{flows} flows" in check.found) is few
    assert not [
        c for c in await family("vpp").modes["filter-25"].checks_of_state(await applied("filter-25"), BED) if "sessions" in c.statement
    ]


STATE = {"tests": "rate", "trial_s": 0.5, "loss_ratio": 0.001, "most_flows": 70000, "destination_ports": 2, "budget_s": 60.0}


@pytest.mark.parametrize(
    ("workload", "given", "flows"),
    [
        ("sweep", {}, 1), ("iperf3", {"streams": 4}, 4), ("sweep", {"traffic": {"flows": 512}, "directions": "both"}, 1024),
        ("state", {**STATE, "table_flows": 80000}, 80000), ("routes", {"routes": 1000, "duration_s": 1.0}, 1000), ("path-mtu", {}, 1),
    ],
)  # fmt: skip
def test_a_setting_says_how_many_flows_a_link_has_at_once(workload: str, given: dict[str, Any], flows: int) -> None:
    assert setting_of(workload, **given).flows == flows


async def test_every_exchange_of_the_transcript_is_asked_for() -> None:
    dut = TranscriptHost.of("vpp")
    for modes in WAYS:
        await there_and_back("vpp", modes, dut, BED)
    for mode in MODES:
        await family("vpp").modes[mode].apply(dut, BED)
        await failed("vpp", mode, dut, testbed=BED)
    for nat in ("on", "enabled"):
        dut.state.update(nat=nat, sessions="0")
        with pytest.raises(HostError):
            await family("vpp").modes["router"].undo(dut, BED)
    await family("vpp").modes["router"].apply(dut, BED)
    assert dut.state["nat"] == "off"
    for sessions in ("0", "left"):
        dut.state.update(up="no", sessions=sessions, lists="full", nat="off", in1="1", in2="-", out2="3")
        await failed("vpp", "filter-default", dut, testbed=BED)
    assert dut.unused() == []


async def test_the_way_back_is_shell_that_finds_our_lists_and_no_others(tmp_path: Path) -> None:
    steps = await family("vpp").modes["nat"].undo(TranscriptHost.of("vpp"), BED)
    shown = next(e.stdout for e in TranscriptHost.of("vpp").exchanges if "dutlab-inner-a" in e.stdout)
    (tmp_path / "shown").write_text(shown)
    vppctl = tmp_path / "vppctl"
    vppctl.write_text('#!/bin/sh\ncase $1 in show) cat "$D/shown" ;; *) echo "$*" >>"$D/ran" ;; esac\n')
    vppctl.chmod(0o755)
    subprocess.run(steps[1].argv, check=True, env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "D": str(tmp_path)})
    ran = (tmp_path / "ran").read_text().splitlines()
    assert [line for line in ran if line.startswith("delete")] == [f"delete acl-plugin acl index {n}" for n in (1, 2, 3)]
    assert ran[-2:] == [f"set acl-plugin interface TenGigabitEthernet3/0/1 input acl 0{' del' * off}" for off in (True, False)]
