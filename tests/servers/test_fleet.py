"""Campaigns on workers of a Dask scheduler, with leases in a real PostgreSQL: labs side by side, kills, and what is refused."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from capability import have_netns, need, need_engine, need_program
from dutlab.hosts.netns import NAMESPACES
from dutlab.runner.fleet.leases import PostgresLeases
from dutlab.store.fleet_database import FLEET_DATABASE, PostgresDatabase
from dutlab.store.manifest import MANIFEST
from fleet_parts import ADDRESS, FleetParts
from postgres_cluster import PostgresCluster, postgres_cluster
from processes import LIMIT_S, eventually, signalled

NET = """
experiment: net
testbed: {lab: three-node}
factors: {mode: [router]}
repeats: 1
workloads:
  - sweep: {frame_sizes: [64], rates: [1kpps], duration: 300ms, links: [[a]]}
"""


@pytest.fixture
def cluster() -> Iterator[PostgresCluster]:
    need("netns", have_netns())
    with postgres_cluster() as running:
        yield running


@pytest.fixture
def fleet(tmp_path: Path, python: str, python_env: dict[str, str], cluster: PostgresCluster) -> Iterator[FleetParts]:
    with FleetParts(tmp_path, python, {**python_env, FLEET_DATABASE: cluster.where}) as parts:
        yield parts


def test_two_workers_measure_a_lab_each_at_once_and_leave_nothing(fleet: FleetParts, cluster: PostgresCluster) -> None:
    need_engine()
    (fleet.folder / "net.yaml").write_text(NET)
    (fleet.folder / "c.yaml").write_text(
        f"campaign: two\nexperiments: [net.yaml]\ntestbeds: [{{lab: three-node}}, {{lab: four-hosts}}]\nfleet: {ADDRESS}\n"
    )
    before = set(NAMESPACES.glob("dutlab-*"))
    fleet.scheduler()
    fleet.worker("left", "three-node")
    fleet.worker("right", "four-hosts")
    carrying = fleet.begin("campaign", "run", "c.yaml")
    store = PostgresLeases(PostgresDatabase(cluster.where))
    at_once = list[set[str]]()
    assert eventually(lambda: at_once.append({lease.testbed for lease in store.held()}) or carrying.poll() is not None)
    assert {"three-node", "four-hosts"} in at_once, fleet.said("campaign", "")
    assert carrying.returncode == 0, fleet.said("campaign", "")
    campaign = fleet.folder / "campaigns" / "two"
    assert [(run["testbed"], run["state"], run["tries"]) for run in fleet.status(campaign)] == [
        ("three-node", "done", 1), ("four-hosts", "done", 1),
    ]  # fmt: skip
    costs = [run["cost"] for run in fleet.status(campaign)]
    assert all(cost[name] > 0 for cost in costs for name in ("before_s", "after_s", "carried_s", "run_s")), costs
    assert all(cost["added_s"] == cost["before_s"] + cost["after_s"] + cost["carried_s"] for cost in costs), costs
    for run in (campaign / "runs").iterdir():
        (record,) = run.glob("trials/*/record.json")
        assert json.loads(record.read_text())["status"] == "measured"
    assert set(NAMESPACES.glob("dutlab-*")) == before
    assert store.held() == [] and fleet.those_of_places() == []


STEPS = """
experiment: {name}
testbed: one.yaml
factors: {{mode: [as-found]}}
workloads:
  - steps:
      run: {{here: [{{run: "sleep 0.5; cat {set}", name: version}}]}}
repeats: 1
"""
VERSIONS = """
versions:
  old: {{host: here, apply: ["echo 1 > {set}"], verify: ["grep -qx 1 {set}"], restore: ["echo 0 > {set}"]}}
  new: {{host: here, apply: ["echo 2 > {set}"], verify: ["grep -qx 2 {set}"], restore: ["echo 0 > {set}"]}}
