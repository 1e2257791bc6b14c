"""What verify makes of probes and of what the DUT says, told apart by a host and a prober with set answers."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dutlab.dut import family, nft_rules, pf_rules, vpp_rules, vyos_rules
from dutlab.dut.custom import CommandMode
from dutlab.dut.ipsec_rules import REQUIRED
from dutlab.dut.linux_ipsec import RequiringEnd
from dutlab.dut.linux_tracking import is_tracked
from dutlab.dut.mode import SeenProbe, UdpFlow
from dutlab.errors import CommandFailed, HostError, InputError
from dutlab.hosts.black_box import BlackBox
from dutlab.hosts.host import Done
from dutlab.labs import description
from dutlab.spec.known import FAMILY_MODES
from dutlab.systems.linux import LINUX
from dutlab.systems.modes import IKEV2, IPSEC, XFRM
from dutlab.systems.system import System

MODES_PAGE = (Path(__file__).parents[2] / "docs" / "method" / "modes.md").read_text()
LAB = description("three-node").testbed
ALL, NONE = (10, 10), (10, 0)
FLOW_OF = {name: UdpFlow(link.source_address.ip, link.sink_address.ip, 4321, 7) for name, link in LAB.links.items()}


@dataclass
class ScriptedHost:
    """Answers by the first key that the command contains: (status, stdout)."""

    answers: dict[str, tuple[int, str]]
    name: str = "dut"
    system: System = LINUX
    ran: list[str] = field(default_factory=list)

    async def run(self, argv, *, stdin=b"", timeout_s=30.0, check=True):
        command = " ".join(argv)
        self.ran.append(command)
        status, said = next((a for key, a in self.answers.items() if key in command), (0, ""))
        if check and status:
            raise CommandFailed(host=self.name, argv=argv, status=status, stderr_tail=said)
        return Done(self.name, tuple(argv), status, said.encode(), b"", time.time(), 0.0)


@dataclass
class ScriptedProber:
    """The way out and the way back have one answer each; `fewer_at_first` frames are missing from the first probe."""

    out: tuple[int, int] = ALL
    back: tuple[int, int] = ALL
    seen_as: str | None = None
    fewer_at_first: int = 0
    asked: list = field(default_factory=list)

    async def probe(self, links, *, reverse=False):
        self.asked.append((tuple(links), reverse))
        return [self._seen(link, reverse=reverse) for link in links]

    def _seen(self, link, *, reverse):
        sent, received = self.back if reverse else self.out
        self.fewer_at_first, missing = 0, self.fewer_at_first
        here = LAB.links[link].sink_address if reverse else LAB.links[link].source_address
        address = self.seen_as or str(here.ip)
        return SeenProbe(sent, received - missing, address if received else None, FLOW_OF[link])


def tracked(*flows, port=4321):
    return "".join(
        f"ipv4     2 udp      17 29 src={s} dst={d} sport={port} dport=7 [UNREPLIED] src={d} dst={s} sport=7 dport={port}\n"
        for s, d in flows
    )


FLOWS = tracked(("172.16.0.2", "172.16.10.2"), ("172.16.1.2", "172.16.11.2"))


async def failed(mode, prober, *, forwards="1", flows="", legacy="", most="262144"):
    limit = (0, most) if most else (1, "cat: nf_conntrack_max: No such file or directory")
    said = {"ip_forward": (0, forwards), "nf_conntrack_max": limit, "nf_conntrack": (0, flows), "tables_names": (0, legacy)}
    dut = ScriptedHost(said)
    return {c.statement for c in await family("linux").modes[mode].verify(dut, LAB, prober) if not c.passed}


def test_the_family_has_the_modes_that_files_may_name_and_an_unknown_one_is_refused():
    assert set(family("linux").modes_among({})) == set(FAMILY_MODES["linux"])
    assert all(name == mode.name for name, mode in family("linux").modes.items())
    # An unknown family is refused with the known ones.
    with pytest.raises(InputError, match=r"'vms'.*linux"):
        family("vms")


@pytest.mark.parametrize("name", [name for name, modes in FAMILY_MODES.items() if modes])
def test_each_mode_of_a_family_has_the_record_that_files_are_checked_by(name):
    assert {mode.name: mode.declared for mode in family(name).modes_among({}).values()} == FAMILY_MODES[name]


def rows_of_the_page():
    """Family → the modes that the first table of the page has it."""
    head, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in MODES_PAGE.split("\n\n")[1].splitlines() if line.startswith("|")
    )
    for families, *cells in rows:
        named = {name.strip("`") for name, cell in zip(head[1:-1], cells, strict=False) if cell != "–"}
        more = {part.strip(" `") for part in cells[-1].split(",")}
        for of in families.split(","):
            yield of.strip(" `"), (named | more) - {"–", ""}


def test_the_page_has_every_mode_of_every_family():
    found = dict(rows_of_the_page())
    ciphers = {mode.name for mode in (*XFRM[len(IPSEC) :], *IKEV2[1:])}  # in a section of their own
    assert found == {name: set(FAMILY_MODES[name]) - ciphers for name in found}
    assert found.keys() == {name for name, modes in FAMILY_MODES.items() if modes} - {"mdraid"}
    assert all(f"`{cipher}`" in MODES_PAGE for cipher in ciphers)


@pytest.mark.parametrize(
    ("name", "versions"),
    [
        ("freebsd-pf", ("FreeBSD 14",)), ("pfsense", ("pfSense 2.7.2",)), ("openbsd-pf", ("OpenBSD 7.6",)),
        ("vyos", ("VyOS 1.4", "1.5 up to March 2024")),
    ],
)  # fmt: skip
def test_the_page_says_in_which_sources_a_family_was_read_and_that_it_never_ran(name, versions):
    heading = next(line for line in MODES_PAGE.splitlines() if line.startswith("## ") and f"`{name}`" in line)
    section = " ".join(MODES_PAGE.partition(f"\n{heading}\n")[2].partition("\n## ")[0].split())
    assert "never run" in section
    assert all(version in section for version in versions)


OTHERS = tracked(("172.16.10.2", "172.16.0.2"), ("172.16.0.2", "172.16.11.2"), ("172.16.0.20", "172.16.10.2"))
LEFT = tracked(("172.16.0.2", "172.16.10.2"), ("172.16.1.2", "172.16.11.2"), port=4322)
HOLDS = (
    ("router", {}, {}), ("router", {}, {"flows": LEFT}), ("router", {}, {"most": ""}), ("router", {"fewer_at_first": 3}, {}),
    ("filter-empty", {}, {"flows": FLOWS}), ("filter-default", {"back": NONE}, {"flows": FLOWS}),
)  # fmt: skip
FAILS = (
    ("a router that tracks flows", "router", {}, {"flows": FLOWS}), ("a filter that tracks none", "filter-empty", {}, {}),
    ("a filter that tracks those of others", "filter-empty", {}, {"flows": OTHERS}), ("… of an earlier probe", "filter-empty", {}, {"flows": LEFT}),
    ("a filter that lets new flows in", "filter-default", {}, {"flows": FLOWS}),
    ("a flow that was never sent was not dropped by a rule", "filter-default", {"back": (0, 0)}, {"flows": FLOWS}),
    ("a router through which nothing passes", "router", {"out": NONE}, {}), ("… one frame less than all", "router", {"out": (10, 9)}, {}),
    ("nat that does not translate", "nat", {"back": NONE}, {"flows": FLOWS}), ("a router that does", "router", {"seen_as": "172.16.10.1"}, {}),
    ("a router that does not forward, with rules of iptables", "router", {}, {"forwards": "0", "legacy": "filter\n"}),
    ("a mode with states records how many the machine takes", "filter-default", {"back": NONE}, {"flows": FLOWS, "most": ""}),
)  # fmt: skip


async def test_each_mode_is_verified_by_its_own_signs(golden):
    assert [await failed(mode, ScriptedProber(**seen), **said) for mode, seen, said in HOLDS] == [set()] * len(HOLDS)
    found = {words: await failed(mode, ScriptedProber(**seen), **said) for words, mode, seen, said in FAILS}
    golden.check(
        "checks-of-modes.txt", "".join(f"{words}\n" + "".join(f"    {check}\n" for check in sorted(of)) for words, of in found.items())
    )


async def test_tracking_that_cannot_be_read_passes_no_check():
    unreadable = {"cat /proc/net/nf_conntrack": (1, ""), "conntrack -L": (0, "unreadable\n"), "ip_forward": (0, "1")}
    for mode, check in (("router", "link a: the flow is not tracked"), ("filter-empty", "link a: the flow is tracked")):
        checks = await family("linux").modes[mode].verify(ScriptedHost(unreadable), LAB, ScriptedProber())
        assert check in {c.statement for c in checks if not c.passed}


@pytest.mark.parametrize(("answer", "found"), [("0\n", True), ("2\n", False), ("1\n", None), ("", False)])
async def test_a_kernel_without_a_list_answers_for_one_flow(answer, found):
    dut = ScriptedHost({"cat /proc/net/nf_conntrack": (1, ""), "conntrack -L": (0, answer)})
    assert await is_tracked(dut, FLOW_OF["a"]) is found


@pytest.mark.parametrize(("said", "why"), [("unreadable", "install conntrack"), ("1", "errno 1")])
async def test_flows_that_cannot_be_forgotten_stop_the_mode(said, why):
    with pytest.raises(HostError, match=why):
        await family("linux").modes["nat"].apply(ScriptedHost({"conntrack -F": (0, said)}), LAB)
    await family("linux").modes["router"].apply(ScriptedHost({"conntrack -F": (0, said)}), LAB)


async def test_frames_missing_once_are_asked_for_again_because_neighbours_take_their_time():
    prober = ScriptedProber(fewer_at_first=3)
    await failed("router", prober)
    assert prober.asked == [(("a", "b"), False), (("a",), False), (("a", "b"), True)]  # all links at once, then the one that was short


@pytest.mark.parametrize(("flows", "said"), [(262144, ""), (262145, "262145 flows")])
@pytest.mark.parametrize("mode", ["filter-empty", "filter-own", "nat-open"])
async def test_the_record_says_whether_the_flows_of_the_experiment_fit_the_table(mode, flows, said):
    sized = family("linux").modes[mode].sized_for(flows)
    dut = ScriptedHost({"ip_forward": (0, "1"), "nf_conntrack_max": (0, "262144\n"), "tables_names": (0, "")})
    (found,) = [check.found for check in await sized.checks_of_state(dut, LAB) if "nf_conntrack_max is 262144" in check.found]
    assert said in found and ("fewer" in found) is bool(said)


async def test_a_ruleset_that_nft_would_not_take_back_is_never_flushed():
    dut = ScriptedHost({"nft list ruleset": (0, 'table ip filter { xt match "state" }'), "nft -c": (1, "syntax error, unexpected string")})
    with pytest.raises(HostError, match="syntax error"):
        await family("linux").modes["router"].undo(dut, LAB)
    assert not [c for c in dut.ran if c == "nft -f -"]


@pytest.mark.parametrize(("came_from", "refused"), [("172.16.0.9", True), ("192.0.2.9", False), ("", False)])
async def test_a_login_that_a_policy_would_cut_is_refused_before_anything_changes(came_from, refused):
    end, dut = RequiringEnd(REQUIRED), ScriptedHost({"SSH_CONNECTION": (0, f"{came_from}\n")})
    with pytest.raises(HostError, match=r"login .*172\.16\.0\.9") if refused else nullcontext():
        await end.insist(dut, LAB)
    assert not [command for command in dut.ran if "xfrm policy add" in command]


@dataclass(frozen=True)
class Commands:
    apply: tuple[str, ...] = ("one", "two")
    verify: tuple[str, ...] = ("look",)
    restore: tuple[str, ...] = ("back two", "back one")


async def test_a_mode_of_commands_applies_and_restores_in_the_files_order():
    mode, dut = CommandMode("mine", Commands()), ScriptedHost({})
    assert [s.argv for s in await mode.undo(dut, LAB)] == [("sh", "-c", "back two"), ("sh", "-c", "back one")]
    assert dut.ran == []
    await mode.apply(dut, LAB)
    assert dut.ran == ["sh -c one", "sh -c two"]
    dut = ScriptedHost({"one": (3, "no")})
    with pytest.raises(CommandFailed):
        await CommandMode("mine", Commands()).apply(dut, LAB)
    assert dut.ran == ["sh -c one"]


@pytest.mark.parametrize(
    ("out", "ping", "failed"),
    [
        (NONE, 0, set()),
        (None, 0, {"link a: what is not encrypted is dropped", "link b: what is not encrypted is dropped"}),
        (NONE, 1, {"link a: the source's own packets pass", "link b: the source's own packets pass"}),
    ],
)
async def test_of_a_policy_that_requires_protection_frames_are_dropped_and_the_sources_own_packets_pass(out, ping, failed):
    source, prober = ScriptedHost({"ping": (ping, "")}), ScriptedProber(out=out) if out else ScriptedProber()
    mode = CommandMode("mine", Commands(), "dropped", source)
    assert {c.statement for c in await mode.verify(ScriptedHost({}), LAB, prober) if not c.passed} == failed


async def test_a_mode_of_commands_is_verified_by_its_commands_and_by_frames(golden):
    checks = await CommandMode("mine", Commands()).verify(ScriptedHost({"look": (1, "nothing there")}), LAB, ScriptedProber(out=NONE))
    assert [c.passed for c in checks] == [False] * 3
    golden.check("checks-of-commands.txt", "".join(f"{c.statement}: {c.found}\n" for c in checks))
    assert all(c.passed for c in await CommandMode("mine", Commands()).verify(ScriptedHost({}), LAB, ScriptedProber()))


@pytest.mark.parametrize(
    ("prober", "held", "words"),
    [
        (ScriptedProber(), True, "172.16.0.2"),
        (ScriptedProber(back=NONE, seen_as="10.0.0.1"), True, "10.0.0.1"),
        (ScriptedProber(out=NONE), False, "the other order"),
        (ScriptedProber(out=NONE, back=NONE), False, "0 of 10"),
    ],
)
async def test_a_black_box_is_taken_as_it_is_if_frames_pass_it(prober, held, words):
    mode = family("black-box").modes["as-found"]
    dut = BlackBox("dut")
    assert await mode.undo(dut, LAB) == []
    await mode.apply(dut, LAB)
    checks = [check for check in await mode.verify(dut, LAB, prober) if check.statement.startswith("link a")]
    assert all(check.passed for check in checks) is held
    assert any(words in check.found for check in checks)
    with pytest.raises(HostError, match="black box"):
        await dut.run(["true"])


@pytest.mark.parametrize(
    "rules", [nft_rules.filter_default, nft_rules.nat, pf_rules.nat, pf_rules.nat_to, vyos_rules.nat, vpp_rules.filter_default]
)
def test_rules_are_of_the_networks_of_the_ends_however_many_routers_are_between(rules):
    text = str(rules(description("two-routers").testbed))
    assert "172.16.0.0/24" in text and "172.16.10.0/24" in text
    assert "172.16.5.0/24" not in text, "no test frame goes to the cable between two routers"
