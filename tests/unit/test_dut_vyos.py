"""Family vyos against its transcript: the very lines, the way back from everywhere, and what verify notices."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dut_families import EXAMPLES, failed, there_and_back, ways_of
from dutlab.dut import family, vyos_rules
from dutlab.dut.vyos_config import COMMIT, back, script
from dutlab.errors import CommandFailed, HostError
from dutlab.spec.loader import load_testbed
from dutlab.spec.testbed import Testbed
from dutlab.systems.plain import plain
from transcript import TranscriptHost

BED = load_testbed(EXAMPLES / "vyos.yaml")
MODES = ("router", "filter-empty", "filter-1", "filter-25", "filter-default", "filter-own", "nat", "nat-open")
WAYS = ways_of(MODES)


async def applied(mode: str, **changes: str) -> TranscriptHost:
    dut = TranscriptHost.of("vyos", **changes)
    await family("vyos").modes[mode].apply(dut, BED)
    return dut


async def test_every_mode_holds_once_it_was_committed_and_the_way_leads_back_from_it_and_from_pairs() -> None:
    for mode in MODES:
        dut = await applied(mode)
        assert dut.state["config"] == mode
        committed = [given for _, given in dut.ran if "my_commit" in given]
        assert len(committed) == 1, "one commit, so there is no moment with half of the rules"
        assert await failed("vyos", mode, dut, testbed=BED) == {}
    for modes in WAYS:
        await there_and_back("vyos", modes, TranscriptHost.of("vyos"), BED)


@pytest.mark.parametrize(
    ("mode", "tampered", "noticed"),
    [
        ("router", {"forwarding": "0"}, {"the DUT forwards IPv4"}),
        ("router", {"tracked": "yes"}, {"link a: the flow is not tracked"}),
        ("nat", {"config": "filter-default"}, {"firewall and NAT are those of the mode"}),
        ("filter-default", {"config": "found"}, {"firewall and NAT are those of the mode"}),
        ("filter-empty", {"tracked": "none"}, {"link a: the flow is tracked"}),
        ("filter-default", {"limit": "no"}, {"connection tracking has the machine's own limit"}),
    ],
)
async def test_what_somebody_changed_meanwhile_is_noticed(mode: str, tampered: dict[str, str], noticed: set[str]) -> None:
    dut = await applied(mode)
    dut.state.update(tampered)
    assert set(await failed("vyos", mode, dut, testbed=BED)) == noticed


async def test_a_configuration_that_is_refused_or_another_than_committed_or_not_told_is_a_failure() -> None:
    dut = TranscriptHost.of("vyos", version="1.3")
    with pytest.raises(CommandFailed, match=r"\[firewall ipv4\]"):
        await family("vyos").modes["filter-default"].apply(dut, BED)
    assert dut.state["config"] == "found"
    # A configuration that is not the one that was committed is a failure.
    dut = TranscriptHost.of("vyos")
    commit = next(e for e in dut.exchanges if "my_commit" in e.stdin and e.sets.get("config") == "nat")
    commit.sets["config"] = "filter-default"
    with pytest.raises(HostError, match=r"\b3\b.*\b0\b"):
        await family("vyos").modes["nat"].apply(dut, BED)
    # A dut that does not tell its configuration is not touched.
    dut = TranscriptHost.of("vyos")
    read = next(e for e in dut.exchanges if "run show configuration" in e.stdin)
    read.stdout, read.stderr, read.status = "", "sg: group 'vyattacfg' does not exist\n", 1
    with pytest.raises(HostError, match="vyattacfg"):
        await family("vyos").modes["nat"].undo(dut, BED)


def test_passes_come_behind_every_rule_of_the_saved_configuration_whatever_version_of_ip_it_has() -> None:
    own = ["set firewall ipv6 forward filter rule 4000 action 'drop'", "set firewall ipv4 input filter rule 9000 action 'drop'"]
    numbers = {line.split()[6] for line in vyos_rules.passes(BED, own)}
    assert numbers == {"4001", "4002"}
    assert {line.split()[6] for line in vyos_rules.passes(BED, [])} == {"101", "102"}


_WRAPPERS = r"""
configure() { cp "$D/active" "$D/session"; }
for verb in set delete commit; do eval "$verb() { \"$D/opt/vyatta/sbin/my_$verb\" \"\$@\"; echo; }"; done
run() { cat "$D/active"; }
exit() { :; }
"""
"""What VyOS's own functions do, by vyatta-cfg-run: they print, and end with 0 whatever happened."""
_PROGRAMS = {
    "opt/vyatta/sbin/my_delete": 'grep -v "^set $*" "$D/session" >"$D/kept"; mv "$D/kept" "$D/session"',
    "opt/vyatta/sbin/my_set": 'case "$*" in *invalid*) echo "Set failed" ; exit 1 ;; esac; echo "set $*" >>"$D/session"',
    "opt/vyatta/sbin/my_commit": 'echo commit >>"$D/commits"; [ ! -e "$D/broken" ] || { echo "Commit failed"; exit 1; }; cp "$D/session" "$D/active"',
    "bin/cli-shell-api": '[ "$1" = sessionChanged ] && ! cmp -s "$D/active" "$D/session"',
    "bin/sg": 'shift; exec sh "$@"',
    "bin/vbash": 'exec bash "$@"',
}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with a shell, and programs that end as those of VyOS's sources do."""
    for name, text in _PROGRAMS.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
    (tmp_path / "opt/vyatta/etc/functions").mkdir(parents=True)
    (tmp_path / "opt/vyatta/etc/functions/script-template").write_text(_WRAPPERS)
    (tmp_path / "active").write_text("set firewall a '1'\nset system x\n")
    return tmp_path