"""


def write_steps(folder: Path, campaign: str, testbeds: tuple[str, ...], *, versions: bool = True, more: str = "") -> Path:
    """A campaign whose runs take a second and need nothing but this machine. Each testbed is this machine, so they use it in turn."""
    state = folder / "version"
    state.write_text("0\n")
    for testbed in testbeds:
        (folder / f"{testbed}.yaml").write_text(f"testbed: {testbed}\nhosts:\n  here: {{local: true}}\n")
    (folder / "steps.yaml").write_text(STEPS.format(name="steps", set=state).replace("one.yaml", f"{testbeds[0]}.yaml"))
    (folder / f"{campaign}.yaml").write_text(
        f"campaign: {campaign}\nexperiments: [steps.yaml]\ntestbeds: [{', '.join(f'{t}.yaml' for t in testbeds)}]\n"
        f"fleet: {{scheduler: '{ADDRESS}', lease: 6s}}\nagain_after: 1s\n{more}" + (VERSIONS.format(set=state) if versions else "")
    )
    return folder / "campaigns" / campaign


def is_done_once(fleet: FleetParts, campaign: Path) -> None:
    """Every planned run finished, and is there once."""
    planned = fleet.status(campaign)
    assert {run["state"] for run in planned} == {"done"}, planned
    runs = sorted(run.name for run in (campaign / "runs").iterdir())
    assert runs == sorted(str(run["run"]) for run in planned) and len(set(runs)) == len(planned)
    assert all((campaign / "runs" / run / MANIFEST).exists() for run in runs)
    assert not list(campaign.glob("planned/*/runs/*")), "none is there twice"


@pytest.mark.timing
def test_every_run_is_there_once_after_kills_of_each_part(fleet: FleetParts, cluster: PostgresCluster) -> None:
    chance = random.Random(seed := 20261125)
    print(f"seed {seed}")
    campaign = write_steps(fleet.folder, "killed", ("one", "two"), more="nights: 2\ntries: 100\n")
    fleet.scheduler()
    for name in ("one", "two"):
        fleet.worker(name, name)
    fleet.begin("campaign", "run", "killed.yaml")
    assert eventually(lambda: len(list(campaign.glob("planned/*/lock"))) > 1)
    for what in ("worker", "place", "postgres", "scheduler", "campaign", "place", "worker"):
        time.sleep(chance.uniform(0.2, 3.0))
        print(what)
        if what == "worker":
            name = chance.choice(["one", "two"])
            fleet.kill(name)
            fleet.worker(name, name)
        elif what == "place" and (pids := fleet.those_of_places()):
            signalled(chance.choice(pids), signal.SIGKILL)
        elif what == "postgres":
            cluster.stop(signal.SIGQUIT)
            time.sleep(1.0)
            cluster.start()
        elif what == "scheduler":
            fleet.kill("scheduler")
            fleet.scheduler()
        elif what == "campaign" and fleet.running["campaign"].poll() is None:
            fleet.kill("campaign")
            fleet.begin("campaign", "resume", str(campaign))
    if fleet.running["campaign"].wait(LIMIT_S) != 0:  # the scheduler was away for long, which a busy machine can do
        fleet.begin("campaign", "resume", str(campaign)).wait(LIMIT_S)
    assert fleet.running["campaign"].returncode == 0, fleet.said("campaign", "")
    is_done_once(fleet, campaign)
    assert (fleet.folder / "version").read_text() == "0\n", "every version was put back"
    assert eventually(lambda: not PostgresLeases(PostgresDatabase(cluster.where)).held() and not fleet.those_of_places())


def test_another_version_is_refused_and_a_testbed_without_a_worker_is_skipped_tried_again_and_told(fleet: FleetParts) -> None:
    campaign = write_steps(fleet.folder, "away", ("one", "two"), versions=False, more="tries: 2\n")
    other = fleet.folder / "other" / "dutlab-9.9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: dutlab\nVersion: 9.9.9\n")
    fleet.scheduler()
    fleet.worker("good", "one")
    fleet.worker("newer", "two", env={"PYTHONPATH": f"{other.parent}:{fleet.env['PYTHONPATH']}"})
    fleet.said("newer", "works for")
    done = fleet.begin("campaign", "run", "away.yaml")
    assert done.wait(LIMIT_S) == 1, fleet.said("campaign", "")
    told = fleet.said("campaign", "1 of 2 not measured")
    assert "refused for two: it has dutlab 9.9.9" in told
    assert "1 to be tried again" in told
    one, two = fleet.status(campaign)
    assert (one["state"], two["state"], two["tries"], two["exit_status"]) == ("done", "refused", 2, 3)
    fleet.worker("right", "two")
    assert fleet.begin("campaign", "resume", str(campaign)).wait(LIMIT_S) == 0, fleet.said("campaign", "")
    is_done_once(fleet, campaign)


def test_two_processes_at_one_place_make_one_run_and_ctrl_c_ends_runs_on_workers_in_order(fleet: FleetParts) -> None:
    campaign = write_steps(fleet.folder, "twice", ("one",))
    fleet.scheduler()
    fleet.worker("one", "one")
    carrying = fleet.begin("campaign", "run", "twice.yaml")
    assert eventually(lambda: list(campaign.glob("planned/001/runs/[0-9]*/journal*")) != [])
    carrying.send_signal(signal.SIGINT)
    assert carrying.wait(LIMIT_S) == 130, fleet.said("campaign", "")
    assert (fleet.folder / "version").read_text() == "0\n"
    assert eventually(lambda: fleet.those_of_places() == [])
    (campaign / "end").unlink()
    both = [fleet.begin(name, "place", str(campaign), "2") for name in ("first", "second")]
    assert [process.wait(LIMIT_S) for process in both] == [0, 0], fleet.said("first", "") + fleet.said("second", "")
    assert len((campaign / "planned" / "002" / "tries").read_text().splitlines()) == 1, "the one waited, and found it done"
    assert fleet.begin("campaign", "resume", str(campaign)).wait(LIMIT_S) == 0, fleet.said("campaign", "")
    is_done_once(fleet, campaign)


def test_two_schedulers_give_one_testbed_to_one_run_at_a_time_and_a_silent_database_ends_no_campaign(
    fleet: FleetParts, cluster: PostgresCluster
) -> None:
    other = ADDRESS.replace("8786", "8787")
    campaigns = [write_steps(fleet.folder, name, ("one",), versions=False) for name in ("left", "right")]
    file = fleet.folder / "right.yaml"
    file.write_text(file.read_text().replace(ADDRESS, other))
    fleet.scheduler()
    fleet.begin("other scheduler", "scheduler", "--listen", other)
    fleet.said("other scheduler", "ready for workers")
    fleet.worker("left worker", "one")
    fleet.begin("right worker", "worker", "--scheduler", other, "--testbed", "one")
    both = [fleet.begin(name, "run", f"{name}.yaml") for name in ("left", "right")]
    assert eventually(lambda: any(list(campaign.glob("planned/001/runs/[0-9]*/journal*")) for campaign in campaigns))
    with cluster.silent():
        time.sleep(8.0)  # longer than a lease
    for name, process, campaign in zip(("left", "right"), both, campaigns, strict=True):
        assert process.wait(LIMIT_S) == 0, fleet.said(name, "")
        is_done_once(fleet, campaign)
    tries = [
        json.loads(line) for campaign in campaigns for file in campaign.glob("planned/*/tries") for line in file.read_text().splitlines()
    ]
    at_work = sorted((one["began"], one["ended"]) for one in tries if one["command"] in {"run", "resume"})
    assert len(at_work) >= 2 and all(before[1] <= after[0] for before, after in pairwise(at_work)), at_work
    assert (fleet.folder / "version").read_text() == "0\n"


def test_a_shared_folder_that_is_full_is_said_and_what_was_measured_stays(fleet: FleetParts) -> None:
    campaign = write_steps(fleet.folder, "full", ("one",), versions=False, more="tries: 1\n")
    shared = fleet.folder / "campaigns"
    shared.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(shared)], check=True)
    try:
        (shared / "of others").write_bytes(bytes(960 << 10))
        fleet.scheduler()
        fleet.worker("one", "one")
        assert fleet.begin("campaign", "run", "full.yaml").wait(LIMIT_S) != 0
        assert "no space left" in fleet.said("campaign", "") + (campaign / "planned" / "001" / "said").read_text()
        (shared / "of others").unlink()
        assert fleet.begin("campaign", "resume", str(campaign)).wait(LIMIT_S) == 0, fleet.said("campaign", "")
        is_done_once(fleet, campaign)
    finally:
        for name in list(fleet.running):
            fleet.kill(name)
        subprocess.run(["umount", str(shared)], check=True)


def certificates(folder: Path) -> Path:
    """An authority of its own, and a certificate of it."""
    folder.mkdir()
    new = [need_program("openssl"), "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for argv in (
        [*new, "-x509", "-days", "1", "-subj", "/CN=fleet", "-keyout", "ca.key", "-out", "ca.pem"],
        [*new, "-subj", "/CN=one", "-keyout", "key.pem", "-out", "one.csr"],
        [
            new[0],
            "x509",
            "-req",
            "-in",
            "one.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "1",
            "-out",
            "cert.pem",
        ],
    ):
        subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    (folder / "key.pem").chmod(0o600)
    return folder


def test_with_tls_only_certificates_of_the_fleet_get_in_and_leases_must_be_for_many(fleet: FleetParts) -> None:
    campaign = write_steps(fleet.folder, "secret", ("one",), versions=False)
    address = ADDRESS.replace("tcp", "tls")
    file = fleet.folder / "secret.yaml"
    file.write_text(file.read_text().replace(ADDRESS, address))
    ours, others = ({"DUTLAB_FLEET_TLS": str(certificates(fleet.folder / name))} for name in ("ours", "others"))
    fleet.begin("scheduler", "scheduler", "--listen", address, env=ours)
    fleet.said("scheduler", "ready for workers")
    worker = ("worker", "--scheduler", address, "--testbed", "one")
    fleet.begin("stranger", *worker, env=others)
    fleet.said("stranger", "tried again")
    assert "works for" not in fleet.said("stranger", "")
    fleet.begin("cheap", *worker, env={**ours, FLEET_DATABASE: str(fleet.folder / "leases.sqlite")})
    fleet.said("cheap", "works for")
    assert fleet.begin("campaign", "run", "secret.yaml", env=ours).wait(LIMIT_S) == 1
    (run,) = fleet.status(campaign)
    assert (run["state"], run["tries"]) == ("refused", 1)
    assert "leases in one PostgreSQL" in (campaign / "planned" / "001" / "said").read_text()
    fleet.kill("cheap")
    fleet.begin("good", *worker, env=ours)
    assert fleet.begin("campaign", "resume", str(campaign), env=ours).wait(LIMIT_S) == 0, fleet.said("campaign", "")
    is_done_once(fleet, campaign)
