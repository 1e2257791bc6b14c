"""Family vyos against its transcript: the very lines, the way back from everywhere, and what verify notices."""

from __future__ import annotations

import pytest

from dut_families import EXAMPLES, MODES, WAYS, failed, there_and_back
from dutlab.dut import family, vyos_rules
from dutlab.errors import CommandFailed, HostError
from dutlab.hosts.plain import plain
from dutlab.spec.loader import load_testbed
from dutlab.spec.testbed import Testbed
from transcript import TranscriptHost

BED = load_testbed(EXAMPLES / "vyos.yaml")


async def applied(mode: str, **changes: str) -> TranscriptHost:
    dut = TranscriptHost.of("vyos", **changes)
    await family("vyos").modes[mode].apply(dut, BED)
    return dut


@pytest.mark.parametrize("mode", MODES)
async def test_every_mode_holds_once_it_was_committed(mode: str) -> None:
    dut = await applied(mode)
    assert dut.state["config"] == mode
    assert len(dut.ran) == 1, "one commit, so there is no moment with half of the rules"
    assert await failed("vyos", mode, dut, testbed=BED) == {}


@pytest.mark.parametrize("modes", WAYS, ids="-then-".join)
async def test_from_every_mode_and_pair_of_modes_the_way_leads_back(modes: tuple[str, ...]) -> None:
    await there_and_back("vyos", modes, TranscriptHost.of("vyos"), BED)


@pytest.mark.parametrize(
    ("mode", "tampered", "noticed"),
    [
        ("router", {"forwarding": "0"}, {"the DUT forwards IPv4"}),
        ("router", {"tracked": "yes"}, {"link a: the flow is not tracked"}),
        ("nat", {"config": "filter-default"}, {"firewall and NAT are those of the mode"}),
        ("filter-default", {"config": "found"}, {"firewall and NAT are those of the mode"}),
        ("filter-empty", {"tracked": "none"}, {"link a: the flow is tracked"}),
    ],
)
async def test_what_somebody_changed_meanwhile_is_noticed(mode: str, tampered: dict[str, str], noticed: set[str]) -> None:
    dut = await applied(mode)
    dut.state.update(tampered)
    assert set(await failed("vyos", mode, dut, testbed=BED)) == noticed


async def test_a_configuration_that_vyos_refuses_is_told_in_its_words_and_commits_nothing() -> None:
    dut = TranscriptHost.of("vyos", version="1.3")
    with pytest.raises(CommandFailed, match=r"Configuration path: \[firewall ipv4\] is not valid"):
        await family("vyos").modes["filter-default"].apply(dut, BED)
    assert dut.state["config"] == "found"


async def test_a_dut_that_does_not_tell_its_configuration_is_not_touched() -> None:
    dut = TranscriptHost.of("vyos")
    read = next(e for e in dut.exchanges if "run show configuration" in e.stdin)
    read.stdout, read.stderr, read.status = "", "sg: group 'vyattacfg' does not exist\n", 1
    with pytest.raises(HostError, match="cannot be read: sg: group 'vyattacfg' does not exist; log in as a user of VyOS"):
        await family("vyos").modes["nat"].undo(dut, BED)


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
