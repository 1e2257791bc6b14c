"""Every way in which the main job can be cut, and what is kept and restored then."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

from capability import have_netns, need, need_program
from dutlab.runner.journal import read_journal, unproven_trials
from dutlab.tools.engine.binary import find_engine
from main_job import BOTH_TOOLS, EXPERIMENT, ONCE, TRIALS, dut_state, events, only_run, processes_in, records
from processes import LIMIT_S, eventually, signalled


@pytest.fixture(autouse=True)
def _machine(no_leak):
    need("netns", have_netns())
    need_program("iperf3")
    need_program("nft")


def wait_for(condition):
    assert eventually(condition)


@pytest.mark.timing
def test_a_run_killed_again_and_again_ends_with_every_trial_once_and_the_dut_as_it_was(dutlab, start, experiment, standing_lab, tmp_path):
    seed = int(time.time())
    print(f"seed {seed}")
    when = random.Random(seed)
    found_at_first = dut_state(standing_lab)
    running = start("run", experiment(EXPERIMENT), "--lab", standing_lab)
    for _ in range(6):
        time.sleep(when.uniform(0.3, 3.5))
        if running.poll() is not None:
            break
        os.kill(running.pid, signal.SIGKILL)  # the process alone: whatever it started must end by itself
        running.wait()
        if not list((tmp_path / "runs").glob("*/journal.jsonl")):
            running = start("run", experiment(EXPERIMENT), "--lab", standing_lab)
            continue
        running = start("resume", str(only_run(tmp_path)))
    assert running.wait(LIMIT_S) == 0, running.stderr.read()
    run = only_run(tmp_path)
    found = records(run)
    assert [r["trial"] for r in found] == list(range(1, TRIALS + 1))
    assert {r["status"] for r in found} == {"measured"}
    unproven = {p.name.split(".")[0] for p in (run / "trials").glob("*.unproven-*")}
    finished = [e["trial"] for e in events(run) if e["event"] == "trial-finished" and f"{e['trial']:04d}" not in unproven]
    assert len(finished) == len(set(finished))
    assert dut_state(standing_lab) == found_at_first
    assert not processes_in(standing_lab)


@pytest.mark.timing
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_restores_the_dut_and_ends_with_130(start, dutlab, experiment, standing_lab, tmp_path, sig):
    found_at_first = dut_state(standing_lab)
    running = start("run", experiment(ONCE), "--lab", standing_lab)
    wait_for(lambda: list((tmp_path / "runs").glob("*/trials/0001/record.json")))
    time.sleep(0.7)
    running.send_signal(sig)
    said = running.communicate(timeout=LIMIT_S)[1]
    assert running.returncode == 130, said
    assert re.search(r"note: interrupted after \d+ of \d+ trials: `dutlab resume runs/\S+` continues it", said), said
    assert dut_state(standing_lab) == found_at_first
    assert not processes_in(standing_lab)
    assert 1 <= len(records(only_run(tmp_path))) < TRIALS / 2
    done = dutlab("resume", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert len(records(only_run(tmp_path))) == TRIALS / 2


@pytest.mark.timing
def test_undo_puts_the_dut_of_a_killed_run_back(start, dutlab, experiment, standing_lab, tmp_path):
    found_at_first = dut_state(standing_lab)
    running = start("run", experiment(EXPERIMENT), "--lab", standing_lab)
    wait_for(lambda: dut_state(standing_lab) != found_at_first)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert dut_state(standing_lab) != found_at_first
    done = dutlab("undo", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert dut_state(standing_lab) == found_at_first
    assert dutlab("undo", str(only_run(tmp_path))).stdout.strip() == "nothing to undo"


@pytest.mark.timing
def test_a_namespace_that_vanishes_in_mid_trial_ends_the_run_and_keeps_what_was_measured(start, dutlab, experiment, standing_lab, tmp_path):
    running = start("run", experiment(EXPERIMENT), "--lab", standing_lab)
    wait_for(lambda: list((tmp_path / "runs").glob("*/trials/0001/record.json")))
    subprocess.run(["ip", "netns", "del", f"dutlab-{standing_lab}-sink"], check=True)
    status = running.wait(LIMIT_S)
    said = running.stderr.read()
    assert status == 3, said
    assert "sink" in said and "Traceback" not in said
    assert 1 <= len(records(only_run(tmp_path))) < TRIALS


def test_a_run_whose_own_lab_lost_a_namespace_goes_on_in_a_new_one(start, dutlab, experiment, tmp_path):
    running = start("run", experiment(ONCE))
    wait_for(lambda: list((tmp_path / "runs").glob("*/trials/0001/record.json")))
    (label,) = [e["label"] for e in events(only_run(tmp_path)) if e["event"] == "lab-up"]
    subprocess.run(["ip", "netns", "del", f"dutlab-{label}-dut"], check=True)
    assert running.wait(LIMIT_S) == 3
    said = running.stderr.read()
    assert "resume" in said and "undo" not in said, said
    assert dutlab("undo", str(only_run(tmp_path))).stdout.strip() == "nothing to undo"
    done = dutlab("resume", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert len(records(only_run(tmp_path))) == TRIALS / 2


def test_a_run_whose_standing_lab_was_built_again_has_nothing_to_undo_in_it(start, dutlab, experiment, standing_lab, tmp_path):
    running = start("run", experiment(ONCE), "--lab", standing_lab)
    wait_for(lambda: list((tmp_path / "runs").glob("*/trials/0001/record.json")))
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert (done := dutlab("lab", "down", standing_lab)).returncode == 0, done.stderr
    refused = dutlab("resume", str(only_run(tmp_path)))
    assert refused.returncode == 3 and standing_lab in refused.stderr, refused.stderr
    assert (done := dutlab("lab", "up", "three-node", "--label", standing_lab)).returncode == 0, done.stderr
    as_built = dut_state(standing_lab)
    done = dutlab("resume", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert len(records(only_run(tmp_path))) == TRIALS / 2
    assert dut_state(standing_lab) == as_built


def test_undo_in_a_standing_lab_that_was_built_again_changes_nothing(start, dutlab, experiment, standing_lab, tmp_path):
    running = start("run", experiment(ONCE), "--lab", standing_lab)
    wait_for(lambda: any(e["event"] == "mode-applying" for run in (tmp_path / "runs").glob("*/journal.jsonl") for e in events(run.parent)))
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    for command in (("lab", "down", standing_lab), ("lab", "up", "three-node", "--label", standing_lab)):
        assert (done := dutlab(*command)).returncode == 0, done.stderr
    subprocess.run(["ip", "netns", "exec", f"dutlab-{standing_lab}-dut", "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
    somebody_elses = dut_state(standing_lab)
    assert dutlab("undo", str(only_run(tmp_path))).stdout.strip() == "nothing to undo"
    assert dut_state(standing_lab) == somebody_elses


def test_undo_removes_the_cables_of_a_rig_that_was_being_measured(start, dutlab, experiment, standing_lab, tmp_path):
    def ports():
        show = ["ip", "-n", f"dutlab-{standing_lab}-source", "-br", "link"]
        return subprocess.run(show, capture_output=True, text=True, check=True).stdout.split()[::4]

    found_at_first = ports()
    running = start("run", experiment(ONCE), "--lab", standing_lab, env={"XDG_CACHE_HOME": str(tmp_path / "no-calibrations")})
    wait_for(lambda: ports() != found_at_first)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert (done := dutlab("undo", str(only_run(tmp_path)))).returncode == 0, done.stderr
    assert ports() == found_at_first
    assert dutlab("undo", str(only_run(tmp_path))).stdout.strip() == "nothing to undo"


def test_a_full_disk_says_so_and_keeps_what_was_measured(dutlab, experiment, standing_lab, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    found_at_first = dut_state(standing_lab)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=220k", "tmpfs", str(small)], check=True)
    try:
        done = dutlab("run", experiment(EXPERIMENT), "--runs", str(small), "--lab", standing_lab)
        assert done.returncode == 1, (done.stdout, done.stderr)
        assert "space" in done.stderr.lower() and "Traceback" not in done.stderr
        (run,) = small.iterdir()
        assert all(r["status"] == "measured" for r in records(run))
        assert dut_state(standing_lab) == found_at_first
    finally:
        subprocess.run(["umount", str(small)], check=True)


def fake_iperf3(tmp_path, body):
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "iperf3"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ('echo "iperf 2.0.5 (08 Jul 2010)"', 3, "3.1"),
        ("exit 127", 3, "iperf3"),
    ],
)
def test_an_iperf3_that_is_too_old_or_missing_is_named_before_anything_is_measured(dutlab, experiment, tmp_path, body, status, says):
    done = dutlab("run", experiment(EXPERIMENT), env=fake_iperf3(tmp_path, body))
    assert done.returncode == status, done.stderr
    assert says in done.stderr and "Traceback" not in done.stderr
    assert not records(only_run(tmp_path))


@pytest.mark.parametrize("body", ['echo "garbage \x01 {{{"', "exit 0", "kill -9 $$"])
def test_an_iperf3_that_prints_garbage_or_ends_early_costs_its_trials_and_no_others(dutlab, experiment, tmp_path, body):
    real = shutil.which("iperf3")
    script = f'case "$*" in *--version*|*-v*) exec {real} --version;; *-s*) exec {real} "$@";; esac\n{body}'
    done = dutlab("run", experiment(BOTH_TOOLS), env=fake_iperf3(tmp_path, script))
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    by_tool = {tool: [r for r in records(only_run(tmp_path)) if r["cell"]["tool"] == tool] for tool in ("iperf3", "engine")}
    assert {r["status"] for r in by_tool["iperf3"]} == {"failed"} and all("iperf3" in r["why"] for r in by_tool["iperf3"])
    assert {r["status"] for r in by_tool["engine"]} == {"measured"}


def test_an_engine_that_prints_garbage_before_any_trial_cuts_the_run_which_can_go_on_with_a_good_one(dutlab, experiment, tmp_path):
    bad = tmp_path / "dutlab-engine"
    bad.write_text(f'#!/bin/sh\ncase "$1" in --version) exec {find_engine()} --version;; esac\necho garbage\n')
    bad.chmod(0o755)
    done = dutlab("run", experiment(BOTH_TOOLS), env={"DUTLAB_ENGINE": str(bad)})
    assert (done.returncode, "Traceback" in done.stderr) == (3, False), done.stderr
    assert "dutlab-engine" in done.stderr
    run = only_run(tmp_path)
    assert not records(run) and not (run / "MANIFEST.sha256").exists()
    done = dutlab("resume", str(run))
    assert done.returncode == 0, done.stderr
    assert {r["status"] for r in records(run)} == {"measured"}


@pytest.mark.parametrize("own", [True, False], ids=["own lab", "standing lab"])
def test_undo_of_a_copy_of_a_run_that_measures_takes_nothing_from_it(start, dutlab, experiment, standing_lab, tmp_path, own):
    running = start("run", experiment(ONCE), *([] if own else ["--lab", standing_lab]))
    wait_for(lambda: list((tmp_path / "runs").glob("*/trials/0001/record.json")))
    os.kill(running.pid, signal.SIGSTOP)  # it measures for as long as this takes
    shutil.copytree(only_run(tmp_path), tmp_path / "copy")
    for word in ("undo", "resume"):
        refused = dutlab(word, str(tmp_path / "copy"))
        assert (refused.returncode, f"process {running.pid}" in refused.stderr) == (3, True), refused.stderr
    os.kill(running.pid, signal.SIGCONT)
    assert running.wait(LIMIT_S) in {0, 1}, running.stderr.read()
    assert len(records(only_run(tmp_path))) == TRIALS / 2


def test_a_run_that_was_killed_is_undone_and_resumed_where_its_folder_was_moved_to(start, dutlab, experiment, standing_lab, tmp_path):
    found_at_first = dut_state(standing_lab)
    running = start("run", experiment(ONCE), "--lab", standing_lab)
    wait_for(lambda: list((tmp_path / "runs").glob("*/trials/0001/record.json")) and dut_state(standing_lab) != found_at_first)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    shutil.move(tmp_path / "runs", tmp_path / "archive")
    (moved,) = (tmp_path / "archive").iterdir()
    wait_for(lambda: not processes_in(standing_lab))
    done = dutlab("undo", str(moved))
    assert (done.returncode, dut_state(standing_lab)) == (0, found_at_first), done.stderr
    done = dutlab("resume", str(moved))
    assert done.returncode == 0, done.stderr
    assert len(records(moved)) == TRIALS / 2


@pytest.mark.timing
@pytest.mark.parametrize(("program", "links"), [("iperf3", "iperf3"), ("dutlab-engine", "engine")])
def test_a_trial_whose_program_was_killed_is_done_once_more_and_both_records_are_kept(
    start, experiment, standing_lab, tmp_path, program, links
):
    longer = BOTH_TOOLS.replace("duration: 1s", "duration: 6s").replace("duration: 300ms", "duration: 6s")
    running = start("run", experiment(longer + "repeat_disturbed: 0\n"), "--lab", standing_lab)
    pids = set()

    def at_work():
        if not list((tmp_path / "runs").glob("2*/journal.jsonl")):
            return False
        trial = json.loads((only_run(tmp_path) / "plan.json").read_text())
        begun = [e["trial"] for e in events(only_run(tmp_path)) if e["event"] == "trial-started"]
        if not begun or trial["trials"][begun[-1] - 1]["cell"]["tool"] != links:
            return False
        pids.update(pid for pid, line in processes_in(standing_lab).items() if program.encode() in line)
        return bool(pids)

    wait_for(at_work)
    time.sleep(1.5)
    for pid in pids:
        signalled(pid, signal.SIGKILL)
    running.wait(LIMIT_S)
    aside = [json.loads(p.read_text()) for p in only_run(tmp_path).glob("trials/*.tool-ended-1/record.json")]
    assert [r["status"] for r in aside] == ["failed"], running.stderr.read()
    (again,) = [r for r in records(only_run(tmp_path)) if r["trial"] == aside[0]["trial"]]
    assert again["attempt"] == 2 and again["status"] in {"measured", "disturbed"}


def test_trials_of_a_killed_run_are_done_again_where_nobody_verified_their_mode_since(start, experiment, standing_lab, tmp_path):
    running = start("run", experiment(ONCE.replace("[router, nat]", "[nat]")), "--lab", standing_lab)
    wait_for(lambda: list((tmp_path / "runs").glob("2*/trials/0001/record.json")))
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    run = only_run(tmp_path)
    begun = {int(p.parent.name) for p in run.glob("trials/????/record.json")}
    resumed = start("resume", str(run))
    assert resumed.wait(LIMIT_S) == 0, resumed.stderr.read()
    assert {int(p.name[:4]) for p in run.glob("trials/*.unproven-1")} == begun
    assert sum(e["event"] == "mode-held" for e in events(run)) == 1
    assert not unproven_trials(read_journal(run / "journal.jsonl"))
    again = start("resume", str(run))  # of a run that ended, nothing
    assert again.wait(LIMIT_S) == 0, again.stderr.read()
    assert not list(run.glob("trials/*.unproven-2"))


def test_a_run_that_is_ended_in_order_verifies_its_mode_before_it_puts_the_dut_back(start, experiment, standing_lab, tmp_path):
    running = start("run", experiment(ONCE.replace("[router, nat]", "[nat]")), "--lab", standing_lab)
    wait_for(lambda: list((tmp_path / "runs").glob("2*/trials/0001/record.json")))
    running.send_signal(signal.SIGTERM)
    assert running.wait(LIMIT_S) == 130, running.stderr.read()
    run = only_run(tmp_path)
    kept = {int(p.parent.name): p.read_bytes() for p in run.glob("trials/????/record.json")}
    resumed = start("resume", str(run))
    assert resumed.wait(LIMIT_S) == 0, resumed.stderr.read()
    assert not list(run.glob("trials/*.unproven-1"))
    assert {n: (run / f"trials/{n:04d}/record.json").read_bytes() for n in kept} == kept


@pytest.mark.parametrize(
    "harm",
    [["nft", "flush", "ruleset"], ["sysctl", "-qw", "net.ipv4.ip_forward=0"], ["ip", "link", "set", "dev", "in-a", "mtu", "600"]],
)
def test_the_trial_during_which_the_mode_was_lost_is_void_and_done_again_and_the_others_stay(
    start, experiment, standing_lab, tmp_path, harm
):
    text = ONCE.replace("[router, nat]", "[nat]") + "repeat_disturbed: 0\n"
    running = start("run", experiment(text), "--lab", standing_lab)
    wait_for(lambda: list((tmp_path / "runs").glob("2*/trials/0001/record.json")))
    subprocess.run(["ip", "netns", "exec", f"dutlab-{standing_lab}-dut", *harm], check=True)
    running.wait(LIMIT_S)
    said = running.stderr.read()
    aside = [json.loads(p.read_text()) for p in only_run(tmp_path).glob("trials/*.mode-lost-1/record.json")]
    assert len(aside) == 1, said
    assert aside[0]["attempt"] == 1
    if "sysctl" not in harm:  # a DUT that forwards nothing may also fail the trial, if it had just begun
        assert aside[0]["status"] in {"measured", "disturbed"}, "it looked like any other trial"
    kept = records(only_run(tmp_path))
    assert {r["trial"]: r["attempt"] for r in kept} == {1: 1, 2: 1, 3: 1, aside[0]["trial"]: 2}
    assert {r["status"] for r in kept} <= {"measured", "disturbed"}
