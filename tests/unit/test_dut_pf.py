"""The families with pf, against transcripts: the very commands and rulesets, the way back from everywhere, and what verify notices."""

from __future__ import annotations

import shlex

import pytest

from dut_families import E302, ProberOf, failed, there_and_back, ways_of
from dutlab.dut import family, pf_rules
from dutlab.errors import HostError
from dutlab.runner.undo import carry_out
from transcript import TranscriptHost

TRANSCRIPTS = {"freebsd-pf": ("freebsd-pf",), "pfsense": ("pfsense", "freebsd-pf"), "openbsd-pf": ("openbsd-pf",)}
FAMILIES = tuple(TRANSCRIPTS)
MODES = ("router", "filter-empty", "filter-1", "filter-25", "filter-default", "filter-own", "nat", "nat-open")
WAYS = ways_of(MODES)
each_family = pytest.mark.parametrize("name", FAMILIES)


def found(name: str, **changes: str) -> TranscriptHost:
    return TranscriptHost.of(*TRANSCRIPTS[name], **changes)


async def applied(name: str, mode: str, **changes: str) -> TranscriptHost:
    dut = found(name, **changes)
    await family(name).modes[mode].apply(dut, E302)
    return dut


@each_family
async def test_every_mode_holds_once_it_was_applied(name: str) -> None:
    for mode in MODES:
        dut = await applied(name, mode)
        assert dut.state["forwarding"] == dut.state["forwarding6"] == "1"
        assert (dut.state["pf"], dut.state["rules"]) == (("off", "found") if mode == "router" else ("on", mode))
        assert await failed(name, mode, dut) == {}


@each_family
@pytest.mark.parametrize("pf", ["on", "off"])
async def test_from_every_mode_and_pair_of_modes_the_way_leads_back(name: str, pf: str) -> None:
    for modes in WAYS:
        await there_and_back(name, modes, found(name, pf=pf))


async def test_openbsd_runs_at_full_speed_where_it_can_and_gets_its_policy_back() -> None:
    dut = await applied("openbsd-pf", "router")
    assert [c for c in dut.commands if c.startswith("sysctl hw")] == ["sysctl hw.perfpolicy=manual", "sysctl hw.setperf=100"]
    dut.state["setperf"] = "12"
    assert await failed("openbsd-pf", "router", dut) == {"hw.setperf is 100": "12"}
    fixed = found("openbsd-pf", policy="absent")
    await there_and_back("openbsd-pf", ("nat",), fixed)
    assert not [c for c in fixed.commands if "=" in c and "hw." in c]


async def test_pfsense_gets_the_ruleset_back_that_its_own_software_wrote() -> None:
    steps = await family("pfsense").modes["nat"].undo(found("pfsense"), E302)
    assert steps[2].argv == ("pfctl", "-f", "-")
    assert 'table <bogons> persist file "/etc/bogons"' in steps[2].stdin
    lost = found("pfsense")
    next(e for e in lost.exchanges if e.argv == ("cat", "/tmp/rules.debug")).status = 1
    with pytest.raises(HostError, match=r"/tmp/rules.debug"):
        await family("pfsense").modes["nat"].undo(lost, E302)


@pytest.mark.parametrize("name", ["freebsd-pf", "openbsd-pf"])
async def test_the_transcript_holds_nothing_that_no_mode_asks_for(name: str) -> None:
    asked: set[str] = set()
    held: set[str] = set()
    for mode in MODES:
        for pf in ("on", "off"):
            dut = found(name, pf=pf)
            await there_and_back(name, (mode,), dut)
            again = await applied(name, mode, pf=pf)
            await failed(name, mode, again)
            held = {shlex.join(e.argv) for e in dut.exchanges}
            asked |= {*dut.commands, *again.commands}
    assert held - asked <= {
        "kldload pf",
        "sh -c 'if kldstat -q -m pf; then kldunload pf; fi'",
        "sysctl net.inet6.ip6.forwarding=0 net.inet.ip.forwarding=0",
    }


async def test_a_router_is_pf_switched_off() -> None:
    assert (await applied("freebsd-pf", "router")).commands == [
        "id -u", "sysctl -n net.inet.ip.forwarding", "sysctl -n net.inet6.ip6.forwarding", "sysctl net.inet.ip.forwarding=1",
        "sysctl net.inet6.ip6.forwarding=1", "kldstat -q -m pf", "pfctl -s info", "pfctl -d",
    ]  # fmt: skip
    # A filter is a ruleset, and pf switched on where it was off.
    commands = (await applied("freebsd-pf", "nat", pf="off", forwarding="1", forwarding6="1")).commands
    assert commands[3:] == ["kldstat -q -m pf", "pfctl -F all -f -", "pfctl -s info", "pfctl -e"]
    assert "pfctl -e" not in (await applied("freebsd-pf", "nat", pf="on")).commands


