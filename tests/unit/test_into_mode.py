"""Whether a mode was lost during a trial, as the DUT says itself: asked after each trial, so without a frame."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dut_families import E302, EXAMPLES
from dutlab.dut import family
from dutlab.errors import HostError
from dutlab.labs import description
from dutlab.runner.into_mode import as_applied, lost_state
from dutlab.runner.stage import Stage
from dutlab.spec.loader import load_testbed
from dutlab.spec.testbed import Testbed
from dutlab.systems import SYSTEMS
from dutlab.systems.vpp import VPP
from transcript import TRANSCRIPTS, TranscriptHost

LAB = description("three-node").testbed
LINUX = (TRANSCRIPTS / "linux-modes.txt").read_text()


def stage_of(testbed: Testbed, dut: TranscriptHost) -> Stage:
    return cast("Stage", SimpleNamespace(testbed=testbed, dut_testbed=testbed.through_dut(), dut=dut, hosts={"dut": dut}))


def linux() -> TranscriptHost:
    ports = [port.interface for link in LAB.links.values() for port in link.path if port.host == "dut"]
    text = LINUX.replace("sh -c '\ncat", "sh -c 'cat")
    for old, new in zip(("in-a", "out-a", "in-b", "out-b"), ports, strict=True):
        text = text.replace(f"/{old}/mtu", f"/{new}/mtu")
    return TranscriptHost("dut", text)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ({}, ""),
        ({"mtu": "600"}, "was changed: from 1500 to 600"),
        ({"rules": "flushed"}, "nftables ruleset"),
        ({"forwarding": "0"}, "net.ipv4.ip_forward is 0"),
    ],
)
async def test_what_changed_since_the_mode_was_applied_is_named(harm: dict[str, str], said: str) -> None:
    dut = linux()
    stage, mode = stage_of(LAB, dut), family("linux").modes["nat"]
    before = await as_applied(stage)
    dut.state.update(harm)
    found = await lost_state(stage, mode, before)
    assert said in found if said else found == ""


@pytest.mark.parametrize(
    ("transcripts", "name", "mode", "harm", "said"),
    [
        (("pfsense", "freebsd-pf"), "pfsense", "router", {"pf": "on"}, "pf is off"),
        (("pfsense", "freebsd-pf"), "pfsense", "filter-default", {"rules": "filter-own"}, "pf holds 12 filter rules"),
        (("openbsd-pf",), "openbsd-pf", "nat", {"setperf": "12"}, "hw.setperf is 100: 12"),
    ],
)
async def test_a_filter_that_the_system_reloads_by_itself_is_noticed_after_the_trial(transcripts, name, mode, harm, said) -> None:
    dut = TranscriptHost.of(*transcripts)
    dut.system = SYSTEMS[name]
    stage, applied = stage_of(E302, dut), family(name).modes[mode]
    await applied.apply(dut, E302)
    assert await lost_state(stage, applied, await as_applied(stage)) == ""
    dut.state.update(harm)
    assert said in await lost_state(stage, applied, {})


async def test_a_question_that_fails_on_a_dut_that_is_there_is_a_mode_lost_and_on_one_that_is_gone_an_error() -> None:
    bed = load_testbed(EXAMPLES / "vpp.yaml")
    dut = TranscriptHost(
        "dut", "$ id -u\n> 0\n$ vppctl show interface\n! clib_socket_init: connect: No such file\n= 1\n$ true\n", system=VPP
    )
    stage: Any = stage_of(bed, dut)
    assert "`vppctl show interface`" in await lost_state(stage, family("vpp").modes["router"], {})
    next(e for e in dut.exchanges if e.argv == ("true",)).status = 255
    with pytest.raises(HostError):
        await lost_state(stage, family("vpp").modes["router"], {})
