"""Devices between two ports of one network: bridges of the kernel, a process that fails, and a program in XDP in a router's place."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from capability import need_program, needs
from dutlab.dut import family
from dutlab.dut.custom import CommandMode
from dutlab.errors import HostError
from dutlab.spec.experiment import CustomMode
from lab_fixtures import engine_in, lab_up
from processes import eventually
from run_records import records_below

ROOT = Path(__file__).parents[2]
STATE = """
ip -j link | sed 's/"ifindex":[0-9]*,//g; s/"operstate":"[A-Z]*",//g'
cd /proc/sys && for f in net/bridge/bridge-nf-call-*tables net/ipv4/ip_forward net/ipv4/conf/*/forwarding; do echo "$f $(cat $f)"; done
nft list ruleset
"""

_machine = needs("nft")


@pytest.fixture
async def bridged(label):
    """The lab `bridge`, its hosts and an engine in it."""
    async with lab_up("bridge", label) as lab, engine_in(lab) as (hosts, engine):
        yield lab, hosts, engine


def bad(checks):
    return {c.statement: c.found for c in checks if not c.passed}


async def state(dut):
    return (await dut.run(["sh", "-c", STATE])).text


def one_link(lab):
    return lab.testbed.model_copy(update={"links": {"a": lab.testbed.links["a"]}})


async def carried_out(dut, steps):
    for step in steps:
        await dut.run(step.argv, stdin=step.stdin.encode())


BROKEN = [
    ("bridge", "ip link set dev out-a nomaster", {"its two ports are in one bridge", "a permitted flow passes"}),
    (
        "bridge",
        "bridge link set dev in-a learning off && ip link set dev in-a type bridge_slave fdb_flush",
        {"the bridge learnt addresses at both ports"},
    ),
    ("bridge-filter-25", "nft flush chain bridge dutlab forward", {"a permitted flow passes"}),
]


async def test_a_bridge_is_in_force_by_real_frames_from_any_state_and_goes_without_a_trace(bridged):
    lab, hosts, engine = bridged
    dut, modes = hosts["dut"], family("linux").modes_among(hosts)
    before = await state(dut)
    undo = await modes["bridge"].undo(dut, lab.testbed)
    for name in ("bridge", "bridge-filter-25", "bridge"):
        await modes[name].apply(dut, lab.testbed)
        checks = await modes[name].verify(dut, lab.testbed, engine)
        assert bad(checks) == {}, name
    for name, breaks, noticed in BROKEN:
        await modes[name].apply(dut, lab.testbed)
        await dut.run(["sh", "-ec", breaks])
        found = bad(await modes[name].verify(dut, one_link(lab), engine))
        assert {f"link a: {what}" for what in noticed} <= found.keys(), breaks
        await carried_out(dut, undo)
    assert await state(dut) == before
    await carried_out(dut, undo)  # twice, as after a crash in mid-undo
    assert await state(dut) == before


SEEN = """
import socket, sys
taken = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
taken.bind((sys.argv[1], 0))
print("ready", flush=True)
print(taken.recv(2048).hex())
"""


async def test_what_goes_through_a_bridge_arrives_as_it_was_sent(bridged):
    lab, hosts, _ = bridged
    await family("linux").modes_among(hosts)["bridge"].apply(hosts["dut"], lab.testbed)
    source, sink = lab.testbed.links["a"].source, lab.testbed.links["a"].sink
    process = await hosts["sink"].spawn(["python3", "-c", SEEN, sink.interface])
    try:
        assert await process.readline() == b"ready\n"
        await hosts["source"].run(["ping", "-c", "1", "-W", "5", "-t", "37", str(lab.testbed.links["a"].sink_address.ip)])
        frame = bytes.fromhex((await process.readline()).decode())
    finally:
        await process.end()
    macs = [(await hosts[port.host].run(["cat", f"/sys/class/net/{port.interface}/address"])).text.strip() for port in (sink, source)]
    assert [frame[at : at + 6].hex(":") for at in (0, 6)] == macs
    assert frame[22] == 37, "the TTL that it left with"


async def test_frames_that_a_program_in_xdp_forwards_do_not_reach_the_ip_stack(lab, hosts, engine):
    need_program("clang")
    dut, modes = hosts["dut"], family("linux").modes_among(hosts)
    before = await state(dut)
    undo = await modes["xdp-forward"].undo(dut, lab.testbed)
    await modes["xdp-forward"].apply(dut, lab.testbed)
    assert bad(await modes["xdp-forward"].verify(dut, lab.testbed, engine)) == {}
    with pytest.raises(HostError, match="has an XDP program already"):
        await modes["xdp-forward"].undo(dut, lab.testbed)
    await dut.run(["ip", "link", "set", "dev", "in-a", "xdp", "off"])
    assert bad(await modes["xdp-forward"].verify(dut, lab.testbed, engine)).keys() == {
        "in-a: an XDP program is attached", "frames pass below the IP stack",
    }  # fmt: skip
    await modes["router"].apply(dut, lab.testbed)
    assert "prog/xdp" not in (await dut.run(["ip", "link"])).text, "another mode takes it off"
    assert bad(await modes["router"].verify(dut, lab.testbed, engine)) == {}
    await modes["xdp-forward"].apply(dut, lab.testbed)
    await carried_out(dut, undo)
    assert await state(dut) == before


DROPPED = 150


def test_how_long_an_inline_device_passes_nothing_and_whether_it_fails_open(dutlab, tmp_path):
    """A device that drops so many frames and goes on is the referee: it was out of service for these at the offered rate, to the frame."""
    text = (ROOT / "examples" / "inline" / "experiment.yaml").read_text().replace("examples/inline", str(ROOT / "examples" / "inline"))
    text = text.replace("/run/inline.pid >/dev/null", f"/run/inline.pid {DROPPED} >/dev/null")
    text = text.replace("  closed:\n", "  skips: {apply: ['kill -USR1 $(cat /run/inline.pid)'], restore: ['true']}\n  closed:\n")
    text = text.replace("to: [closed, open]", "to: [skips, closed, open], warmup: 0s, drain: 200ms")
    (tmp_path / "e.yaml").write_text(text)
    done = dutlab("run", "e.yaml", *(w for k, v in {"changes": 1, "after": "2s"}.items() for w in ("--set", f"workloads.reconf.{k}={v}")))
    assert done.returncode == 0, done.stderr
    skips, closed, opened = records_below(tmp_path)
    assert [r["figures"]["a"]["failure/open_ratio"] for r in (skips, closed, opened)] == [1, 0, 1]
    if not skips["notes"]:  # on a busy machine a load may end before the change does, and says so
        assert skips["tables"]["changes"][0]["lost_frames"] == DROPPED
        assert skips["figures"]["a"]["failure/outage_ns"] == pytest.approx(DROPPED / 1000 * 1e9, rel=0.02)
    assert "failure/outage_ns" not in closed["figures"]["a"] and closed["tables"]["changes"][0]["passes"] == 0
    (page,) = tmp_path.glob("runs/*/report/report.md")
    assert "frames pass afterwards" in page.read_text()