async def test_a_kernel_without_pf_gets_the_module_and_loses_it_again() -> None:
    dut = found("freebsd-pf", module="no", pf="off", rules="none")
    await there_and_back("freebsd-pf", ("nat", "router"), dut)
    assert [c for c in dut.commands if "load" in c] == ["kldload pf", "sh -c 'if kldstat -q -m pf; then kldunload pf; fi'"]
    dut = await applied("freebsd-pf", "router", module="no", pf="off", rules="none")
    assert not [c for c in dut.commands if c.startswith("pfctl")]
    assert await failed("freebsd-pf", "router", dut) == {}
    assert await failed("freebsd-pf", "filter-empty", dut) == {"pf is on": "it is off"}


@each_family
@pytest.mark.parametrize(
    ("mode", "tampered", "noticed"),
    [
        ("nat", {"pf": "off"}, {"pf is on"}),
        ("router", {"pf": "on", "rules": "filter-empty"}, {"pf is off"}),
        ("filter-default", {"forwarding": "0"}, {"net.inet.ip.forwarding is 1"}),
        ("filter-empty", {"rules": "tampered"}, {"pf holds 0 filter rules, 0 translations"}),
        ("filter-default", {"rules": "filter-empty", "flows": "no"}, {"pf holds 12 filter rules, 0 translations", "pf's limit of states is 100000000", "link a: the flow is tracked", "link b: the flow is tracked"}),
        ("filter-default", {"flows": "no"}, {"link a: the flow is tracked", "link b: the flow is tracked"}),
        ("filter-empty", {"rules": "filter-default"}, {"pf holds 0 filter rules, 0 translations", "link a: the flow is not tracked", "link b: the flow is not tracked"}),
    ],
)  # fmt: skip
async def test_what_somebody_changed_meanwhile_is_noticed(name: str, mode: str, tampered: dict[str, str], noticed: set[str]) -> None:
    dut = await applied(name, mode)
    dut.state.update(tampered)
    assert set(await failed(name, mode, dut)) == noticed


async def test_frames_that_do_not_behave_and_another_firewall_are_noticed_whatever_pf_says() -> None:
    dut = await applied("freebsd-pf", "nat")
    assert set(await failed("freebsd-pf", "nat", dut, ProberOf("router"))) == {
        "link a: it arrives translated to 172.16.10.1", "link a: a new flow from outside is dropped",
        "link b: it arrives translated to 172.16.11.1", "link b: a new flow from outside is dropped",
    }  # fmt: skip
    dut = await applied("freebsd-pf", "router", ipfw="on")
    ((what, found_value),) = (await failed("freebsd-pf", "router", dut)).items()
    assert "net.inet.ip.fw.enable" in what and found_value == "1"


async def test_the_way_back_keeps_the_login_that_walks_it() -> None:
    dut = found("freebsd-pf")
    steps = await family("freebsd-pf").modes["nat"].undo(dut, E302)
    assert [s.argv[0] for s in steps] == ["pfctl", "sh", "pfctl", "sysctl"], "the login, pf, the ruleset, forwarding"
    assert "port 22 flags any keep state (sloppy)" in steps[0].stdin


async def test_a_ruleset_that_pfctl_would_not_take_back_is_never_flushed() -> None:
    dut = found("freebsd-pf")
    refused = next(e for e in dut.exchanges if e.argv == ("pfctl", "-n", "-f", "-"))
    refused.status, refused.stderr = 1, "stdin:19: syntax error\n"
    with pytest.raises(HostError, match=r"stdin:19: syntax error"):
        await family("freebsd-pf").modes["router"].undo(dut, E302)
    assert not [c for c in dut.commands if "-F" in c]
    queues = found("freebsd-pf")
    next(e for e in queues.exchanges if e.argv[-1] == "queue").stdout = "queue std on ix2 bandwidth 100M default\n"
    with pytest.raises(HostError, match="queues"):
        await family("freebsd-pf").modes["router"].undo(queues, E302)