def carried_out(machine: Path, argv: tuple[str, ...], given: str) -> int:
    env = {"PATH": f"{machine}/bin:{os.environ['PATH']}", "D": str(machine)}
    here = [word.replace("/opt/vyatta", f"{machine}/opt/vyatta") for word in argv]
    return subprocess.run(here, input=given.replace("/opt/vyatta", f"{machine}/opt/vyatta"), text=True, env=env, check=False).returncode


@pytest.mark.parametrize(
    ("lines", "broken", "status", "commits", "active"),
    [
        (["set firewall b"], False, 0, 1, "set system x\nset firewall b\n"),
        (["set firewall b", "set firewall invalid", "set nat c"], False, 1, 0, "set firewall a '1'\nset system x\n"),
        (["set firewall b"], True, 1, 1, "set firewall a '1'\nset system x\n"),
    ],
    ids=["committed", "a set is refused", "the commit fails"],
)
def test_how_set_and_commit_ended_is_asked_of_the_programs_below_the_wrappers_that_always_end_with_0(
    machine: Path, lines: list[str], broken: bool, status: int, commits: int, active: str
) -> None:
    if broken:
        (machine / "broken").touch()
    assert carried_out(machine, COMMIT, script(["firewall", "nat"], lines)) == status
    assert (machine / "active").read_text() == active
    assert (machine / "commits").read_text().count("commit") == commits if commits else not (machine / "commits").exists()


def test_a_commit_with_nothing_to_change_is_none_and_no_failure(machine: Path) -> None:
    assert carried_out(machine, COMMIT, script(["nat"], [])) == 0
    assert not (machine / "commits").exists()


def test_the_way_back_fails_unless_the_configuration_is_as_it_was_found(machine: Path) -> None:
    dut = TranscriptHost("dut", "")
    commit, same = back(dut, ["firewall", "nat"], ["set firewall a '1'"], "as it was found")
    assert carried_out(machine, same.argv, same.stdin) == 0
    (machine / "active").write_text("\x1b[1mset firewall a '1'\x1b[0m\nset nat theirs\n")
    assert carried_out(machine, same.argv, same.stdin) == 1
    (machine / "active").write_text("\x1b[1mset firewall a '1'\x1b[0m\n")
    assert carried_out(machine, same.argv, same.stdin) == 0
    (machine / "opt/vyatta/etc/functions/script-template").write_text("run() { :; }\nexec false\n")
    assert carried_out(machine, back(dut, ["nat"], [], "")[1].argv, "") == 1, "nothing was listed because nothing can be listed"
    assert "my_commit" in commit.stdin


async def test_every_exchange_of_the_transcript_is_asked_for() -> None:
    dut = TranscriptHost.of("vyos", version="1.3")
    with pytest.raises(CommandFailed):
        await family("vyos").modes["filter-default"].apply(dut, BED)
    dut.state["version"] = "1.4"
    for mode in MODES:
        await there_and_back("vyos", (mode,), dut, BED)
        await family("vyos").modes[mode].apply(dut, BED)
        await failed("vyos", mode, dut, testbed=BED)
        dut.state.update(config="found", tracked="none")
    dut.state["forwarding"] = "0"
    await failed("vyos", "router", dut, testbed=BED)
    dut.state["limit"] = "no"
    await failed("vyos", "nat", dut, testbed=BED)
    dut.state["saved"] = "no"
    with pytest.raises(HostError, match=r"/config/config\.boot"):
        await family("vyos").modes["filter-own"].apply(dut, BED)
    assert dut.unused() == []


def test_ipv6_has_rules_of_its_own() -> None:
    six = Testbed.model_validate(
        {
            **BED.model_dump(mode="json", by_alias=True),
            "links": {"a": {**BED.links["a"].model_dump(mode="json"), "addresses": ["2001:db8::2/64", "2001:db8::1/64", "2001:db8:1::1/64", "2001:db8:1::2/64"]}},
        }
    )  # fmt: skip
    lines = vyos_rules.nat(six)
    assert "set firewall ipv6 forward filter default-action drop" in lines
    assert "set nat66 source rule 100 source prefix 2001:db8::/64" in lines
    assert not [line for line in lines if "ipv4" in line or line.startswith("set nat ")]


def test_what_a_terminal_would_colour_is_read_plain() -> None:
    assert plain("\x1b]0;vyos@dut\x07\x1b[01;32mset\x1b[0m \x1b[Knat\r\n\x1b(Bplain") == "set nat\nplain"
