"""Nothing is left of a run whose ending somebody tries to cut: its lab, its engine copies, its lease, what it changed of the DUT."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from capability import have_engine, have_sshd, need, need_program
from dutlab.hosts.lease import lease_files
from dutlab.hosts.netns import NAMESPACES
from dutlab.labs.state import StateFolder
from dutlab.runner.execution import RunOptions
from dutlab.runner.journal import Journal, leased_hosts, left_engines, pending_undo, read_journal, standing_lab
from dutlab.runner.run import run
from dutlab.spec.loader import read_experiment
from dutlab.tools.engine.binary import find_engine
from main_job import dut_state, only_run, processes_in
from processes import eventually

pytestmark = pytest.mark.usefixtures("cheap_rig")

ONE_TRIAL = """
experiment: cut-me
testbed: {{lab: {lab}}}
factors: {{mode: [nat]}}
workloads:
  - sweep: {{frame_sizes: [64], duration: 100ms, warmup: 0s, links: [[a]]}}
repeats: 1
"""
SLOW_S = 2
EVERY_S = 0.005
"""How often who ends is told to end again."""


class Silent:
    """Looks on and says nothing."""

    def hear(self, event):
        pass

    async def ask(self, question):
        raise AssertionError(question)


async def broken_off(monkeypatch, tmp_path, lab, event, standing=None):
    """The folder of a run that is cancelled again and again from the moment at which `event` is in its journal until it has ended."""
    need("engine", have_engine())
    need_program("nft")
    write, storm, times = Journal.write, [], 0

    async def go_on():
        nonlocal times
        while not task.done():
            times += task.cancel()
            await asyncio.sleep(EVERY_S)

    def told(self, what, **facts):
        write(self, what, **facts)
        if what == event and not storm:
            storm.append(asyncio.ensure_future(go_on()))

    monkeypatch.setattr(Journal, "write", told)
    (tmp_path / "experiment.yaml").write_text(ONE_TRIAL.format(lab=lab))
    given = read_experiment(tmp_path / "experiment.yaml")
    options = RunOptions(runs=tmp_path / "runs", engine_binary=find_engine(), command=tuple(sys.argv[:1]), standing_lab=standing)
    task = asyncio.ensure_future(run(given, options, Silent()))
    await asyncio.wait([task])
    assert task.cancelled(), task
    assert times, f"no {event}"
    return only_run(tmp_path)


def left_by(run_folder):
    """What the journal says is still to be put back."""
    entries = read_journal(run_folder / "journal.jsonl")
    return pending_undo(entries), left_engines(entries), leased_hosts(entries), standing_lab(entries)


NOTHING = ([], [], (), None)
ON_A_STANDING_LAB = ["leasing", "rig-cabling", "mode-applying", "trial-started"]


@pytest.mark.parametrize("event", ON_A_STANDING_LAB)
async def test_what_a_run_changed_of_a_lab_is_put_back_whoever_cuts_its_ending(monkeypatch, tmp_path, standing_lab, event):
    before = dut_state(standing_lab)
    assert left_by(await broken_off(monkeypatch, tmp_path, "three-node", event, standing_lab)) == NOTHING
    assert dut_state(standing_lab) == before
    assert await asyncio.to_thread(eventually, lambda: not processes_in(standing_lab)), processes_in(standing_lab)  # killed, and soon gone
    networks = [(NAMESPACES / f"dutlab-{standing_lab}-{host}").stat().st_ino for host in ("source", "dut", "sink")]
    assert not [file for network in networks for file in lease_files(str(network)) if file.exists()]
    ports = subprocess.run(["ip", "-n", f"dutlab-{standing_lab}-source", "-br", "link"], capture_output=True, text=True, check=True).stdout
    assert "rig-" not in ports


@pytest.mark.parametrize("event", ["lab-up", "mode-restored"])
async def test_the_lab_of_a_run_is_gone_whoever_cuts_its_ending(monkeypatch, tmp_path, event):
    assert left_by(await broken_off(monkeypatch, tmp_path, "three-node", event)) == NOTHING
    assert StateFolder().labels() == []


@pytest.mark.parametrize("event", ["engine-copying", "engine-removed"])
async def test_the_engines_that_a_run_copied_are_gone_whoever_cuts_its_ending(monkeypatch, tmp_path, event):
    need("sshd", have_sshd())
    run_folder = await broken_off(monkeypatch, tmp_path, "three-node-ssh", event)
    assert left_by(run_folder) == NOTHING
    copies = [e["path"] for e in read_journal(run_folder / "journal.jsonl") if e["event"] == "engine-copying"]
    assert copies and not [path for path in copies if Path(path).exists()]
    assert StateFolder().labels() == []


def test_a_budget_that_ends_while_the_lab_is_taken_down_leaves_nothing_of_it(dutlab, tmp_path):
    tools, ip = tmp_path / "tools", shutil.which("ip")
    tools.mkdir()
    (tools / "ip").write_text(f'#!/bin/sh\n[ "$1 $2" != "netns del" ] || {{ touch {tmp_path}/begun; sleep {SLOW_S}; }}\nexec {ip} "$@"\n')
    (tools / "ip").chmod(0o755)
    words = ("measure", "sweep", "frame_sizes=64", "duration=100ms", "--link", "a", "--repeats", "1000", "--budget", "4s", "--json")
    cut = dutlab(*words, env={"PATH": f"{tools}:{os.environ['PATH']}"})
    assert cut.returncode == 1, cut.stderr
    assert (tmp_path / "begun").exists()
    assert any(t["status"] == "not done" for t in json.loads(cut.stdout)["runs"][0]["trials"]), cut.stdout
    assert left_by(only_run(tmp_path)) == NOTHING
    assert StateFolder().labels() == []


COMMANDS = {
    "measure": ["measure", "sweep", "frame_sizes=64", "duration=300ms", "--link", "a", "--repeats", "1000"],
    "test": ["test", "--lab"],
    "calibrate": ["calibrate", "--lab", "three-node", "--duration", "60s"],
    "doctor": ["doctor", "--lab", "three-node"],
    "verify": ["verify", "--quick"],
}


def has_begun():
    return bool(StateFolder().labels())


def stands():
    folder = StateFolder()
    return any((state := folder.read(label)) is not None and state.complete for label in folder.labels())


@pytest.mark.parametrize(
    ("command", "moment", "how"),
    [
        *((command, stands, "signals") for command in COMMANDS),
        ("test", has_begun, "signals"),
        ("test", stands, "terminal"),
    ],
)
def test_no_lab_stays_after_a_command_however_it_is_ended(python, python_env, tmp_path, command, moment, how):
    need("engine", have_engine())
    reader, writer = os.pipe()
    said = tmp_path / "said"
    with said.open("wb") as file:
        out, ours = writer if how == "terminal" else file, {"cwd": tmp_path, "env": python_env, "start_new_session": True}
        argv = [python, "-m", "dutlab", *COMMANDS[command]]
        running = subprocess.Popen(argv, **ours, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    os.close(writer)
    assert eventually(lambda: moment() or running.poll() is not None)
    os.close(reader)  # a closed terminal tells its programs to hang up, and what they print goes nowhere
    assert running.poll() in (None, 0), said.read_text()
    while running.poll() is None:
        for number in (signal.SIGHUP,) if how == "terminal" else (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            os.killpg(running.pid, number)
        time.sleep(EVERY_S)
    assert StateFolder().labels() == [], said.read_text()
