"""The labs `qemu-router` and `qemu-two-sites`: guests in QEMU, whose kernel has the filters, NAT and WireGuard that user-mode Linux lacks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from array_lab import started
from capability import have_netns, need, need_engine, need_program
from dutlab.hosts.netns import NAMESPACES
from dutlab.labs.state import StateFolder
from guests import kernels
from main_job import only_run, records
from processes import LIMIT_S, eventually

EXPERIMENT = """
experiment: guest
testbed: {lab: qemu-router}
factors: {mode: [router, nat, filter-1]}
order: as-written
repeats: 1
disturbed: count
workloads:
  - sweep: {frame_sizes: [64, 1518], rates: [200pps], duration: 1s, links: [[a]]}
"""


@pytest.fixture(autouse=True)
def parts() -> None:
    need("netns", have_netns())
    need("qemu", bool(shutil.which("qemu-system-x86_64")) and any(Path("/boot").glob("vmlinuz-*-cloud-amd64")))
    need_program("busybox")
    need_engine()


def panic(dutlab, label: str) -> None:
    """Its kernel ends a second from now."""
    dutlab("lab", "shell", label, "dut", "sh", "-c", "(sleep 1; echo c >/proc/sysrq-trigger) >/dev/null 2>&1 &")


def test_it_routes_translates_and_filters_every_frame_comes_back_from_a_panic_and_leaves_nothing(
    dutlab, tmp_path: Path, python: str, python_env
) -> None:
    label, before = f"t{os.getpid()}-q", set(NAMESPACES.glob("dutlab-*"))
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    done = dutlab("lab", "up", "qemu-router", "--label", label)
    assert done.returncode == 0, done.stderr
    try:
        within = dutlab("lab", "shell", label, "dut", "sh", "-c", "uname -r; touch /etc/of-a-guest; rm -f /boot/vmlinuz*; ls /boot")
        assert "-cloud-amd64" in within.stdout.splitlines()[0], within.stdout + within.stderr
        assert "vmlinuz" in within.stdout.partition("\n")[2]
        assert not Path("/etc/of-a-guest").exists()
        done = dutlab("run", "e.yaml", "--lab", label)
        assert done.returncode == 0, done.stderr
        found = records(only_run(tmp_path))
        assert [r["status"] for r in found] == ["measured"] * 6, done.stderr
        for record in found:
            (flow,) = record["flows"]
            kept = {name: flow[f"{name}_frames"] for name in ("refused", "lost", "duplicated", "reordered", "foreign")}
            assert (flow["intended_frames"], flow["received_frames"], kept) == (200, 200, dict.fromkeys(kept, 0)), record["cell"]
        (tmp_path / "long.yaml").write_text(
            EXPERIMENT.replace("router, nat, filter-1", "nat").replace("[64, 1518]", "[64]").replace("1s", "8s")
        )
        argv = [python, "-m", "dutlab", "run", "long.yaml", "--lab", label, "--runs", "again"]
        with (tmp_path / "said").open("w") as said:
            running = subprocess.Popen(argv, cwd=tmp_path, env=python_env, stdout=said, stderr=said)
            try:
                assert eventually(lambda: started(tmp_path / "again") or running.poll() is not None, LIMIT_S)
                panic(dutlab, label)
                assert running.wait(LIMIT_S) == 0, (tmp_path / "said").read_text()
            finally:
                running.kill()
                running.wait()
        (run,) = (tmp_path / "again").iterdir()
        (record,) = records(run)
        assert (record["status"], record["attempt"], record["flows"][0]["lost_frames"]) == ("measured", 2, 0), record
        assert "Kernel panic" in json.loads((run / "trials" / "0001.host-lost-1" / "record.json").read_text())["why"]
        panic(dutlab, label)
        assert eventually(lambda: not kernels(label), LIMIT_S)
        done = dutlab("measure", "sweep", "frame_sizes=64", "--lab", label)
        assert (done.returncode, "the kernel of its guest has ended" in done.stderr) == (3, True), done.stderr
        assert "Kernel panic" in (StateFolder().ssh_folder(label) / "console-dut").read_text(errors="replace")
    finally:
        done = dutlab("lab", "down", label)
    assert done.returncode == 0, done.stderr
    assert not StateFolder().ssh_folder(label).exists()
    assert not Path("/run/virtiofsd").exists()
    assert set(NAMESPACES.glob("dutlab-*")) == before


WATCH = """
import selectors, socket, sys
port, udp, sink = sys.argv[1], int(sys.argv[2]), socket.inet_aton(sys.argv[3])
wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
wire.bind((port, 0))
found = selectors.DefaultSelector()
found.register(wire, selectors.EVENT_READ)
found.register(sys.stdin, selectors.EVENT_READ)
print("watching", flush=True)
sealed, clear = 0, []
while all(key.fileobj is wire for key, _ in found.select()):
    data, (_, kind, *_) = wire.recvfrom(2048)
    if kind == 0x0800 and data[9] == 17 and udp in (int.from_bytes(data[20:22]), int.from_bytes(data[22:24])):
        sealed += 1
    elif kind == 0x0800 and sink in (data[12:16], data[16:20]):
        clear.append(data[:60].hex())
print(sealed, *clear)
"""
"""Until its input ends: counts packets of a UDP port in both directions, and shows those from or to the sink in the clear."""
TUNNELLED = """
experiment: tunnel
testbed: {lab: qemu-two-sites}
factors: {mode: [wireguard]}
repeats: 1
disturbed: count
workloads:
  - iperf3: {streams: 1, omit: 0s, duration: 2s, links: [[a]]}
"""


def test_what_wireguard_puts_on_the_wire_is_encrypted_and_no_key_of_it_is_kept(dutlab, tmp_path: Path, python: str) -> None:
    need_program("wg")
    label, before = f"t{os.getpid()}-w", set(NAMESPACES.glob("dutlab-*"))
    (tmp_path / "tunnel.yaml").write_text(TUNNELLED)
    done = dutlab("lab", "up", "qemu-two-sites", "--label", label)
    assert done.returncode == 0, done.stderr
    try:
        watch = ["ip", "netns", "exec", f"dutlab-{label}-dut", python, "-c", WATCH, "in-a", "51820", "172.16.10.2"]
        with subprocess.Popen(watch, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:
            assert watcher.stdout is not None
            assert watcher.stdout.readline() == "watching\n"
            done = dutlab("run", "tunnel.yaml", "--lab", label)
            seen, _ = watcher.communicate()
        assert done.returncode == 0, done.stderr
        run = only_run(tmp_path)
        (record,) = records(run)
        assert record["status"] == "measured", done.stderr
        sealed, *clear = seen.split()
        assert int(sealed) > 100
        assert not clear
        # A report has hashes of its own scripts, which look like keys.
        files = [path for path in run.rglob("*") if path.is_file() and path.suffix != ".html"]
        assert not [path for path in files if re.search(rb"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{43}=", path.read_bytes())]
        left = dutlab("lab", "shell", label, "dut", "sh", "-c", "ip rule; ip -o link; ip route show table all").stdout
        assert "dutlab-t0" not in left
        assert "51820" not in left
    finally:
        done = dutlab("lab", "down", label)
    assert done.returncode == 0, done.stderr
    assert set(NAMESPACES.glob("dutlab-*")) == before
