"""Links that are set down: the undo of each port is in the journal before its change, and shared ports stay down as long as one needs it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from dutlab.dut.mode import SeenProbe
from dutlab.errors import HostError, InputError
from dutlab.hosts.host import Done
from dutlab.runner import held_links
from dutlab.runner.device import JournaledDevice
from dutlab.runner.held_links import HeldLinks
from dutlab.runner.journal import Journal, pending_undo, read_journal
from dutlab.spec.lab_files import description
from dutlab.spec.links import Port


@dataclass
class PortHost:
    """A host with ports that are set up and down; it keeps its commands."""

    name: str
    journal: Journal
    down: set[str] = field(default_factory=set)
    commands: list[str] = field(default_factory=list)

    async def run(self, argv, *, stdin=b"", **_):
        words = " ".join(argv)
        self.commands.append(words)
        if words.startswith("ip link set dev"):
            pending = [step.stdin for _, steps in pending_undo(read_journal(self.journal._path)) for step in steps]
            assert any(argv[4] in script for script in pending), "announced before it is done"
            self.down.add(argv[4])
        elif argv[0] == "sh":
            self.down.discard(stdin.decode().split()[4])
        return Done(self.name, tuple(argv), 0, json.dumps([]).encode() if "-j" in argv else b"", b"", 0.0, 0.0)


@dataclass
class PassingProber:
    """Every link passes frames, after some looks."""

    silent: int = 0
    asked: list[tuple[str, ...]] = field(default_factory=list)

    async def probe(self, links, *, reverse=False):
        self.asked.append(tuple(links))
        self.silent -= 1
        return [SeenProbe(10, 0 if self.silent >= 0 else 10, None, None) for _ in links]


def held(journal, prober, names=("source", "dut", "sink"), lab="three-node"):
    testbed = description(lab).testbed
    hosts = {name: PortHost(name, journal) for name in names}
    device = JournaledDevice(hosts.get("dut"), testbed, {}, {}, prober, journal, hosts)
    return HeldLinks(device, testbed, hosts), hosts


async def test_links_go_down_and_up_as_asked_and_frames_are_awaited(journal, monkeypatch):
    monkeypatch.setattr(held_links, "LOOK_S", 0.0)
    prober = PassingProber(silent=2)
    links, hosts = held(journal, prober)
    assert (links.ports_up(()), links.ports_up(("b",)), links.ports_up(("a", "b"))) == (4, 2, 0)
    await links.hold_down(("b",))
    assert hosts["dut"].down == {"in-b", "out-b"} and not prober.asked
    assert links.device.cut_ports == {Port(host="dut", interface="in-b"), Port(host="dut", interface="out-b")}
    await links.hold_down(("b",))
    assert len([c for c in hosts["dut"].commands if c.endswith(" down")]) == 2, "they are down already"
    await links.hold_down(("a",))
    assert hosts["dut"].down == {"in-a", "out-a"} and prober.asked == [("b",)] * 3
    await links.hold_down(())
    assert not hosts["dut"].down and not pending_undo(read_journal(journal._path))


async def test_a_trial_that_ends_early_leaves_its_links_to_the_device(journal):
    links, hosts = held(journal, PassingProber())
    await links.hold_down(("a", "b"))
    assert len(pending_undo(read_journal(journal._path))) == 4
    assert await links.device.put_back()
    assert not hosts["dut"].down and not links.device.cut_ports


async def test_a_dut_without_a_way_in_loses_its_links_at_the_other_ends(journal):
    links, hosts = held(journal, PassingProber(), names=("source", "sink"))
    await links.hold_down(("b",))
    assert (hosts["source"].down, hosts["sink"].down) == ({"eth-b"}, {"eth-b"})
    links, _ = held(journal, PassingProber(), names=("source",))
    with pytest.raises(InputError):
        await links.hold_down(("b",))


async def test_a_port_that_two_links_share_is_down_as_long_as_one_is(journal):
    links, hosts = held(journal, PassingProber(), lab="fan-in", names=tuple(description("fan-in").testbed.hosts))
    names = [*links.testbed.through_dut().links][:2]
    ports = [{p.interface for p in links.testbed.links[name].dut_ports} for name in names]
    assert ports[0] & ports[1], "the lab has a port that both use"
    await links.hold_down(names)
    await links.hold_down(names[1:])
    assert hosts["dut"].down == ports[1]
    await links.hold_down(())
    assert not hosts["dut"].down


async def test_a_link_that_stays_silent_is_reported(journal, monkeypatch):
    monkeypatch.setattr(held_links, "LOOK_S", 0.0)
    monkeypatch.setattr(held_links, "BACK_S", 0.0)
    links, _ = held(journal, PassingProber(silent=10**6))
    await links.hold_down(("b",))
    with pytest.raises(HostError, match="does not pass frames"):
        await links.hold_down(())
