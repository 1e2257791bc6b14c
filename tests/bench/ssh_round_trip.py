"""A command's round trip over ssh: dutlab's host against `ssh` with ControlMaster, on one embedded lab, taken in turns."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from dutlab import labs

ROUNDS = 60


async def main() -> None:
    label = labs.new_label()
    try:
        lab = await labs.up("three-node-ssh", label=label)
        assert lab.ssh_config is not None
        with tempfile.TemporaryDirectory() as folder:
            await compare(lab, ["ssh", "-F", str(lab.ssh_config), "-o", f"ControlPath={Path(folder, 'master')}"])
    finally:
        await labs.down(label)


async def compare(lab: labs.Lab, ssh: list[str]) -> None:
    host = lab.hosts()["dut"]
    subprocess.run([*ssh, "-o", "ControlMaster=yes", "-o", "ControlPersist=yes", "dut", "true"], check=True, stderr=subprocess.DEVNULL)
    ours, theirs = [], []
    await host.run(["true"])
    for _ in range(ROUNDS):
        before = time.perf_counter()
        await host.run(["true"])
        between = time.perf_counter()
        await asyncio.to_thread(subprocess.run, [*ssh, "dut", "true"], check=True)
        ours.append(between - before)
        theirs.append(time.perf_counter() - between)
    await host.close()
    subprocess.run([*ssh, "-O", "exit", "dut"], check=True, stderr=subprocess.DEVNULL)
    mine, openssh = statistics.median(ours), statistics.median(theirs)
    print(
        f"round trip, median of {ROUNDS}: {mine * 1e3:.1f} ms, OpenSSH with ControlMaster {openssh * 1e3:.1f} ms, ratio {mine / openssh:.2f}"
    )


if __name__ == "__main__":
    asyncio.run(main())
