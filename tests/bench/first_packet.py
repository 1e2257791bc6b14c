"""From nothing to the first measured frame: `dutlab run` until its first trial begins, its lab built and its rig measured anew, ROUNDS=3.

    .venv/bin/python tests/bench/first_packet.py [LAB…]

Without LAB: uml-router and qemu-router, and three-node in turn with them, the peer that boots no kernel. Needs root and the built engine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

ROUNDS = int(os.environ.get("ROUNDS", "3"))
PEER = "three-node"
LABS = sys.argv[1:] or ["uml-router", "qemu-router"]
EXPERIMENT = """
experiment: first
testbed: {lab: LAB}
factors: {mode: [router]}
repeats: 1
disturbed: count
workloads:
  - sweep: {frame_sizes: [64], rates: [200pps], duration: 1s, links: [[a]]}
"""


def first_trial_s(lab: str) -> float:
    with TemporaryDirectory() as folder:
        (experiment := Path(folder, "e.yaml")).write_text(EXPERIMENT.replace("LAB", lab))
        began = time.time()
        done = subprocess.run(
            [sys.executable, "-m", "dutlab", "run", str(experiment), "--runs", folder],
            env={**os.environ, "XDG_CACHE_HOME": f"{folder}/cache"}, cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (events,) = Path(folder).glob("*/events.jsonl")
        heard = [json.loads(line) for line in events.read_text().splitlines()]
        return datetime.fromisoformat(next(e["at"] for e in heard if e["event"] == "trial-begun")).timestamp() - began


took: dict[str, list[float]] = {lab: [] for lab in (PEER, *LABS)}
for _ in range(ROUNDS):
    for lab, found in took.items():
        found.append(first_trial_s(lab))
for lab, found in took.items():
    ratio = median(found) / median(took[PEER])
    print(f"{lab}: {median(found):.1f} s ({min(found):.1f} to {max(found):.1f}), {ratio:.1f} × {PEER}")
print(f"{ROUNDS} rounds, load average {os.getloadavg()[0]:.1f}")
