"""The labs `qemu-router` and `qemu-two-sites`: guests in QEMU, whose kernel has the filters, NAT and WireGuard that user-mode Linux lacks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

from array_lab import started
from guests import in_guest, panic
from main_job import only_run, records
from processes import LIMIT_S, eventually
from run_records import record_in
from vm.conftest import Dutlab

EXPERIMENT = """
experiment: guest
testbed: {lab: qemu-router}
factors: {mode: [router, nat, filter-default], flowtable: ["off", software]}
exclude: [{mode: [router, filter-default], flowtable: software}]
order: as-written
repeats: 1
disturbed: count
workloads:
  - sweep: {frame_sizes: [64, 1518], rates: [200pps], duration: 500ms, links: [[a]]}
watch: []
"""


def test_it_routes_translates_and_filters_every_frame_and_comes_back_from_a_panic(dutlab: Dutlab, qemu_router: str, tmp_path: Path) -> None:
    within = in_guest(qemu_router, "dut", "uname -r; touch /etc/of-a-guest; rm -f /boot/vmlinuz*; ls /boot")
    assert "-cloud-amd64" in within.splitlines()[0], within
    assert "vmlinuz" in within.partition("\n")[2]
    assert not Path("/etc/of-a-guest").exists() and not Path("/run/virtiofsd").exists()
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    done = dutlab("run", "e.yaml", "--lab", qemu_router)
    assert done.returncode == 0, done.stderr
    found = records(only_run(tmp_path))
    assert [r["status"] for r in found] == ["measured"] * 8, done.stderr
    for record in found:
        (flow,) = record["flows"]
        kept = {name: flow[f"{name}_frames"] for name in ("refused", "lost", "duplicated", "reordered", "foreign")}
        assert (flow["intended_frames"], flow["received_frames"], kept) == (100, 100, dict.fromkeys(kept, 0)), record["cell"]
    long = re.sub("^factors.*\nexclude.*$", "factors: {mode: [nat], flowtable: [software]}", EXPERIMENT, flags=re.MULTILINE)
    long = long.replace("[64, 1518]", "[64]").replace("500ms", "5s")
    (tmp_path / "long.yaml").write_text(long)
    with dutlab.begin("run", "long.yaml", "--lab", qemu_router, "--runs", "again") as running:
        assert eventually(lambda: started(tmp_path / "again") or running.poll() is not None, LIMIT_S)
        panic(qemu_router, "dut")
        assert running.wait(LIMIT_S) == 0, running.said.read_text()
    (run,) = (tmp_path / "again").iterdir()
    (record,) = records(run)
    assert (record["status"], record["attempt"], record["flows"][0]["lost_frames"]) == ("measured", 2, 0), record
    lost = run / "trials" / "0001.host-lost-1"
    assert record_in(lost / "record.json")["status"] == "failed"
    assert "Kernel panic" in (lost / "raw" / "console-dut.txt").read_text(errors="replace")


STICK = """
experiment: stick
testbed: {lab: qemu-router}
factors: {mode: [router, filter-default, nat], vlan: [10 20]}
order: as-written
repeats: 1
disturbed: count
workloads:
  - sweep: {frame_sizes: [68, 1518], rates: [200pps], duration: 500ms, links: [[a]]}
watch: []
"""


def test_on_a_stick_each_frame_comes_in_one_vlan_and_leaves_in_the_other_and_undo_after_kill_9_deletes_both(
    dutlab: Dutlab, qemu_router: str, tmp_path: Path
) -> None:
    (tmp_path / "e.yaml").write_text(STICK)
    done = dutlab("run", "e.yaml", "--lab", qemu_router)
    assert done.returncode == 0, done.stderr
    found = records(only_run(tmp_path))
    assert [r["status"] for r in found] == ["measured"] * 6, done.stderr
    for record in found:
        (flow,) = record["flows"]
        assert (flow["sent_frames"], flow["received_frames"]) == (100, 100), record["cell"]
        assert flow["received_bytes"] == 100 * flow["mean_frame_bytes"], "with the tag, which the source's port removes"
        assert flow["sources"] == ["172.16.10.1" if record["cell"]["mode"] == "nat" else "172.16.0.2"]
        counters = record["counters"]["dut"]
        assert counters["dutlab-v0i_rx_packets"] >= 100 and counters["dutlab-v0o_tx_packets"] >= 100, counters
        assert counters.get("out-a_tx_packets", 0) < 100, counters
    (tmp_path / "long.yaml").write_text(STICK.replace("router, filter-default, nat", "filter-default").replace("500ms", "60s"))
    with dutlab.begin("run", "long.yaml", "--lab", qemu_router, "--runs", "again") as running:
        assert eventually(lambda: started(tmp_path / "again") or running.poll() is not None, LIMIT_S) and running.poll() is None
        os.kill(running.pid, signal.SIGKILL)
        running.wait(LIMIT_S)
    assert "dutlab-v0o" in in_guest(qemu_router, "dut", "ip -brief link")
    (run,) = (tmp_path / "again").iterdir()
    undone = dutlab("undo", str(run))
    assert undone.returncode == 0, undone.stderr


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
factors: {mode: [wireguard], tunnels: [100]}
repeats: 1
disturbed: count
workloads:
  - iperf3: {streams: 2, omit: 0s, duration: 1s, links: [[a]]}
watch: []
"""


def test_what_wireguard_puts_on_the_wire_is_encrypted_and_no_key_of_it_is_kept(
    dutlab: Dutlab, qemu_sites: str, tmp_path: Path, python: str
) -> None:
    (tmp_path / "tunnel.yaml").write_text(TUNNELLED)
    watch = ["ip", "netns", "exec", f"dutlab-{qemu_sites}-dut", python, "-c", WATCH, "in-a", "51820", "172.16.10.2"]
    with subprocess.Popen(watch, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        assert watcher.stdout.readline() == "watching\n"
        done = dutlab("run", "tunnel.yaml", "--lab", qemu_sites)
        seen, _ = watcher.communicate()
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    (record,) = records(run)
    assert record["status"] == "measured", done.stderr
    sealed, *clear = seen.split()
    assert int(sealed) > 20 and not clear
    # A report has hashes of its own scripts, which look like keys.
    files = [path for path in run.rglob("*") if path.is_file() and path.suffix != ".html"]
    assert not [path for path in files if re.search(rb"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{43}=", path.read_bytes())]
    left = in_guest(qemu_sites, "dut", "ip rule; ip -o link; ip route show table all")
    assert "dutlab-t0" not in left and "51820" not in left and "100.64." not in left
    assert "16 of 100 peers by `wg show`, 16 ends" in [c["found"] for c in record["checks"]]
