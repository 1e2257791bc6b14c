"""What a run takes longer under Dask than alone, in two ways; with the defaults it takes five minutes.

What the fleet recorded itself, which other work disturbs little: seconds before, after and around the run's process, beside its own
(runner/fleet/cost.py). And pairs of the same run of steps, one after the other, `dutlab run` against a worker, which see all else too.

By hand, as root:

    PYTHONPATH=src:tests scripts/isolated .venv/bin/python tests/bench/fleet_overhead.py

Under Dask it is the time from asking for the place to knowing that it is done, with leases in PostgreSQL.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dutlab.runner.campaign_folder import CampaignFolder
from dutlab.runner.fleet.cost import FleetCost
from dutlab.store.fleet_database import FLEET_DATABASE
from fleet_parts import ADDRESS, FleetParts
from postgres_cluster import postgres_cluster

STEPS = """
experiment: steps
testbed: one.yaml
factors: {{mode: [as-found]}}
workloads:
  - steps: {{run: {{here: [{{run: "sleep {seconds:g}; echo 1", name: step}}]}}}}
repeats: 1
"""


def alone_s(folder: Path, env: dict[str, str]) -> float:
    """`dutlab run`."""
    began = time.monotonic()
    argv = [sys.executable, "-m", "dutlab", "run", "steps.yaml", "--runs", "alone", "--unattended", "--yes"]
    subprocess.run(argv, cwd=folder, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return time.monotonic() - began


def fleet_s(folder: Path, env: dict[str, str], number: int, costs: list[FleetCost]) -> float:
    """A campaign of one run, whose cost is added to `costs`; the start of the campaign's own process is not counted."""
    (folder / "c.yaml").write_text(f"campaign: c{number}\nexperiments: [steps.yaml]\nfleet: '{ADDRESS}'\n")
    argv = [sys.executable, "-m", "dutlab", "campaign", "run", "c.yaml"]
    told = subprocess.Popen(
        argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert told.stderr is not None
    at = {}
    for line in told.stderr:
        at["done" if ": done" in line else "begun" if ": begun" in line else line] = time.monotonic()
    assert told.wait() == 0, at
    (standing,) = map((campaign := CampaignFolder(folder / "campaigns" / f"c{number}")).standing, campaign.planned())
    assert standing.cost is not None
    costs.append(standing.cost)
    return at["done"] - at["begun"]


def main() -> None:
    """Prints each pair, and the median of their differences."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=30.0)
    options.add_argument("--pairs", type=int, default=4)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="dutlab-overhead-") as made, postgres_cluster() as cluster:
        folder = Path(made)
        (folder / "one.yaml").write_text("testbed: one\nhosts:\n  here: {local: true}\n")
        (folder / "steps.yaml").write_text(STEPS.format(seconds=given.seconds))
        env = {**os.environ, FLEET_DATABASE: cluster.where, "XDG_STATE_HOME": str(folder), "DUTLAB_DISTURBED": "count"}
        with FleetParts(folder, sys.executable, env) as fleet:
            fleet.scheduler()
            fleet.worker("one", "one")
            fleet.said("one", "works for")
            more, costs = list[tuple[float, float]](), list[FleetCost]()
            for number in range(given.pairs):
                ways = [lambda: alone_s(folder, env), lambda n=number: fleet_s(folder, env, n, costs)]
                took = {way: ways[way]() for way in ((0, 1) if number % 2 == 0 else (1, 0))}
                more.append((took[1] - took[0], took[1] / took[0] - 1))
                print(f"alone {took[0]:.2f} s, under Dask {took[1]:.2f} s: {more[-1][0]:+.2f} s, {more[-1][1]:+.1%}", flush=True)
    for name in ("before_s", "after_s", "carried_s", "added_s", "run_s"):
        print(f"recorded, median: {name} {statistics.median(getattr(cost, name) for cost in costs):.2f}")
    print(f"recorded, median: {statistics.median(cost.added_share for cost in costs):.2%} of the run's own time")
    print(f"median of {given.pairs} pairs: {statistics.median(s for s, _ in more):+.2f} s, {statistics.median(p for _, p in more):+.1%}")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main()