@pytest.mark.parametrize("pf", ["on", "off"])
async def test_tables_that_pfsense_filled_while_it_ran_come_back_and_names_are_resolved_again(pf: str) -> None:
    steps = await family("pfsense").modes["router"].undo(found("pfsense", pf=pf), E302)
    replaced = {step.argv[step.argv.index("-t") + 1]: step.stdin for step in steps if "replace" in step.argv}
    assert replaced == {"office": "192.0.2.7\n198.51.100.9\n", "sshguard": "203.0.113.66\n"}, "bogons come from their file"
    dut = found("pfsense", pf=pf, office="gone", sshguard="gone", filterdns="asleep")
    await carry_out(steps, {"dut": dut})
    assert (dut.state["office"], dut.state["sshguard"], dut.state["filterdns"]) == ("back", "back", "woken")


@pytest.mark.parametrize(
    ("argv", "said", "why"),
    [
        (("pfctl", "-s", "ether"), "ether block in proto 0x88cc\n", "Ethernet"),
        (("pfctl", "-v", "-s", "info"), "Syncookies\n  mode                      adaptive\n", "syncookies are adaptive"),
    ],
)
async def test_what_a_flush_resets_and_pfctl_does_not_take_back_is_refused_before_anything_changes(argv, said, why) -> None:
    dut = found("freebsd-pf")
    for exchange in (e for e in dut.exchanges if e.argv == argv):
        exchange.stdout = said
    with pytest.raises(HostError, match=why):
        await family("freebsd-pf").modes["router"].undo(dut, E302)
    assert not [c for c in dut.commands if "-F" in c]


async def test_what_a_flush_resets_and_no_list_shows_is_put_back() -> None:
    dut = found("freebsd-pf")
    taken = next(e for e in dut.exchanges if e.argv == ("pfctl", "-n", "-f", "-"))
    for exchange in (e for e in dut.exchanges if e.argv == ("pfctl", "-v", "-s", "info")):
        exchange.stdout = exchange.stdout.replace("never", "always")
    back = next(e for e in dut.exchanges if e.argv == ("pfctl", "-f", "-"))
    for exchange in (taken, back):
        exchange.stdin = exchange.stdin.replace("set reassemble yes\n", "set reassemble yes\nset syncookies always\n")
    steps = await family("freebsd-pf").modes["router"].undo(dut, E302)
    text = next(step.stdin for step in reversed(steps) if step.argv[0] == "pfctl")
    assert {"set reassemble yes", "set syncookies always", "table <admins> persist const { 192.0.2.7 198.51.100.0/24 }"} <= {
        *text.splitlines()
    }


@each_family
@pytest.mark.parametrize("mode", ["filter-default", "nat", "nat-open"])
async def test_every_stateful_ruleset_of_ours_sets_the_limit_of_states_and_the_record_says_it(name: str, mode: str) -> None:
    dut = await applied(name, mode)
    checks = await family(name).modes[mode].verify(dut, E302, ProberOf(mode))
    assert "100000000" in {c.found for c in checks if "limit of states" in c.statement}
    dut.exchanges = [e for e in dut.exchanges if "100000000" not in e.stdout]
    ((what, limit),) = (await failed(name, mode, dut)).items()
    assert "limit of states" in what and limit == "100000"


async def test_the_systems_own_ruleset_keeps_its_options_and_its_limit_which_the_record_says() -> None:
    dut = await applied("pfsense", "filter-own")
    loaded = next(given for argv, given in dut.ran if "-F" in argv)
    assert loaded.startswith("set limit table-entries 400000\n")
    assert loaded.count("pass in quick on ixl") == 8, "each pair of networks in each direction"
    checks = await family("pfsense").modes["filter-own"].verify(dut, E302, ProberOf("filter-own"))
    assert "100000" in {c.found for c in checks if "limit of states" in c.statement}
    next(e for e in dut.exchanges if e.argv == ("cat", "/tmp/rules.debug")).status = 1
    with pytest.raises(HostError, match=r"/tmp/rules.debug"):
        await family("pfsense").modes["filter-own"].apply(dut, E302)


def test_no_two_filters_that_match_nothing_share_an_address_so_pf_cannot_pass_over_them_in_one_step() -> None:
    words = [line.split() for line in pf_rules.filters(E302, 25).splitlines() if "203.0.113." in line]
    ends = [w[i] for w in words for i in (w.index("from") + 1, w.index("to") + 1)]
    assert (len(words), len(set(ends))) == (24, 48)
