"""The modes of family linux on a real kernel, verified by real frames, and broken on purpose to see that verify notices."""

from __future__ import annotations

import shutil
from dataclasses import replace
from ipaddress import IPv4Interface, IPv6Interface, ip_address

import pytest

from capability import need_program, needs
from dutlab.dut import family, linux_tracking, nft_rules
from dutlab.dut.custom import CommandMode
from dutlab.errors import HostError
from dutlab.spec.experiment import CustomMode

pytestmark = pytest.mark.usefixtures("cheap_rig")
MODES = family("linux").modes
STATE = """
for f in /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/*/forwarding /proc/sys/net/ipv4/conf/*/accept_redirects \
/proc/sys/net/ipv4/conf/*/send_redirects /proc/sys/net/ipv4/conf/*/rp_filter /proc/sys/net/ipv6/conf/*/forwarding; do echo "$f $(cat $f)"; done
nft list ruleset
"""
RULES_OF_SOMEBODY = """
table ip theirs {
	comment "kept by hand"
	set blocked {
		type ipv4_addr
		flags interval
		elements = { 192.0.2.0/24, 198.51.100.7 }
	}
	counter seen {
		packets 42 bytes 4711
	}
	chain forward {
		type filter hook forward priority 5; policy accept;
		ip saddr @blocked counter packets 3 bytes 180 drop comment "we know them"
		counter name "seen" limit rate 10/second accept
	}
}
table bridge layers {
}
"""

_machine = needs("nft")


@pytest.fixture
def dut(hosts):
    return hosts["dut"]


def bad(checks):
    return {c.statement: c.found for c in checks if not c.passed}


async def state(dut):
    return (await dut.run(["sh", "-c", STATE])).text


def one_link(testbed, name):
    return testbed.model_copy(update={"links": {name: testbed.links[name]}})


async def test_every_mode_behaves_as_itself_coming_from_any_other(lab, dut, engine):
    """It is verified by frames in every state of rules and settings that it has after another mode."""
    names = list(MODES)
    walk, proven = [names[0]], set[tuple[str, str]]()
    unseen = {(a, b) for a in names for b in names if a != b}
    while unseen:  # each step takes an ordered pair that was not yet walked, or moves to where one begins
        onward = next((b for a, b in sorted(unseen) if a == walk[-1]), None) or next(a for a, _ in sorted(unseen))
        unseen.discard((walk[-1], onward))
        walk.append(onward)
    for name in walk:
        await MODES[name].apply(dut, lab.testbed)
        if (now := (name, await state(dut))) in proven:
            continue
        checks = await MODES[name].verify(dut, lab.testbed, engine)
        assert bad(checks) == {}, f"{name} in {walk}"
        assert len(checks) == 2 + MODES[name].declared.behaviour.tracks + len(lab.testbed.links) * 4
        proven.add(now)
    assert {name for name, _ in proven} == set(names)


async def carried_out(dut, steps):
    for step in steps:
        assert step.host == "dut"
        await dut.run(step.argv, stdin=step.stdin.encode())


async def test_undo_puts_an_untouched_dut_back_to_the_letter(lab, dut):
    before = await state(dut)
    for name, mode in MODES.items():
        undo = await mode.undo(dut, lab.testbed)
        assert await state(dut) == before, f"{name}: to look is not to touch"
        await mode.apply(dut, lab.testbed)
        assert await state(dut) != before, name
        await carried_out(dut, undo)
        assert await state(dut) == before, name


SETTINGS_OF_SOMEBODY = (
    "net/ipv4/conf/in-a/forwarding=1",
    "net/ipv4/conf/all/accept_redirects=0",
    "net/ipv6/conf/out-b/forwarding=1",
)


async def test_undo_puts_rules_and_settings_of_somebody_else_back_to_the_letter(lab, dut):
    await dut.run(["nft", "-f", "-"], stdin=RULES_OF_SOMEBODY.encode())
    await dut.run(["sysctl", "-q", "-w", *SETTINGS_OF_SOMEBODY])
    before = await state(dut)
    assert "we know them" in before
    for name, mode in MODES.items():
        undo = await mode.undo(dut, lab.testbed)
        await mode.apply(dut, lab.testbed)
        assert "theirs" not in await state(dut), name
        await carried_out(dut, undo)
        assert await state(dut) == before, name


OWN_RULES = """#!/usr/sbin/nft -f
flush ruleset
table ip kept {
	chain onward {
		type filter hook forward priority filter; policy drop;
		ip saddr 198.51.100.7 counter drop comment "theirs"
	}
}
"""