MIRRORS = {
    "apply": [
        "tc qdisc add dev in-a handle ffff: ingress",
        "tc filter add dev in-a parent ffff: u32 match u32 0 0 action mirred egress mirror dev out-a",
    ],
    "verify": ["tc -s filter show dev in-a parent ffff: | grep -q 'Mirror to device out-a'"],
    "restore": ["tc qdisc del dev in-a ingress 2>/dev/null; true"],
}


async def test_a_port_mirror_is_a_mode_of_commands_on_a_link_of_one_network(bridged):
    lab, hosts, engine = bridged
    mode = CommandMode("mirror", CustomMode.model_validate({"name": "mirror", **MIRRORS}))
    one = one_link(lab)
    assert bad(await mode.verify(hosts["dut"], one, engine)).keys() == {f"`{MIRRORS['verify'][0]}` ends with 0", "link a: a flow passes"}
    await mode.apply(hosts["dut"], one)
    assert bad(await mode.verify(hosts["dut"], one, engine)) == {}
    await carried_out(hosts["dut"], await mode.undo(hosts["dut"], one))


ONE_LINK = """
experiment: one
testbed: {lab: three-node}
factors: {mode: [filter-default]}
workloads: [{sweep: {rates: [1kpps], frame_sizes: [64], duration: 1s, warmup: 0s, drain: 200ms, links: [[a]]}}]
repeats: 1
watch: []
"""


def test_a_mode_is_about_the_links_that_are_driven(dutlab, label, tmp_path):
    assert dutlab("lab", "up", "three-node", "--label", label).returncode == 0
    try:
        subprocess.run(["ip", "-n", f"dutlab-{label}-dut", "link", "set", "dev", "in-b", "down"], check=True)
        (tmp_path / "e.yaml").write_text(ONE_LINK)
        done = dutlab("run", "e.yaml", "--lab", label)
        assert done.returncode == 0, done.stderr
        (record,) = records_below(tmp_path)
        assert {c["what"].partition(":")[0] for c in record["checks"] if c["what"].startswith("link")} == {"link a"}
    finally:
        assert dutlab("lab", "down", label).returncode == 0


def test_a_program_in_xdp_is_taken_off_after_the_controller_was_killed(dutlab, start, standing_lab, tmp_path):
    need_program("clang")

    def links():
        return subprocess.run(["ip", "-n", f"dutlab-{standing_lab}-dut", "link"], capture_output=True, text=True, check=True).stdout

    (tmp_path / "e.yaml").write_text(ONE_LINK.replace("filter-default", "xdp-forward").replace("duration: 1s", "duration: 60s"))
    with start("run", "e.yaml", "--lab", standing_lab) as running:
        assert eventually(lambda: links().count("prog/xdp") == 2 or running.poll() is not None)
    (run,) = (tmp_path / "runs").iterdir()
    assert eventually(lambda: "in use by" not in dutlab("undo", str(run)).stderr), "what held the lease ends"
    assert "prog/xdp" not in links()
