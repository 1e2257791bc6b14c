"""The embedded lab, built for real: what it is, what it leaves alone, and how it comes down."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from capability import have_root, have_user_namespaces, need
from dutlab import labs
from dutlab.errors import InputError, LabError
from dutlab.labs import napi, netdev
from dutlab.labs.lab import PRIORITY
from dutlab.labs.lost_guests import LabGone
from dutlab.labs.state import StateFolder, namespaces_of
from processes import LIMIT_S, eventually, running_with

pytestmark = pytest.mark.timing

NAMESPACES = Path("/run/netns")
HOSTS = ("source", "dut", "sink")


async def ping(lab: labs.Lab, role: str, target: str, *, count: int = 3) -> str:
    done = await lab.hosts()[role].run(["ping", "-n", "-c", str(count), "-i", "0.05", "-W", "1", target], check=False)
    return done.text


async def forward(lab: labs.Lab) -> None:
    await lab.hosts()["dut"].run(["sysctl", "-w", "net.ipv4.ip_forward=1"])


async def test_both_links_carry_packets_through_the_dut_once_it_forwards(lab: labs.Lab) -> None:
    assert " 0 received" in await ping(lab, "source", "172.16.10.2", count=1)
    await forward(lab)
    for role, target in (("source", "172.16.10.2"), ("source", "172.16.11.2"), ("sink", "172.16.0.2"), ("sink", "172.16.1.2")):
        said = await ping(lab, role, target)
        assert " 3 received" in said, said
        assert "ttl=63" in said  # one router in between, RFC 1812 section 5.3.1


async def test_ports_and_addresses_are_those_of_the_testbed(lab: labs.Lab) -> None:
    for link in lab.testbed.links.values():
        for port, address in zip(link.path, link.addresses, strict=True):
            said = await lab.hosts()[port.host].run(["ip", "-j", "-d", "addr", "show", "dev", port.interface])
            (found,) = json.loads(said.text)
            assert [f"{a['local']}/{a['prefixlen']}" for a in found["addr_info"]] == [str(address)]
            assert (found["mtu"], found["operstate"], found["linkinfo"]["info_kind"]) == (link.mtu, "UP", "veth")


async def test_a_silent_lab_carries_no_frame(lab: labs.Lab) -> None:
    before = await received(lab)
    await asyncio.sleep(1.0)
    assert await received(lab) == before


async def received(lab: labs.Lab) -> dict[str, int]:
    found = {}
    for role, host in lab.hosts().items():
        for link in json.loads((await host.run(["ip", "-s", "-j", "link"])).text):
            if link["ifname"] != "lo":
                found[f"{role}:{link['ifname']}"] = link["stats64"]["rx"]["packets"]
    assert len(found) == 8
    return found


async def test_neighbours_never_age(lab: labs.Lab) -> None:
    for role, count in (("source", 2), ("dut", 4), ("sink", 2)):
        said = await lab.hosts()[role].run(["ip", "-j", "neigh"])
        assert [n["state"] for n in json.loads(said.text)] == [["PERMANENT"]] * count


async def test_nothing_can_leave_the_lab(lab: labs.Lab) -> None:
    for host in lab.hosts().values():
        assert json.loads((await host.run(["ip", "-j", "route", "show", "default"])).text or "[]") == []
        done = await host.run(["ip", "route", "get", "198.51.100.1"], check=False)
        assert done.status != 0


async def test_frames_on_a_link_are_no_longer_than_its_mtu(lab: labs.Lab) -> None:
    await forward(lab)
    hosts = lab.hosts()
    before = json.loads((await hosts["dut"].run(["ip", "-s", "-j", "link", "show", "dev", "in-a"])).text)[0]["stats64"]["rx"]
    server = await hosts["sink"].spawn(["python3", "-c", _SWALLOW])
    assert await server.readline() == b"listening\n"
    await hosts["source"].run(["python3", "-c", _POUR])
    assert await server.readline() == b"all\n"
    await server.end()
    after = json.loads((await hosts["dut"].run(["ip", "-s", "-j", "link", "show", "dev", "in-a"])).text)[0]["stats64"]["rx"]
    frames, octets = after["packets"] - before["packets"], after["bytes"] - before["bytes"]
    assert octets > 2_000_000
    assert octets / frames <= 1514


_SWALLOW = """
import socket
s = socket.create_server(("172.16.10.2", 5555)); print("listening", flush=True); c, _ = s.accept()
while c.recv(65536): pass
print("all", flush=True)
"""
_POUR = """
import socket
s = socket.create_connection(("172.16.10.2", 5555)); s.sendall(bytes(2_000_000)); s.close()
"""


async def test_the_napi_threads_run_where_the_description_says(lab: labs.Lab) -> None:
    wanted = labs.description("three-node").layout()[1].napi_threads
    for role, host in lab.hosts().items():
        ports = [p.interface for link in lab.testbed.links.values() for p in link.path if p.host == role]
        for port in ports:
            assert (await host.get(f"/sys/class/net/{port}/threaded")).strip() == (b"1" if role in wanted else b"0")
    assert lab.notes == ()
    assert set(lab.cpus) == {"source", "dut", "sink"}
    assert lab.watch_cpu in os.sched_getaffinity(0)


async def test_programs_and_threads_of_a_lab_go_before_other_work(lab: labs.Lab) -> None:
    need("root", have_root() and Path("/proc/self/uid_map").read_text().split()[2] == str(2**32 - 1))
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for host in lab.hosts().values():
        assert int((await host.run(["nice"])).text) == own + PRIORITY
    threads = [pid for pid in processes_named("napi/in-a-") if os.getpriority(os.PRIO_PROCESS, pid) == PRIORITY]
    assert threads


async def test_a_full_ring_holds_a_socket_back_and_drops_nothing(lab: labs.Lab) -> None:
    need("veth that holds a socket back (Linux 6.16)", tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 16))
    hosts = lab.hosts()
    await hosts["dut"].run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
    swallow = await hosts["sink"].spawn([sys.executable, "-c", _SWALLOW])
    assert (await swallow.readline()).strip() == b"listening"
    beside_the_dut = ["taskset", "-c", ",".join(map(str, lab.cpus["dut"]))]  # its thread waits meanwhile, and the ring before it fills
    await hosts["source"].run([*beside_the_dut, sys.executable, "-c", _POUR.replace("2_000_000", "50_000_000")], timeout_s=LIMIT_S)
    assert (await swallow.readline()).strip() == b"all"
    await swallow.end()
    sent = json.loads((await hosts["source"].run(["ip", "-j", "-s", "link", "show", "dev", "eth-a"])).text)[0]["stats64"]["tx"]
    assert (sent["dropped"], sent["packets"] > 25_000) == (0, True)


async def test_pinned_threads_serve_on_the_duts_core_alone(label: str) -> None:
    need("two cores", len(os.sched_getaffinity(0)) >= 2)
    lab = await labs.up("three-node", label=label, layout="dut-core")
    try:
        assert set(lab.cpus["dut"]) in [cores_of(pid) for pid in processes_named("napi/in-a-")]
    finally:
        await labs.down(label)


async def test_the_napi_threads_of_a_lab_are_told_from_those_of_another(label: str) -> None:
    labels = {f"{label}-{n}": n for n in "ab"}
    try:
        built = [await labs.up("three-node", label=one, layout="dut-threaded") for one in labels]
        threads = [napi.threads_of(NAMESPACES / lab.namespaces["dut"], {}) for lab in built]
    finally:
        for one in labels:
            await labs.down(one)
    need("napi-get", netdev.napi_pids(Path("/proc/self/ns/net")) is not None)
    for found, lab in zip(threads, built, strict=True):
        assert sorted(found.values()) == sorted(p.interface for link in lab.testbed.links.values() for p in (link.dut_in, link.dut_out))
    assert not threads[0].keys() & threads[1].keys()


def cores_of(pid: int) -> set[int]:
    """Where it may run; nowhere if it has ended: tests beside this one have such threads too."""
    try:
        return os.sched_getaffinity(pid)
    except ProcessLookupError:
        return set()


def processes_named(prefix: str) -> list[int]:
    found = []
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text().startswith(prefix):
                found.append(int(comm.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("layout", sorted(labs.description("three-node").settings.layouts))
async def test_every_layout_can_be_built(label: str, layout: str) -> None:
    lab = await labs.up("three-node", label=label, layout=layout)
    try:
        await forward(lab)
        assert " 3 received" in await ping(lab, "source", "172.16.11.2")
        assert lab.layout == layout
    finally:
        await labs.down(label)


async def test_two_labs_stand_side_by_side_and_do_not_hear_each_other(label: str) -> None:
    one, two = await asyncio.gather(labs.up("three-node", label=f"{label}-x"), labs.up("three-node", label=f"{label}-y"))
    try:
        await forward(one)
        await forward(two)
        silent = await received(two)
        assert " 3 received" in await ping(one, "source", "172.16.10.2")
        assert await received(two) == silent
        assert {f"{label}-x", f"{label}-y"} <= {s.label for s in labs.standing()}
        await labs.down(one.label)
        assert " 3 received" in await ping(two, "source", "172.16.11.2")
    finally:
        await labs.down(one.label)
        await labs.down(two.label)


async def test_a_label_is_used_once_at_a_time(lab: labs.Lab) -> None:
    with pytest.raises(LabError, match=f"labelled {lab.label} exists already"):
        await labs.up("three-node", label=lab.label)
    await forward(lab)  # and the lab that stood is as it was
    assert " 3 received" in await ping(lab, "source", "172.16.10.2")


async def test_two_builders_of_one_label_make_one_lab(label: str) -> None:
    built = await asyncio.gather(*(labs.up("three-node", label=label) for _ in range(3)), return_exceptions=True)
    made = [b for b in built if isinstance(b, labs.Lab)]
    refused = [b for b in built if isinstance(b, LabError)]
    try:
        assert (len(made), len(refused)) == (1, 2), built
        await forward(made[0])
        assert " 3 received" in await ping(made[0], "source", "172.16.10.2")
    finally:
        await labs.down(label)


async def test_a_namespace_of_somebody_else_is_not_taken_over(label: str) -> None:
    foreign = namespaces_of(label, HOSTS)["dut"]
    subprocess.run(["ip", "netns", "add", foreign], check=True)
    try:
        with pytest.raises(LabError, match="exists already"):
            await labs.up("three-node", label=label)
        assert (NAMESPACES / foreign).exists()
        assert label not in StateFolder().labels()
    finally:
        subprocess.run(["ip", "netns", "del", foreign], check=True)


@pytest.mark.parametrize("bad", ["", "-x", "x-", "UPPER", "a/b", "../up", "with space", "x" * 25])
async def test_a_label_that_is_none_is_refused(bad: str) -> None:
    with pytest.raises(InputError, match="not a label"):
        await labs.up("three-node", label=bad or "-")


async def test_an_unknown_lab_or_layout_names_the_known_ones(label: str) -> None:
    with pytest.raises(InputError, match="three-node"):
        labs.description("two-node")
    with pytest.raises(InputError, match="dut-core"):
        await labs.up("three-node", label=label, layout="nonsense")


async def test_down_ends_the_processes_inside_and_no_others(lab: labs.Lab, marker: str) -> None:
    inside = await lab.hosts()["sink"].spawn(["sh", "-c", f"trap '' TERM; sleep {marker} & sleep {marker}"])
    with subprocess.Popen(["sleep", marker]) as outside:
        assert eventually(lambda: len(running_with(marker)) == 3)
        assert await labs.down(lab.label)
        assert running_with(marker) == [outside.pid]
        outside.kill()
    await inside.end()


async def test_down_twice_and_down_of_nothing_are_harmless(lab: labs.Lab) -> None:
    assert [await labs.down(lab.label), await labs.down(lab.label), await labs.down("never-was")] == [True, False, False]


async def test_down_works_after_somebody_removed_half_of_the_lab(lab: labs.Lab) -> None:
    subprocess.run(["ip", "netns", "del", lab.namespaces["dut"]], check=True)
    subprocess.run(["umount", NAMESPACES / lab.namespaces["sink"]], check=True)  # the name stays, the namespace is gone
    assert await labs.down(lab.label)
    assert not any((NAMESPACES / n).exists() for n in lab.namespaces.values())


async def test_a_torn_state_file_is_a_lab_of_which_nothing_was_built(label: str) -> None:
    folder = StateFolder()
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.file(label).write_text('{"schema_version": 1, "lab')
    assert label in {s.label for s in labs.standing()}
    assert await labs.down(label)


async def test_a_lab_whose_state_file_was_removed_is_listed_and_comes_down(lab: labs.Lab) -> None:
    StateFolder().file(lab.label).unlink()
    (left,) = [s for s in labs.standing() if s.label == lab.label]
    assert set(left.namespaces) == {"source", "dut", "sink"} and not left.complete
    with pytest.raises(LabGone):
        await labs.attach(lab.label)
    assert await labs.down(lab.label)
    assert not any((NAMESPACES / n).exists() for n in lab.namespaces.values())


async def test_a_lab_is_built_although_somebody_removes_the_state_folder_meanwhile(label: str) -> None:
    building = asyncio.ensure_future(labs.up("three-node", label=label))
    while not StateFolder().file(label).exists():
        await asyncio.sleep(0.005)
    shutil.rmtree(StateFolder().path)
    assert (await building).label == label
    assert (await labs.attach(label)).label == label
    assert await labs.down(label)


async def test_a_lab_can_be_found_again_by_another_process(lab: labs.Lab, python: str, python_env: dict[str, str]) -> None:
    script = f"""
        import asyncio
        from dutlab import labs
        async def main():
            lab = await labs.attach({lab.label!r})
            print((await lab.hosts()["dut"].run(["ip", "-br", "link", "show", "dev", "out-b"])).text, lab.cpus, lab.watch_cpu)
            standing, = [s for s in labs.standing() if s.label == {lab.label!r}]
            print(standing.complete, standing.owner_alive, sorted(standing.namespaces))
        asyncio.run(main())
    """
    done = subprocess.run([python, "-c", textwrap.dedent(script)], env=python_env, capture_output=True, text=True, check=True)
    assert "out-b" in done.stdout
    assert f"{lab.cpus} {lab.watch_cpu}" in done.stdout
    assert "True True ['dut', 'sink', 'source']" in done.stdout


async def test_a_lab_that_is_not_whole_cannot_be_attached(lab: labs.Lab) -> None:
    with pytest.raises(LabError, match=rf"no lab labelled never-was; labs here: .*{lab.label}"):
        await labs.attach("never-was")
    subprocess.run(["ip", "netns", "del", lab.namespaces["sink"]], check=True)
    with pytest.raises(LabError) as caught:
        await labs.attach(lab.label)
    assert "build it again" in caught.value.remedy


def test_down_cleans_up_after_up_was_killed_at_any_point(label: str, python: str, python_env: dict[str, str]) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    delays = random.Random(seed)
    script = f'import asyncio; from dutlab import labs; print("up", flush=True); asyncio.run(labs.up("three-node", label="{label}"))'
    left_something = 0
    for attempt in range(6):
        with subprocess.Popen([python, "-c", script], env=python_env, stdout=subprocess.PIPE) as builder:
            assert builder.stdout and builder.stdout.readline() == b"up\n"
            if attempt % 2:  # at any instant of the building, and at any after its first trace
                assert eventually(StateFolder().file(label).exists)
            time.sleep(delays.uniform(0, 0.25))
            builder.send_signal(signal.SIGKILL)
        left_something += asyncio.run(labs.down(label))
        # A child of the builder may have been half through `ip netns add` when it was killed with it.
        assert [n for n in namespaces_of(label, HOSTS).values() if (NAMESPACES / n).exists()] == []
        assert label not in StateFolder().labels()
    assert left_something > 0, "the builder was never caught at work"
    asyncio.run(labs.up("three-node", label=label))
    asyncio.run(labs.down(label))


async def test_up_that_is_cancelled_leaves_nothing(label: str) -> None:
    for delay_s in (0.005, 0.03, 0.08):
        building = asyncio.ensure_future(labs.up("three-node", label=label))
        await asyncio.sleep(delay_s)
        building.cancel()
        with pytest.raises(asyncio.CancelledError):
            await building
        assert [n for n in namespaces_of(label, HOSTS).values() if (NAMESPACES / n).exists()] == []
        assert label not in StateFolder().labels()


async def test_up_that_fails_half_way_leaves_nothing_and_says_what_to_do(
    label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "ethtool"
    fake.write_text("#!/bin/sh\necho no such feature >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(LabError) as caught:
        await labs.up("three-node", label=label)
    assert "no such feature" in caught.value.what and "labs need root" in caught.value.remedy


@pytest.mark.parametrize("user", [0, 65534])
def test_a_lab_stands_in_a_user_namespace_without_root(label: str, python: str, python_env: dict[str, str], user: int) -> None:
    need("userns", have_user_namespaces())
    script = f"""
        import asyncio
        from dutlab import labs
        async def main():
            lab = await labs.up("three-node", label={label!r})
            hosts = lab.hosts()
            await hosts["dut"].run(["sysctl", "-w", "net.ipv4.ip_forward=1"])
            print((await hosts["source"].run(["ping", "-n", "-c", "3", "-i", "0.2", "172.16.11.2"])).text)
            print(*lab.notes, sep="\\n")
            print("down:", await labs.down(lab.label), await labs.down(lab.label))
        asyncio.run(main())
    """
    as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    # Our interpreter may lie where nobody but root can read; the system's will do with our libraries.
    site = next(p for p in sys.path if p.endswith("site-packages"))
    env = {**python_env, "PYTHONPATH": f"{python_env['PYTHONPATH']}:{site}", "PYTHONDONTWRITEBYTECODE": "1"}
    able = [
        p
        for p in (python, f"/usr/bin/python3.{sys.version_info.minor}")
        if runs([*as_user, "unshare", "-Ur", p, "-c", "import dutlab.labs"], env)
    ]
    need("userns", bool(able))
    inside = ["unshare", "-Urnm", "sh", "-c", 'mount -t tmpfs tmpfs /run && exec "$@"', "sh", able[0], "-c", textwrap.dedent(script)]
    done = subprocess.run([*as_user, *inside], env=env, cwd="/", capture_output=True, text=True, check=False)
    assert " 3 received" in done.stdout, done.stderr
    assert "down: True False" in done.stdout
    if user:
        assert "the NAPI threads of dut run on any core: pinning them needs root" in done.stdout


def runs(argv: list[str], env: dict[str, str]) -> bool:
    try:
        return subprocess.run(argv, env=env, cwd="/", capture_output=True, check=False).returncode == 0
    except OSError:
        return False