async def test_the_ruleset_that_the_machine_loads_by_itself_stays_and_test_traffic_passes_behind_it(
    lab, dut, engine, monkeypatch, tmp_path
):
    own = tmp_path / "nftables.conf"
    own.write_text(OWN_RULES)
    monkeypatch.setattr(nft_rules, "OWN", str(own))
    await MODES["nat"].apply(dut, lab.testbed)
    await MODES["filter-own"].apply(dut, lab.testbed)
    listed = (await dut.run(["nft", "list", "ruleset"])).text
    assert "policy drop" in listed and "dutlab" not in listed
    assert listed.index('comment "theirs"') < listed.index("ct state")
    assert bad(await MODES["filter-own"].verify(dut, lab.testbed, engine)) == {}
    await dut.run(["nft", "insert", "rule", "ip", "kept", "onward", "drop"])
    assert "link a: a permitted flow passes" in bad(await MODES["filter-own"].verify(dut, lab.testbed, engine))
    own.unlink()
    with pytest.raises(HostError, match=r"dut: it has no ruleset in .*nftables\.conf; leave mode filter-own out"):
        await MODES["filter-own"].apply(dut, lab.testbed)


async def test_undo_from_one_mode_leads_back_to_another(lab, dut, engine):
    await MODES["nat"].apply(dut, lab.testbed)
    before = await state(dut)
    undo = await MODES["router"].undo(dut, lab.testbed)
    await MODES["router"].apply(dut, lab.testbed)
    for step in (*undo, *undo):  # twice, as after a crash in mid-undo
        await dut.run(step.argv, stdin=step.stdin.encode())
    assert await state(dut) == before
    assert bad(await MODES["nat"].verify(dut, one_link(lab.testbed, "a"), engine)) == {}


def odd(chain, rule):
    return f"nft 'add table ip odd; add chain ip odd c {{ {chain}; }}; add rule ip odd c {rule}'"


MASQUERADE = odd("type nat hook postrouting priority srcnat", "oifname out-b masquerade")
BROKEN = [
    ("router", "sysctl -q -w net/ipv4/ip_forward=0", "the DUT forwards IPv4"),
    ("router", "sysctl -q -w net/ipv4/conf/in-a/forwarding=0", "link a: a permitted flow passes"),
    ("router", MASQUERADE, "link b: it arrives untranslated from 172.16.1.2"),
    ("router", odd("type filter hook forward priority 0", "ct state new accept"), "link a: the flow is not tracked"),
    ("router", odd("type filter hook forward priority 0", "iifname out-a drop"), "link a: a new flow from outside passes"),
    ("filter-empty", "nft flush ruleset", "link a: the flow is tracked"),
    ("filter-empty", odd("type filter hook prerouting priority -301", "notrack"), "link b: the flow is tracked"),
    ("filter-empty", "nft 'add chain inet dutlab forward { policy drop; }'", "link a: a permitted flow passes"),
    ("filter-default", "nft 'add chain inet dutlab forward { policy accept; }'", "link a: a new flow from outside is dropped"),
    ("filter-default", "nft 'add rule inet dutlab forward iifname out-b accept'", "link b: a new flow from outside is dropped"),
    ("filter-default", "nft flush chain inet dutlab forward", "link a: a permitted flow passes"),
    ("filter-default", MASQUERADE, "link b: it arrives untranslated from 172.16.1.2"),
    ("nat", "nft flush chain inet dutlab postrouting", "link a: it arrives translated to 172.16.10.1"),
    ("nat", "nft 'insert rule inet dutlab postrouting oifname out-b accept'", "link b: it arrives translated to 172.16.11.1"),
    (
        "nat",
        "nft 'insert rule inet dutlab postrouting oifname out-b snat ip to 172.16.11.9'",
        "link b: it arrives translated to 172.16.11.1",
    ),
    ("nat", "nft 'add chain inet dutlab forward { policy accept; }'", "link b: a new flow from outside is dropped"),
]


@pytest.mark.parametrize("mode", dict.fromkeys(mode for mode, _, _ in BROKEN))
async def test_a_mode_that_was_tampered_with_does_not_pass(lab, dut, engine, mode):
    undo = await MODES[mode].undo(dut, lab.testbed)
    for breaks, noticed in [(breaks, noticed) for of, breaks, noticed in BROKEN if of == mode]:
        await MODES[mode].apply(dut, lab.testbed)
        await dut.run(["sh", "-c", breaks])
        bed = one_link(lab.testbed, "b" if noticed.startswith("link b") else "a")
        assert noticed in bad(await MODES[mode].verify(dut, bed, engine)), breaks
        await carried_out(dut, undo)


