"""Family vpp on a VPP of this machine, which no package of Debian has: each mode, its figures, and the way back, also after a kill.

Root, network namespaces, `vpp` and `vppctl` in PATH are needed; VPP is started as examples/user-space does.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "user-space"
PORTS = ("host-in-a", "host-out-a")
FRAMES = 2000
"""Frames of a trial of the example: 2 kpps for a second."""


def vppctl(words: str) -> str:
    """The answer of VPP."""
    return subprocess.run(["vppctl", *words.split()], check=True, capture_output=True, text=True).stdout


def state() -> list[str]:
    """What the modes change. Lists have lines of VPP's own tables, which get new numbers, and of places that a list had once."""
    lists = [line for line in vppctl("show acl-plugin acl").splitlines() if "context index" not in line and not line.rstrip().endswith(":")]
    return [*lists, vppctl("show acl-plugin interface"), vppctl("show nat44 interfaces"), vppctl("show nat44 summary").splitlines()[0]]


def dutlab(*words: str) -> list[str]:
    """The command."""
    return [sys.executable, "-m", "dutlab", *words]


def every_mode(runs: Path) -> None:
    """Modes are applied and verified, frames are counted at VPP's ports, and another user's list is where it was."""
    before = state()
    subprocess.run(dutlab("run", str(EXAMPLES / "vpp.yaml"), "--runs", str(runs), "--unattended"), check=True)
    assert state() == before
    (run,) = runs.iterdir()
    records = [json.loads(path.read_text()) for path in sorted(run.glob("trials/*/record.json"))]
    assert len(records) == 2 * 6
    for record in records:
        assert record["status"] == "measured"
        assert all(check["passed"] for check in record["checks"])
        counters = record["counters"]["dut"]
        assert counters[f"{PORTS[0]}_rx_packets"] >= FRAMES
        assert counters[f"{PORTS[1]}_tx_packets"] >= FRAMES - record["flows"][0]["lost_frames"]


def a_kill(runs: Path) -> None:
    """`dutlab undo` restores VPP after dutlab was killed while VPP translated."""
    before = state()
    one_long_trial = ("--set", "factors.mode=nat", "--set", "workloads.sweep.frame_sizes=64", "--set", "workloads.sweep.duration=60s")
    with subprocess.Popen(dutlab("run", str(EXAMPLES / "vpp.yaml"), "--runs", str(runs), "--unattended", *one_long_trial)) as running:
        while running.poll() is None and PORTS[0] not in vppctl("show nat44 interfaces"):
            time.sleep(0.2)
        running.send_signal(signal.SIGKILL)
    assert state() != before
    (run,) = runs.iterdir()
    subprocess.run(dutlab("undo", str(run)), check=True)
    assert state() == before


def main() -> None:
    """Start VPP with a list of another user on its outer port, and end it."""
    if missing := [name for name in ("vpp", "vppctl") if shutil.which(name) is None]:
        print(f"not run: no {', '.join(missing)} in PATH")
        return
    os.environ["DUTLAB_DISTURBED"] = "count"
    try:
        subprocess.run(["sh", str(EXAMPLES / "vpp.sh"), "up"], check=True)
        vppctl("set acl-plugin acl permit src 10.0.0.0/8 dst 0.0.0.0/0 tag theirs")
        vppctl(f"set acl-plugin interface {PORTS[1]} input acl 0")
        with tempfile.TemporaryDirectory() as folder:
            for case in (every_mode, a_kill):
                case(Path(folder) / case.__name__)
                print(f"{case.__name__}: ok")
    finally:
        subprocess.run(["sh", str(EXAMPLES / "vpp.sh"), "down"], check=True)


if __name__ == "__main__":
    main()
