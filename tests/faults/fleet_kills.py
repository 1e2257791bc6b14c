"""A campaign of 3 labs x 2 experiments x 3 versions on 3 workers, while its parts are killed: `--kills 20`.

By hand, as root:

    PYTHONPATH=src:tests scripts/isolated .venv/bin/python tests/faults/fleet_kills.py

Kills a worker, or a process of a place or of its run, at random instants. In between it crashes PostgreSQL, restarts the scheduler and cuts
the network to either. Ends with 1 unless every planned run is there once, no lab is left and no lease. tests/servers/test_fleet.py has a short form for CI.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dutlab.hosts.netns import NAMESPACES
from dutlab.runner.fleet.leases import PostgresLeases
from dutlab.store.fleet_database import FLEET_DATABASE, PostgresDatabase
from dutlab.store.manifest import MANIFEST
from fleet_parts import ADDRESS, FleetParts
from postgres_cluster import PostgresCluster, postgres_cluster
from processes import eventually, signalled

LABS = ("three-node", "four-hosts", "two-routers")
SWEEP = """
experiment: {name}
testbed: {{lab: three-node}}
factors: {{mode: [router]}}
repeats: 1
workloads:
  - sweep: {{frame_sizes: [{size}], rates: [1kpps], duration: 300ms, links: [[a]]}}
"""
CAMPAIGN = """
campaign: kills
experiments: [small.yaml, large.yaml]
testbeds: [{labs}]
versions: {{stock: {{}}, quiet: {{{quiet}}}, loud: {{{quiet}}}}}
fleet: {{scheduler: "{address}", lease: 10s}}
tries: 100
again_after: 1s
"""
QUIET = 'apply: ["true"], verify: ["true"], restore: ["true"]'
CUT_S = 20.0
PORT = ADDRESS.rpartition(":")[2]


def cut_network() -> None:
    """Nothing goes to the scheduler or comes from it."""
    rules = "add table inet cut\n"
    for where in ("sport", "dport"):
        rules += f"add chain inet cut {where} {{ type filter hook input priority 0; }}\nadd rule inet cut {where} tcp {where} {PORT} drop\n"
    subprocess.run(["nft", "-f", "-"], input=rules.encode(), check=True)
    time.sleep(CUT_S)
    subprocess.run(["nft", "delete", "table", "inet", "cut"], check=True)


def hurt(fleet: FleetParts, cluster: PostgresCluster, chance: random.Random, number: int) -> str:
    """One fault; what it was."""
    if number % 7 == 3:
        cluster.stop(signal.SIGQUIT)
        time.sleep(1.0)
        cluster.start()
        return "PostgreSQL crashed and started"
    if number % 7 == 5:
        fleet.kill("scheduler")
        fleet.scheduler()
        return "scheduler killed and started"
    if number % 7 == 6:
        with cluster.silent():
            time.sleep(CUT_S)
        return f"network to PostgreSQL cut for {CUT_S:g} s: it answered nothing"
    if number % 10 == 8:
        cut_network()
        return f"network to the scheduler cut for {CUT_S:g} s"
    if chance.random() < 0.5 and (pids := fleet.those_of_places()):
        return f"process of a place killed: {signalled(chance.choice(pids), signal.SIGKILL)}"
    lab = chance.choice(LABS)
    fleet.kill(lab)
    fleet.worker(lab, lab)
    return f"worker of {lab} killed and started"


def main() -> None:
    """Prints each fault, and what was left."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--seed", type=int, default=20261125)
    given = options.parse_args()
    chance = random.Random(given.seed)
    before, began = set(NAMESPACES.glob("dutlab-*")), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dutlab-fleet-") as made, postgres_cluster() as cluster:
        folder = Path(made)
        for name, size in (("small", 64), ("large", 1518)):
            (folder / f"{name}.yaml").write_text(SWEEP.format(name=name, size=size))
        (folder / "c.yaml").write_text(CAMPAIGN.format(labs=", ".join(f"{{lab: {lab}}}" for lab in LABS), address=ADDRESS, quiet=QUIET))
        env = {
            **os.environ,
            FLEET_DATABASE: cluster.where,
            "XDG_STATE_HOME": str(folder),
            "XDG_CACHE_HOME": str(folder),
            "DUTLAB_DISTURBED": "count",
        }
        with FleetParts(folder, sys.executable, env) as fleet:
            fleet.scheduler()
            for lab in LABS:
                fleet.worker(lab, lab)
            campaign, words = folder / "campaigns" / "kills", ["run", "c.yaml"]
            fleet.begin("campaign", *words)
            for number in range(given.kills):
                time.sleep(chance.uniform(1.0, 12.0))
                print(f"{time.monotonic() - began:5.0f} s  {number + 1}: {hurt(fleet, cluster, chance, number)}", flush=True)
                if fleet.running["campaign"].poll() is not None and fleet.running["campaign"].returncode != 0:
                    fleet.begin("campaign", "resume", str(campaign))
            while fleet.running["campaign"].wait() != 0:
                print(
                    f"campaign ended with {fleet.running['campaign'].returncode}: {fleet.said('campaign', '').splitlines()[-1]}", flush=True
                )
                fleet.begin("campaign", "resume", str(campaign))
            planned = fleet.status(campaign)
            runs = sorted(run for run in (campaign / "runs").iterdir())
            faults = [f"{run['number']}: {run['state']}" for run in planned if run["state"] != "done"]
            faults += [f"{run}: without a manifest" for run in runs if not (run / MANIFEST).exists()]
            faults += (
                [] if sorted(run.name for run in runs) == sorted(str(run["run"]) for run in planned) else ["runs are not those planned"]
            )
            faults += [str(path) for path in campaign.glob("planned/*/runs/*")]
            if not eventually(lambda: not PostgresLeases(PostgresDatabase(cluster.where)).held() and not fleet.those_of_places(), 60.0):
                faults.append(f"left: {PostgresLeases(PostgresDatabase(cluster.where)).held()} {fleet.those_of_places()}")
            faults += [f"lab left: {path}" for path in set(NAMESPACES.glob("dutlab-*")) - before]
            tries = sum(int(str(run["tries"])) for run in planned)
    print(
        f"{len(planned)} planned, {len(runs)} runs, {tries} tries, {given.kills} faults, {time.monotonic() - began:.0f} s; seed {given.seed}"
    )
    print("\n".join(faults) or "every planned run there once; no lab, process or lease left")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