async def test_nft_takes_the_rulesets_of_ipv6_links_and_of_names_with_dots(lab, dut):
    four, six = lab.testbed.links["a"], lab.testbed.links["b"]
    addresses = tuple(IPv6Interface(a) for a in ("2001:db8::2/64", "2001:db8::1/64", "2001:db8:1::1/64", "2001:db8:1::2/64"))
    dotted = tuple(p.model_copy(update={"interface": "vlan.100"}) if p == six.dut_in else p for p in six.path)
    bed = lab.testbed.model_copy(update={"links": {"four": four, "six": six.model_copy(update={"addresses": addresses, "path": dotted})}})
    assert isinstance(four.source_address, IPv4Interface)
    for rules in (nft_rules.filter_default(bed), nft_rules.nat(bed)):
        await dut.run(["nft", "-c", "-f", "-"], stdin=rules.encode())


async def tracked(dut):
    return int((await dut.run(["cat", "/proc/sys/net/netfilter/nf_conntrack_count"])).text)


async def test_a_flow_tracked_before_does_not_outlive_the_change_of_mode(lab, dut, engine):
    await MODES["filter-empty"].apply(dut, lab.testbed)
    await engine.probe(["a"])
    assert await tracked(dut) > 0
    await MODES["filter-default"].apply(dut, lab.testbed)
    assert await tracked(dut) == 0


async def test_a_router_holds_although_flows_of_a_filter_are_still_tracked(lab, dut, engine):
    await MODES["filter-empty"].apply(dut, lab.testbed)
    assert bad(await MODES["filter-empty"].verify(dut, lab.testbed, engine)) == {}
    await MODES["router"].apply(dut, lab.testbed)
    assert await tracked(dut) > 0
    assert bad(await MODES["router"].verify(dut, lab.testbed, engine)) == {}


class WithPrograms:
    """A host on which only some programs are found."""

    def __init__(self, host, folder, *programs):
        self._host, self._folder = host, folder
        for program in ("sh", "cat", *programs):
            (folder / program).symlink_to(shutil.which(program, path="/usr/bin:/usr/sbin"))  # no wrapper of a tool for versions

    async def run(self, argv, *, check=True):
        return await self._host.run(["/usr/bin/env", f"PATH={self._folder}", *argv], check=check)


@pytest.mark.parametrize("program", linux_tracking.ASKS_KERNEL.names)
async def test_any_of_three_programs_asks_a_kernel_that_shows_no_list(lab, dut, engine, program, tmp_path, monkeypatch):
    need_program(program)
    monkeypatch.setattr(linux_tracking, "_LIST", ("cat", "/proc/net/no-such-list"))
    limited = WithPrograms(dut, tmp_path, program)
    await MODES["filter-empty"].apply(dut, lab.testbed)
    flow, other = (await engine.probe(["a"]))[0].flow, (await engine.probe(["b"]))[0].flow
    assert await linux_tracking.is_tracked(limited, flow)
    assert not await linux_tracking.is_tracked(limited, replace(flow, source_port=other.source_port))
    six = replace(flow, source=ip_address("2001:db8::2"), destination=ip_address("2001:db8::3"))
    assert await linux_tracking.is_tracked(limited, six) is False
    await linux_tracking.forget_flows(limited)
    assert await tracked(dut) == 0


async def test_a_dut_without_any_of_them_is_not_said_to_track_nothing(lab, dut, engine, tmp_path, monkeypatch):
    monkeypatch.setattr(linux_tracking, "_LIST", ("cat", "/proc/net/no-such-list"))
    limited = WithPrograms(dut, tmp_path)
    await MODES["filter-empty"].apply(dut, lab.testbed)
    assert await linux_tracking.is_tracked(limited, (await engine.probe(["a"]))[0].flow) is None
    with pytest.raises(HostError, match="it has none of conntrack, perl, python3"):
        await linux_tracking.forget_flows(limited)


async def test_a_mode_of_commands_from_the_experiment_file_is_applied_verified_and_restored(lab, dut, engine):
    commands = CustomMode.model_validate(
        {
            "name": "mine",
            "apply": ["sysctl -q -w net.ipv4.ip_forward=1", "nft add table inet mine"],
            "verify": ["nft list table inet mine"],
            "restore": ["nft delete table inet mine", "sysctl -q -w net.ipv4.ip_forward=0"],
        }
    )
    mode = CommandMode("mine", commands)
    before = await state(dut)
    undo = await mode.undo(dut, lab.testbed)
    await mode.apply(dut, lab.testbed)
    checks = await mode.verify(dut, lab.testbed, engine)
    assert len(checks) == 3 and bad(checks) == {}
    await dut.run(["nft", "delete", "table", "inet", "mine"])
    assert set(bad(await mode.verify(dut, lab.testbed, engine))) == {"`nft list table inet mine` ends with 0"}
    await dut.run(["nft", "add", "table", "inet", "mine"])
    for step in undo:
        await dut.run(step.argv, stdin=step.stdin.encode())
    assert (await state(dut)).replace("accept_redirects 0", "accept_redirects 1") == before
