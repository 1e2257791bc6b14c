"""Tunnels of the embedded lab by number: VXLAN of this kernel, and WireGuard by wireguard-go where the kernel has none."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from capability import needs
from forked import Forked
from main_job import events, only_run, processes_in, records
from processes import eventually

Dutlab = Callable[..., subprocess.CompletedProcess[str]]
EXPERIMENT = """
experiment: tunnels
testbed: {lab: three-node}
factors:
  mode: [openvpn, vxlan, wireguard-go]
  tunnels: [0, 1, 1000]
exclude: [{mode: openvpn, tunnels: [1, 1000]}, {mode: [vxlan, wireguard-go], tunnels: 0}, {mode: vxlan, tunnels: 1}]
workloads:
  - iperf3: {streams: 4, omit: 0s, duration: 1s, links: [[b]]}
order: as-written
repeats: 1
disturbed: count
watch: []
"""

_machine = needs("wireguard-go", "wg", "openvpn", "openssl", "iperf3")


def left(label: str) -> str:
    """All that these modes set, on every host of the lab."""
    asked = "ip rule; ip -o link; ip addr; ip route show table all"
    inside = (["ip", "netns", "exec", f"dutlab-{label}-{host}", "sh", "-c", asked] for host in ("source", "dut", "sink"))
    return "".join(subprocess.run(argv, capture_output=True, text=True, check=True).stdout for argv in inside)


def tunnel_processes(label: str) -> list[bytes]:
    return [
        line
        for line in processes_in(label).values()
        if line.split(b"\0")[0].endswith((b"wireguard-go", b"wireguard-far", b"openvpn", b"openvpn-far"))
    ]


@pytest.mark.smoke
def test_streams_pass_through_several_of_a_thousand_tunnels_and_nothing_is_left_of_them(
    dutlab: Dutlab, experiment: Callable[[str], str], standing_lab: str, tmp_path: Path
) -> None:
    before = left(standing_lab)
    done = dutlab("run", experiment(EXPERIMENT), "--lab", standing_lab)
    assert done.returncode == 0, done.stderr
    found = {(r["cell"]["mode"], r["cell"]["factors"]["tunnels"]): r for r in records(only_run(tmp_path))}
    assert {place: r["status"] for place, r in found.items()} == dict.fromkeys(found, "measured") and len(found) == 4, done.stderr
    assert all(r["figures"]["b"]["goodput_bps"] > 0 for r in found.values())
    for mode in ("vxlan", "wireguard-go"):
        through = found[mode, "1000"]["tool_facts"]["iperf3_source_addresses"].split(", ")
        assert (through[0], through[-1], len(set(through))) == ("172.16.1.2", "100.64.3.231", 4)
    checks = {c["what"]: c["found"] for c in found["wireguard-go", "1000"]["checks"]}
    assert checks["dut: 1000 peers of dutlab-t0"] == "1000"
    assert "16 of 1000 peers by `wg show`, 16 ends" in checks.values()
    assert checks["dut: WireGuard is the process wireguard-go"].startswith("wireguard-go ")
    assert left(standing_lab) == before and not tunnel_processes(standing_lab)
    assert not [p for name in ("wireguard-go", "openvpn") for p in Path("/run").glob(f"dutlab-{name}-*")]
    (report,) = only_run(tmp_path).glob("report/*.html")
    assert "Goodput by number of tunnels, link b" in report.read_text()


def test_after_kill_9_the_processes_are_ended_by_undo(
    start: Callable[..., Forked], dutlab: Dutlab, experiment: Callable[[str], str], standing_lab: str, tmp_path: Path
) -> None:
    before = left(standing_lab)
    text = EXPERIMENT.replace("[openvpn, vxlan, wireguard-go]", "[wireguard-go]").replace("[0, 1, 1000]", "[10]").replace("1s", "30s")
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("exclude"))
    running = start("run", experiment(text), "--lab", standing_lab)
    assert eventually(
        lambda: any(e["event"] == "trial-started" for p in (tmp_path / "runs").glob("*/journal.jsonl") for e in events(p.parent))
    )
    os.kill(running.pid, signal.SIGKILL)
    running.ended()
    assert len(tunnel_processes(standing_lab)) == 11  # one at the DUT, and one a tunnel at the source
    done = dutlab("undo", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert left(standing_lab) == before and not tunnel_processes(standing_lab)
