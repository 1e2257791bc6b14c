"""Campaigns on real runs: killed at random instants, a testbed that is away, and versions that are compared."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from capability import have_netns, need, need_engine
from dutlab.hosts.netns import NAMESPACES
from dutlab.store.manifest import MANIFEST
from processes import LIMIT_S, eventually

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
nights: 2
again_after: 1s
"""
KILLS = 12


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a campaign whose runs take a second each and need nothing but this machine."""
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


def those_of(folder: Path) -> list[int]:
    """Processes of dutlab at work on runs below a folder."""
    found = []
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            argv = cmdline.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if "dutlab" in argv and any(str(folder) in word for word in argv):
            found.append(int(cmdline.parent.name))
    return found


def statuses(python: str, folder: Path, campaign: str) -> list[dict[str, object]]:
    """What `campaign status --json` says of each planned run."""
    argv = [python, "-m", "dutlab", "campaign", "status", campaign, "--json"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout)["runs"])


def test_every_run_is_there_once_after_kills_at_random_instants(python: str, here: Path) -> None:
    chance = random.Random(20261123)
    words = ["run", "c.yaml"]
    campaign = here / "campaigns" / "killed"
    for _ in range(KILLS):
        process = begin(python, here, *words)
        time.sleep(chance.uniform(0.3, 4.0))
        if chance.random() < 0.5:
            for run in those_of(campaign):
                os.kill(run, signal.SIGKILL)
        process.kill()
        process.wait()
        if (campaign / "plan.json").exists():
            words = ["resume", str(campaign)]
    assert words[0] == "resume"
    done = subprocess.run(
        [python, "-m", "dutlab", "campaign", *words], cwd=here, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    planned = statuses(python, here, str(campaign))
    assert [p["state"] for p in planned] == ["done"] * 8
    runs = sorted(p.name for p in (campaign / "runs").iterdir())
    assert sorted(str(p["run"]) for p in planned) == runs
    assert all((campaign / "runs" / run / MANIFEST).exists() for run in runs)
    measured: Counter[tuple[str, str]] = Counter()
    for run in runs:
        resolved = json.loads((campaign / "runs" / run / "resolved.json").read_text())["experiment"]
        (record,) = (campaign / "runs" / run / "trials").glob("*/record.json")
        assert json.loads(record.read_text())["status"] == "measured"
        measured[resolved["name"], resolved["factors"]["version"][0]] += 1
    assert measured == {(e, v): 2 for e in ("one", "two") for v in ("old", "new")}
    assert (here / "version").read_text() == "0\n", "every version was put back"
    assert not list(campaign.glob("planned/*/runs/*"))
    eventually(lambda: not those_of(campaign))


def test_ctrl_c_ends_the_run_in_order_and_another_process_is_refused(python: str, here: Path) -> None:
    process = begin(python, here, "run", "c.yaml")
    campaign = here / "campaigns" / "killed"
    eventually(lambda: list(campaign.glob("planned/001/runs/*/journal*")))
    second = subprocess.run(
        [python, "-m", "dutlab", "campaign", "resume", str(campaign)], cwd=here, capture_output=True, text=True, check=False
    )
    assert second.returncode == 3
    assert "another process carries this campaign out" in second.stderr
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 130, (here / "said").read_text()
    assert (here / "version").read_text() == "0\n"
    assert not those_of(campaign)
    (first, *_) = statuses(python, here, str(campaign))
    assert first["state"] in ("cut", "done")


def test_a_testbed_that_is_away_keeps_nobody_waiting_and_versions_are_compared(python: str, here: Path) -> None:
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
    run = [python, "-m", "dutlab", "campaign", "run"]
    done = subprocess.run([*run, "d.yaml"], cwd=here, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    stock, quiet = (f"campaigns/nets/runs/{p['run']}" for p in statuses(python, here, "campaigns/nets"))
    compared = subprocess.run([python, "-m", "dutlab", "compare", stock, quiet], cwd=here, capture_output=True, text=True, check=False)
    assert "(stock)" in compared.stdout, compared.stdout + compared.stderr
    assert "(quiet)" in compared.stdout, compared.stdout
    assert set(NAMESPACES.glob("dutlab-*")) == before
    done = subprocess.run([*run, "e.yaml"], cwd=here, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    (only,) = statuses(python, here, "campaigns/away")
    assert (only["tries"], only["exit_status"]) == (2, 3), only
    assert "1 of 1 not measured" in done.stdout, done.stdout
