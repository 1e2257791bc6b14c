"""The suite as a user runs it, very short: through the lab's router, in both directions, and a DUT that comes back from each reset."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capability import needs
from dutlab import labs
from dutlab.dut import family
from dutlab.errors import CommandFailed
from dutlab.methods.dut_ports import ResetKind
from dutlab.methods.ports import Offer
from dutlab.methods.rfc2544 import reset
from dutlab.runner.device import JournaledDevice
from dutlab.runner.journal import Journal, pending_undo, read_journal, undo_to_json
from dutlab.runner.undo import carry_out
from dutlab.spec.mixes import frame_mix
from dutlab.tools.linux_dut.routes import RouteUpdates
from dutlab.tools.manager import Manager
from dutlab.units import Pps, Seconds
from lab_fixtures import engine_in
from run_records import records_below

_machine = needs("nft")


def test_tests_of_the_suite_have_their_tables_and_their_place_in_the_report(dutlab, tmp_path, monkeypatch):
    monkeypatch.setattr(reset, "LEAST_S", 1.5)
    tests = [word for name in ("throughput", "frame-loss", "reset") for word in ("--test", name)]
    settings = ["--scale", "0.002", "--size", "512", "--link", "a", "directions=both", "reset_repeats=1", "width=0.5"]
    done = dutlab("rfc2544", *settings, "--mode", "filter-25", "--lab", "three-node-rfc2544", *tests)
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = records_below(tmp_path)
    tables, figures = record["tables"], record["figures"]["a"]
    assert {"throughput", "frame_loss", "deviations"} <= tables.keys()
    assert figures["max_pps"] > 0
    assert all(row["loss_ratio"] is None or 0 <= row["loss_ratio"] <= 1 for row in tables["frame_loss"])  # None: the rate was not made
    if "throughput_pps" in figures:  # a busy machine may lose a frame at any rate, and then says so
        assert [row["kind"] for row in tables["reset"]] == ["process", "software"]
    else:
        assert "reset needs the throughput, and none was found" in record["notes"]
    assert any("every duration is 0.002 of" in row["text"] for row in tables["deviations"])
    (page,) = tmp_path.glob("runs/*/report/report.md")
    assert "198.18.1.2 and 198.19.1.2" in page.read_text(), "the networks for benchmarks"


async def test_modifiers_reach_the_dut_and_are_gone_afterwards(lab, tmp_path):
    hosts, journal = lab.hosts(), Journal(tmp_path / "journal.jsonl")
    before = await state_of(hosts["dut"])
    device = device_of(lab, journal)
    updates = RouteUpdates(hosts["dut"], lab.testbed, device.announce)
    assert [await updates.step("a", n) for n in range(2)] == ["processed"] * 2
    ways = (await hosts["dut"].run(["ip", "route", "show", "proto", "220"])).text.splitlines()
    assert len(ways) == 16 and all("via 172.16.0.2" in line for line in ways), "the second update turned them all"
    assert await device.put_back()
    assert await state_of(hosts["dut"]) == before
    journal.close()

    queries = Manager(hosts, lab.testbed)
    assert await queries.step("a", 0) == "refused: nothing listens there", "a DUT without an agent"
    agent = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 161)); print(flush=True)\nwhile 1: s.sendto(*s.recvfrom(999))"
    listening = await hosts["dut"].spawn(["python3", "-c", agent])
    await listening.readline()
    assert await queries.step("a", 1) == "answered"
    await hosts["dut"].run(["nft", "add chain inet t i { type filter hook input priority 0; policy drop; }"])
    assert await queries.step("a", 2) == "not answered"
    for host in hosts.values():
        await host.close()


async def test_frames_leave_in_bursts_at_their_mean_rate_and_broadcasts_are_sent_beside_them_and_counted_by_nobody(lab):
    async with engine_in(lab) as (_, engine):
        outcome = await engine.offer(Offer(("a",), frame_mix(512), Pps(1000), Seconds(0.5), broadcast_ratio=0.1))
        (flow,), said = outcome.flows, outcome.raw["engine-source.jsonl"].decode()
        assert flow.intended_frames == 500 and flow.balances and flow.foreign_frames == 0
        assert '"intended":50,' in said and '"intended":500,' in said
        (flow,) = (await engine.offer(Offer(("a",), frame_mix(512), Pps(1000), Seconds(0.5), burst_frames=50))).flows
        assert flow.intended_frames == 500 and flow.balances
        assert flow.gaps is not None and flow.gaps.p50_ns < 1_000_000, "back to back, where evenly would be 1 ms"
        assert flow.gaps.max_ns > 30_000_000, "and a burst each 50 ms"


async def state_of(dut):
    commands = ["nft list ruleset", "ip address", "ip route", "ip -6 route", "ip neigh", "sysctl -a -r forward"]
    found = [(await dut.run(command.split())).text for command in commands]
    return [sorted(text.splitlines()) for text in found]


@pytest.fixture
async def lab(label):
    """A lab whose DUT has something to lose."""
    something = [
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.in-b.forwarding=0",
        "nft add table inet t",
        "sysctl -qw net.ipv6.conf.in-a.addr_gen_mode=1 net.ipv6.conf.in-a.disable_ipv6=0",
        "ip route add 203.0.113.0/24 via 172.16.10.2 metric 7",
        "ip route add 198.51.100.0/24 nexthop via 172.16.10.2 nexthop via 172.16.0.2 weight 2",
        "ip address add 2001:2::1/64 dev in-a nodad",
        "ip -6 route add 2001:2:0:9::/64 via 2001:2::2",
    ]
    try:
        lab = await labs.up("three-node", label=label)
        await lab.hosts()["dut"].run(["sh", "-ec", "; ".join(something)])
        yield lab
    finally:
        await labs.down(label)


def device_of(lab, journal):
    linux, hosts = family("linux"), lab.hosts()
    return JournaledDevice(hosts["dut"], lab.testbed, linux.modes, linux.resets, prober=None, journal=journal)


@pytest.mark.parametrize("kind", list(ResetKind))
async def test_a_reset_leaves_the_dut_as_it_was_and_the_journal_closed(lab, tmp_path, kind):
    dut, path = lab.hosts()["dut"], tmp_path / "journal.jsonl"
    before = await state_of(dut)
    journal = Journal(path)
    assert await device_of(lab, journal).reset(kind) > 0
    journal.close()
    assert await state_of(dut) == before
    assert [e["event"] for e in read_journal(path)] == ["dut-changing", "dut-restored"] and not pending_undo(read_journal(path))


@pytest.mark.parametrize("kind", list(ResetKind))
async def test_a_reset_that_was_killed_halfway_is_undone_from_the_journal(lab, tmp_path, kind):
    dut, path = lab.hosts()["dut"], tmp_path / "journal.jsonl"
    before = await state_of(dut)
    of_kind = family("linux").resets[kind.value]
    back = await of_kind.undo(dut, lab.testbed)
    journal = Journal(path)
    journal.write("dut-changing", application="reset", undo=undo_to_json([back]))
    journal.close()
    await of_kind.carry_out(dut, lab.testbed, replace(back, stdin=""))  # as far as the first half
    assert await state_of(dut) != before
    for _ in range(2):  # whether or not some of it was back already
        ((_, steps),) = pending_undo(read_journal(path))
        await carry_out(steps, lab.hosts())
        assert await state_of(dut) == before


async def test_a_reset_whose_command_fails_is_undone_at_once(lab, tmp_path):
    dut, path = lab.hosts()["dut"], tmp_path / "journal.jsonl"
    before = await state_of(dut)

    class Breaks:
        async def undo(self, dut, testbed):
            return await family("linux").resets["software"].undo(dut, testbed)

        async def carry_out(self, dut, testbed, back):
            await dut.run(["sh", "-ec", "nft flush ruleset; ip address flush dev in-a; exit 3"])

    journal = Journal(path)
    device = replace(device_of(lab, journal), kinds={"software": Breaks()})
    with pytest.raises(CommandFailed):
        await device.reset(ResetKind.SOFTWARE)
    journal.close()
    assert await state_of(dut) == before and not pending_undo(read_journal(path))
