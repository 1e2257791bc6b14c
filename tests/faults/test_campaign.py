"""Campaigns on real runs: killed at random instants, a testbed that is away, also for a whole night, and versions that are compared."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import pytest

from capability import have_netns, have_sshd, need, need_engine
from dutlab.hosts.netns import NAMESPACES
from dutlab.labs import sshd
from dutlab.runner import campaign as of_campaigns
from dutlab.runner.campaign import CampaignWork
from dutlab.runner.campaign_folder import CampaignFolder, CampaignState
from dutlab.runner.fleet.carrier import LocalCarrier
from dutlab.spec.campaign import read_campaign
from dutlab.spec.planned_run import PlannedRun
from dutlab.store.manifest import MANIFEST
from in_process import carried_out
from processes import LIMIT_S, at_work_below, eventually, signalled

STEPS = """
experiment: {name}
testbed: alone.yaml
factors: {{mode: [as-found]}}
workloads:
  - steps:
      run: {{here: [{{run: "sleep 0.3; cat {set}", name: version}}]}}
repeats: 1
"""
CAMPAIGN = """
campaign: killed
experiments: [one.yaml, two.yaml]
versions:
  old: {{host: here, apply: ["echo 1 > {set}"], verify: ["grep -qx 1 {set}"], restore: ["echo 0 > {set}"]}}
  new: {{host: here, apply: ["echo 2 > {set}"], verify: ["grep -qx 2 {set}"], restore: ["echo 0 > {set}"]}}
again_after: 1s
"""
RUNS = 4


@pytest.fixture
def here(tmp_path: Path, python_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a campaign whose runs take a second each and need nothing but this machine."""
    for name, value in python_env.items():
        monkeypatch.setenv(name, value)
    version = tmp_path / "version"
    version.write_text("0\n")
    (tmp_path / "alone.yaml").write_text("testbed: alone\nhosts:\n  here: {local: true}\n")
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(STEPS.format(name=name, set=version))
    (tmp_path / "c.yaml").write_text(CAMPAIGN.format(set=version))
    return tmp_path


