"""The same fio job under dutlab and by hand, in turns, on a loop device that nothing holds back: the ratio of IOPS, round by round.

ROUNDS=10 rounds of SECONDS=3 s each way; the order changes from round to round. Root, loop devices and fio are needed.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from types import SimpleNamespace

from dutlab.events import no_observer
from dutlab.hosts.local import LocalHost
from dutlab.spec.workloads.fio import FioSetting
from dutlab.tools.fio.drives import FoundDrive
from dutlab.tools.fio.program import job_file, run

ROUNDS, SECONDS = int(os.environ.get("ROUNDS", "10")), float(os.environ.get("SECONDS", "3"))
SIZE = 256 << 20
SETTING = FioSetting(
    options={"rw": "randread", "bs": "4k", "iodepth": "16", "direct": "1", "ioengine": "libaio"},
    writes=False,
    ramp_s=0.5,
    duration_s=SECONDS,
)


def by_hand(drive: FoundDrive, folder: Path) -> float:
    """As someone would who has the job file."""
    (folder / "job.fio").write_text(job_file(SETTING, {"d1": drive}))
    argv = ["fio", "--output-format=json+", "--output=report.json", "job.fio"]
    subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    return float(json.loads((folder / "report.json").read_text())["jobs"][0]["read"]["iops"])


def under_dutlab(drive: FoundDrive) -> float:
    """What the workload does with it, from job file to figures."""
    site = SimpleNamespace(hosts={"server": LocalHost("server")}, tell=no_observer)
    ran = asyncio.run(run(site, {"server": {"d1": drive}}, SETTING))  # type: ignore[arg-type] -- its hosts and `tell` are all that is used
    return ran.whole.figures["iops.read"]


def main() -> None:
    """Makes the device, and takes it away."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("PLACE", "/var/tmp")) as name:
        folder = Path(name)
        image = folder / "drive.img"
        image.write_bytes(os.urandom(1 << 20) * (SIZE >> 20))
        device = subprocess.run(
            ["losetup", "--find", "--show", "--direct-io=on", image], check=True, capture_output=True, text=True
        ).stdout.strip()
        try:
            drive, ratios = FoundDrive("server:d1", device, SIZE), []
            for number in range(ROUNDS):
                first_is_ours = number % 2 == 0
                before = under_dutlab(drive) if first_is_ours else by_hand(drive, folder)
                after = by_hand(drive, folder) if first_is_ours else under_dutlab(drive)
                ours, hand = (before, after) if first_is_ours else (after, before)
                ratios.append(ours / hand)
                print(f"round {number + 1}: {ours:.0f} IOPS under dutlab, {hand:.0f} by hand, ratio {ratios[-1]:.3f}", flush=True)
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)
    print(f"ratio: median {median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f} of {ROUNDS} rounds")


if __name__ == "__main__":
    main()