def begin(python: str, folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """A campaign's process."""
    with (folder / "said").open("ab") as said:
        return subprocess.Popen([python, "-m", "dutlab", "campaign", *words], cwd=folder, stdout=said, stderr=said, start_new_session=True)


def statuses(folder: Path, campaign: str) -> list[dict[str, object]]:
    """What `campaign status --json` says of each planned run."""
    done = carried_out(["campaign", "status", campaign, "--json"], cwd=folder, env=os.environ)
    return list(json.loads(done.stdout)["runs"])


def written(campaign: Path) -> int:
    """How much the journals of runs have, unfinished and finished."""
    return sum(
        len(file.read_bytes()) for file in (*campaign.glob("planned/*/runs/*/journal.jsonl"), *campaign.glob("runs/*/journal.jsonl"))
    )


def kill(process: subprocess.Popen[bytes], campaign: Path, before: int, chance: random.Random, *, with_runs: bool | None) -> None:
    """As soon as there is a plan; or while a run is at work, with it or not."""

    def at_work() -> bool:
        there = (campaign / "plan.json").exists() if with_runs is None else written(campaign) > before
        return there or process.poll() is not None

    assert eventually(at_work)
    if with_runs is not None:
        time.sleep(chance.uniform(0.0, 0.8))
    for run in at_work_below(campaign) if with_runs else ():
        signalled(run, signal.SIGKILL)
    process.kill()
    process.wait()


def test_every_run_is_there_once_after_kills_at_random_instants(python: str, here: Path) -> None:
    """As soon as there is a plan; and of a run at work, with the campaign's process or without it."""
    chance = random.Random(20261123)
    words = ["run", "c.yaml"]
    campaign = here / "campaigns" / "killed"
    for with_runs in (None, True, False):
        kill(begin(python, here, *words), campaign, written(campaign), chance, with_runs=with_runs)
        words = ["resume", str(campaign)]
    done = carried_out(["campaign", *words], cwd=here, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    planned = statuses(here, str(campaign))
    assert [p["state"] for p in planned] == ["done"] * RUNS
    runs = sorted(p.name for p in (campaign / "runs").iterdir())
    assert sorted(str(p["run"]) for p in planned) == runs
    assert all((campaign / "runs" / run / MANIFEST).exists() for run in runs)
    measured: Counter[tuple[str, str]] = Counter()
    for run in runs:
        resolved = json.loads((campaign / "runs" / run / "resolved.json").read_text())["experiment"]
        (record,) = (campaign / "runs" / run / "trials").glob("*/record.json")
        assert json.loads(record.read_text())["status"] == "measured"
        measured[resolved["name"], resolved["factors"]["version"][0]] += 1
    assert measured == {(e, v): 1 for e in ("one", "two") for v in ("old", "new")}
    assert (here / "version").read_text() == "0\n", "every version was put back"
    assert not list(campaign.glob("planned/*/runs/*"))
    assert eventually(lambda: not at_work_below(campaign))


def test_ctrl_c_ends_the_run_in_order_and_another_process_is_refused(python: str, here: Path) -> None:
    process = begin(python, here, "run", "c.yaml")
    campaign = here / "campaigns" / "killed"
    assert eventually(lambda: list(campaign.glob("planned/001/runs/[0-9]*/journal*")) != [])
    second = carried_out(["campaign", "resume", str(campaign)], cwd=here, env=os.environ)
    assert second.returncode == 3
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 130, (here / "said").read_text()
    assert "`dutlab campaign resume campaigns/killed` continues it" in (here / "said").read_text()
    assert (here / "version").read_text() == "0\n"
    assert not at_work_below(campaign)
    (first, *_) = statuses(here, str(campaign))
    assert first["state"] in ("cut", "done")


def test_a_testbed_that_is_away_keeps_nobody_waiting_and_versions_are_compared(here: Path) -> None:
    need("netns", have_netns())
    need_engine()
    (here / "away.yaml").write_text("testbed: away\nhosts:\n  here: {ssh: 127.0.0.1:9}\n")
    (here / "net.yaml").write_text(
        "experiment: net\ntestbed: {lab: three-node}\nfactors: {mode: [router]}\nrepeats: 1\n"
        "workloads:\n  - sweep: {frame_sizes: [64], rates: [1kpps], duration: 300ms, links: [[a]]}\n"
    )
    (here / "d.yaml").write_text(
        'campaign: nets\nexperiments: [net.yaml]\nversions: {stock: {}, quiet: {apply: ["true"], verify: ["true"], restore: ["true"]}}\n'
    )
    (here / "e.yaml").write_text("campaign: away\nexperiments: [one.yaml]\ntestbeds: [away.yaml]\ntries: 2\nagain_after: 1s\n")
    before = set(NAMESPACES.glob("dutlab-*"))
    done = carried_out(["campaign", "run", "d.yaml"], cwd=here, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    stock, quiet = (f"campaigns/nets/runs/{p['run']}" for p in statuses(here, "campaigns/nets"))
    compared = carried_out(["compare", stock, quiet], cwd=here, env=os.environ)
    assert "(stock)" in compared.stdout, compared.stdout + compared.stderr
    assert "(quiet)" in compared.stdout, compared.stdout
    assert set(NAMESPACES.glob("dutlab-*")) == before
    done = carried_out(["campaign", "run", "e.yaml"], cwd=here, env=os.environ)
    assert done.returncode == 1, done.stdout + done.stderr
    (only,) = statuses(here, "campaigns/away")
    assert (only["tries"], only["exit_status"]) == (2, 3), only
    assert re.search(r"night 1\): ended with status 3: .*127\.0\.0\.1:9", done.stderr), done.stderr


class NightClock:
    """This machine's clock, but for its date: it goes on to the next night as soon as no testbed has anything to do in this one."""

    def __init__(self, folder: CampaignFolder, begins: str, at_night: Callable[[int], None]) -> None:
        self.folder, self.at_night, self.nights, self.said = folder, at_night, 0, list[str]()
        self.ahead = datetime.fromisoformat(begins).astimezone() - datetime.now().astimezone()
        self._waiting = dict[str, datetime]()

    def now(self) -> datetime:
        return datetime.now().astimezone() + self.ahead

    def hear(self, line: str) -> None:
        self.said.append(line)
        if waits := re.fullmatch(r"(\w+): waiting until (.*)", line):
            self._waiting[waits[1]] = datetime.fromisoformat(waits[2]).astimezone()
        at_work = {run.testbed for run in self.folder.planned() if self.folder.done(run) is None} - self._waiting.keys()
        if self._waiting and not at_work:
            self.nights += 1
            self.at_night(self.nights)
            when = min(self._waiting.values())
            self._waiting = {testbed: until for testbed, until in self._waiting.items() if until > when}
            self.ahead = when - datetime.now().astimezone()


@dataclass(frozen=True)
class Shifted(LocalCarrier):
    """Has processes whose clock is the night's."""

    nights: NightClock

    async def carry(self, planned: PlannedRun) -> int:
        status = await super().carry(planned)
        tries = self.folder.place(planned) / "tries"
        *before, last = tries.read_text().splitlines()
        entry = json.loads(last)
        entry |= {name: (datetime.fromisoformat(entry[name]) + self.nights.ahead).isoformat() for name in ("began", "ended")}
        tries.write_text("".join(f"{line}\n" for line in [*before, json.dumps(entry)]))
        return status


def test_a_testbed_that_is_down_for_a_night_delays_no_other_and_is_measured_in_the_nights_after_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("sshd", have_sshd())
    keys, home = here / "keys", here / "home"
    sshd.write_files(keys, [sshd.SshServer("far", "", "127.0.0.1", via="")])
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "config").write_text(
        f"Host far\nHostName 127.0.0.1\nUser root\nIdentityFile {keys}/client\nUserKnownHostsFile {keys}/known_hosts\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(of_campaigns, "_LONGEST_WAIT_S", 0.1)
    (here / "near.yaml").write_text("testbed: near\nhosts:\n  here: {local: true}\n")
    (here / "far.yaml").write_text("testbed: far\nhosts:\n  here: {ssh: far}\n")
    (here / "n.yaml").write_text(
        "campaign: nights\nexperiments: [one.yaml]\ntestbeds: [near.yaml, far.yaml]\n"
        'nights: 2\nhours: "22:00-06:00"\ntries: 2\nagain_after: 1s\nat_once: 2\n'
    )
    folder = CampaignFolder.create(here / "campaigns" / "nights", read_campaign(here / "n.yaml"), version("dutlab"))
    told = dict[int, str]()

    def at_night(number: int) -> None:
        told[number] = carried_out(["campaign", "status", str(folder.path)], cwd=here, env=os.environ).stdout
        if number == 2:
            Path("/run/sshd").mkdir(exist_ok=True)
            subprocess.run(["/usr/sbin/sshd", "-f", str(keys / "sshd-far.conf"), "-E", str(keys / "log")], check=True)

    nights = NightClock(folder, "2026-12-01T12:00", at_night)
    try:
        standings = asyncio.run(CampaignWork(folder, nights.hear, Shifted(folder, nights), nights.now).carry_out())
    finally:
        if (keys / "far.pid").exists():
            os.kill(int((keys / "far.pid").read_text()), signal.SIGTERM)
    assert [s.state for s in standings] == [CampaignState.DONE] * 4, nights.said
    days = {(run.testbed, run.night): f"{folder.last_began(run):%d}" for run in folder.planned()}
    assert days == {("near", 1): "01", ("near", 2): "02", ("far", 1): "02", ("far", 2): "03"}, nights.said
    assert "far, night 1: runs missing because the testbed could not be used: 1, last tried 2026-12-01 22:" in told[2], told[2]
    assert "refused: nothing listens there" in told[2]
    assert "missing" not in told[3]
