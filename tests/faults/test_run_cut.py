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

from capability import needs
from dutlab.runner.journal import read_journal, unproven_trials
from dutlab.tools.engine.binary import find_engine
from main_job import BOTH_TOOLS, EXPERIMENT, ONCE, SWEEPS, TRIALS, dut_state, events, only_run, ports_of_source, processes_in, records
from processes import eventually, signalled
from run_records import record_in

_machine = needs("iperf3", "nft")


def wait_for(condition):
    assert eventually(condition)


@pytest.mark.timing
def test_a_run_killed_again_and_again_ends_with_every_trial_once_and_the_dut_as_it_was(dutlab, start, experiment, standing_lab, tmp_path):
    seed = int(time.time())
    print(f"seed {seed}")
    when = random.Random(seed)
    found_at_first = dut_state(standing_lab)
    running = start("run", experiment(EXPERIMENT), "--lab", standing_lab)
    for _ in range(3):
        time.sleep(when.uniform(0.3, 3.0))
        if running.poll() is not None:
            break
        os.kill(running.pid, signal.SIGKILL)  # the process alone: whatever it started must end by itself
        running.wait()
        if not list((tmp_path / "runs").glob("*/journal.jsonl")):
            running = start("run", experiment(EXPERIMENT), "--lab", standing_lab)
            continue
        running = start("resume", str(only_run(tmp_path)))
    assert running.wait() == 0, running.said.read_text()
    run = only_run(tmp_path)
    found = records(run)
    assert [r["trial"] for r in found] == list(range(1, TRIALS + 1))
    assert {r["status"] for r in found} == {"measured"}
    unproven = {p.name.split(".")[0] for p in (run / "trials").glob("*.unproven-*")}
    finished = [e["trial"] for e in events(run) if e["event"] == "trial-finished" and f"{e['trial']:04d}" not in unproven]
    assert len(finished) == len(set(finished))
    assert dut_state(standing_lab) == found_at_first
    assert not processes_in(standing_lab)


@pytest.mark.smoke
@pytest.mark.timing
def test_a_signal_restores_the_dut_and_ends_with_130(start, dutlab, experiment, standing_lab, tmp_path):
    found_at_first = dut_state(standing_lab)
    running = start("run", experiment(ONCE), "--lab", standing_lab)
    wait_for(lambda: list((tmp_path / "runs").glob("*/trials/0001/record.json")))
    time.sleep(0.3)
    os.kill(running.pid, signal.SIGINT)
    said = running.ended()
    assert running.returncode == 130, said
    assert re.search(r"note: interrupted after \d+ of \d+ trials: `dutlab resume runs/\S+` continues it", said), said
    assert dut_state(standing_lab) == found_at_first
    assert not processes_in(standing_lab)
    assert 1 <= len(records(only_run(tmp_path))) < TRIALS / 2
    done = dutlab("resume", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert len(records(only_run(tmp_path))) == TRIALS / 2


@pytest.mark.timing
def test_a_run_that_is_interrupted_before_its_first_trial_says_how_to_go_on(start, dutlab, experiment, standing_lab, tmp_path):
    running = start("run", experiment(ONCE), "--lab", standing_lab)
    wait_for(lambda: list((tmp_path / "runs").glob("2*/events.jsonl")))
    os.kill(running.pid, signal.SIGINT)
    said = running.ended()
    assert running.returncode == 130, said
    if not list((tmp_path / "runs").glob("*/trials/0001")):  # a fast machine may have begun it
        assert re.search(r"note: interrupted before the first trial: `dutlab resume runs/\S+` continues it", said), said
    assert dutlab("resume", str(only_run(tmp_path))).returncode == 0


@pytest.mark.timing
def test_a_run_that_was_killed_is_undone_and_resumed_where_its_folder_was_moved_to_and_what_nobody_verified_is_done_again(
    start, dutlab, experiment, standing_lab, tmp_path
):
    found_at_first = dut_state(standing_lab)
    running = start("run", experiment(ONCE), "--lab", standing_lab)
    wait_for(lambda: list((tmp_path / "runs").glob("2*/trials/0001/record.json")))
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert dut_state(standing_lab) != found_at_first
    run = shutil.move(only_run(tmp_path), tmp_path / "archive")
    begun = {int(p.parent.name) for p in run.glob("trials/????/record.json")}
    wait_for(lambda: not processes_in(standing_lab))
    done = dutlab("undo", str(run))
    assert (done.returncode, dut_state(standing_lab)) == (0, found_at_first), done.stderr
    assert dutlab("undo", str(run)).stdout.strip() == "nothing to undo"
    resumed = dutlab("resume", str(run))
    assert resumed.returncode == 0, resumed.stderr
    assert len(records(run)) == TRIALS / 2
    assert {int(p.name[:4]) for p in run.glob("trials/*.unproven-1")} == begun
    assert sum(e["event"] == "mode-held" for e in events(run)) == 1
    assert not unproven_trials(read_journal(run / "journal.jsonl"))
    again = dutlab("resume", str(run))  # of a run that ended, nothing
    assert again.returncode == 0, again.stderr
    assert not list(run.glob("trials/*.unproven-2"))


@pytest.mark.timing
def test_a_run_whose_own_lab_lost_a_namespace_goes_on_in_a_new_one(start, dutlab, experiment, tmp_path):
    running = start("run", experiment(ONCE))
    wait_for(lambda: list((tmp_path / "runs").glob("*/trials/0001/record.json")))
    (label,) = [e["label"] for e in events(only_run(tmp_path)) if e["event"] == "lab-up"]
    subprocess.run(["ip", "netns", "del", f"dutlab-{label}-dut"], check=True)
    assert running.wait() == 3
    said = running.said.read_text()
    assert "dut" in said and "resume" in said and "undo" not in said and "Traceback" not in said, said
    assert 1 <= len(records(only_run(tmp_path))) < TRIALS / 2, "what was measured is kept"
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
    subprocess.run(["ip", "netns", "exec", f"dutlab-{standing_lab}-dut", "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
    somebody_elses = dut_state(standing_lab)
    assert dutlab("undo", str(only_run(tmp_path))).stdout.strip() == "nothing to undo"
    assert dut_state(standing_lab) == somebody_elses
    done = dutlab("resume", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert len(records(only_run(tmp_path))) == TRIALS / 2
    assert dut_state(standing_lab) == somebody_elses


def test_undo_removes_the_cables_of_a_rig_that_was_being_measured(start, dutlab, experiment, standing_lab, tmp_path):
    found_at_first = ports_of_source(standing_lab)
    running = start("run", experiment(ONCE), "--lab", standing_lab, env={"XDG_CACHE_HOME": str(tmp_path / "no-calibrations")})
    wait_for(lambda: ports_of_source(standing_lab) != found_at_first)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert (done := dutlab("undo", str(only_run(tmp_path)))).returncode == 0, done.stderr
    assert ports_of_source(standing_lab) == found_at_first
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
    done = dutlab("run", experiment(BOTH_TOOLS), env=fake_iperf3(tmp_path, body))
    assert done.returncode == status, done.stderr
    assert says in done.stderr and "Traceback" not in done.stderr
    assert not records(only_run(tmp_path))


def test_an_iperf3_that_prints_garbage_or_ends_early_costs_its_trials_and_no_others(dutlab, experiment, tmp_path):
    """Each client does something else: a word that is no JSON, nothing, or its end by a signal."""
    real, calls = shutil.which("iperf3"), tmp_path / "calls"
    script = f"""case "$*" in *--version*|*-v*) exec {real} --version;; *-s*) exec {real} "$@";; esac
echo >>{calls}
case $(($(wc -l <{calls}) % 3)) in 0) echo "garbage \x01 {{{{{{";; 1) exit 0;; 2) kill -9 $$;; esac"""
    done = dutlab("run", experiment(BOTH_TOOLS.replace("repeats: 1", "repeats: 3")), env=fake_iperf3(tmp_path, script))
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr and len(calls.read_text()) >= 3
    by_tool = {tool: [r for r in records(only_run(tmp_path)) if r["cell"]["tool"] == tool] for tool in ("iperf3", "engine")}
    assert {r["status"] for r in by_tool["iperf3"]} == {"failed"} and all("iperf3" in r["why"] for r in by_tool["iperf3"])
    assert {r["status"] for r in by_tool["engine"]} == {"measured"}


def test_an_engine_that_prints_garbage_before_any_trial_cuts_the_run_which_can_go_on_with_a_good_one(dutlab, experiment, tmp_path):
    bad = tmp_path / "dutlab-engine"
    bad.write_text(f'#!/bin/sh\ncase "$1" in --version) exec {find_engine()} --version;; esac\necho garbage\n')
    bad.chmod(0o755)
    done = dutlab("run", experiment(SWEEPS), env={"DUTLAB_ENGINE": str(bad)})
    assert (done.returncode, "Traceback" in done.stderr) == (3, False), done.stderr
    assert "dutlab-engine" in done.stderr
    run = only_run(tmp_path)
    assert not records(run) and not (run / "MANIFEST.sha256").exists()
    done = dutlab("resume", str(run))
    assert done.returncode == 0, done.stderr
    assert {r["status"] for r in records(run)} == {"measured"}


def killed_engine(tmp_path, request, times):
    """An engine that is killed as it is told what has `request` in it, so often; then it is the true one."""
    (left := tmp_path / "left").write_text(str(times))
    program = tmp_path / "dutlab-engine"
    program.write_text(f"""#!/bin/sh
[ "$1" = agent ] || exec {find_engine()} "$@"
while IFS= read -r line; do
  case $line in *'"op":"arm"'*'{request}'*)
    left=$(cat {left})
    [ "$left" = 0 ] || {{ echo $((left - 1)) >{left}; kill -9 $$; exit; }} ;;
  esac
  printf '%s\\n' "$line"
done | {find_engine()} agent
""")
    program.chmod(0o755)
    return {"DUTLAB_ENGINE": str(program)}


OF_A_PROBE, OF_A_TRIAL = '"frames":10', '"pps":2000.0'


def test_an_engine_that_is_killed_while_a_mode_is_verified_costs_no_trial(dutlab, experiment, tmp_path):
    done = dutlab("run", experiment(SWEEPS), env=killed_engine(tmp_path, OF_A_PROBE, 1))
    assert done.returncode == 0, done.stderr
    assert {r["status"] for r in records(only_run(tmp_path))} == {"measured"}


@pytest.mark.parametrize(("request_of", "times", "status"), [(OF_A_PROBE, 2, 3), (OF_A_TRIAL, 2, 1)], ids=["in a mode", "in a trial"])
def test_a_resume_does_again_what_an_engine_that_is_killed_twice_has_cost(dutlab, experiment, tmp_path, request_of, times, status):
    done = dutlab("run", experiment(SWEEPS), env=killed_engine(tmp_path, request_of, times))
    run = only_run(tmp_path)
    assert (done.returncode, (run / "MANIFEST.sha256").exists()) == (status, False), done.stderr
    again = dutlab("resume", str(run))
    assert (again.returncode, (run / "MANIFEST.sha256").exists()) == (0, True), again.stderr
    assert {r["status"] for r in records(run)} == {"measured"}


@pytest.mark.parametrize("own", [True, False], ids=["own lab", "standing lab"])
def test_undo_of_a_copy_of_a_run_that_measures_takes_nothing_from_it(start, dutlab, experiment, standing_lab, tmp_path, own):
    running = start("run", experiment(ONCE.replace("[1kpps, 2kpps]", "[2kpps]")), *([] if own else ["--lab", standing_lab]))
    wait_for(lambda: list((tmp_path / "runs").glob("*/trials/0001/record.json")))
    os.kill(running.pid, signal.SIGSTOP)  # it measures for as long as this takes
    shutil.copytree(only_run(tmp_path), tmp_path / "copy")
    for word in ("undo", "resume"):
        refused = dutlab(word, str(tmp_path / "copy"))
        assert (refused.returncode, f"process {running.pid}" in refused.stderr) == (3, True), refused.stderr
    os.kill(running.pid, signal.SIGCONT)
    assert running.wait() in {0, 1}, running.said.read_text()
    assert len(records(only_run(tmp_path))) == TRIALS / 4


@pytest.mark.timing
def test_a_trial_whose_program_was_killed_is_done_once_more_and_both_records_are_kept(start, experiment, standing_lab, tmp_path):
    longer = BOTH_TOOLS.replace("duration: 1s", "duration: 5s").replace("duration: 300ms", "duration: 5s")
    running = start("run", experiment(longer + "repeat_disturbed: 0\n"), "--lab", standing_lab)

    def at_work(program, tool):
        """The program in a trial of its tool."""
        if not list((tmp_path / "runs").glob("2*/journal.jsonl")):
            return []
        plan = json.loads((only_run(tmp_path) / "plan.json").read_text())["trials"]
        begun = [e["trial"] for e in events(only_run(tmp_path)) if e["event"] == "trial-started"]
        if not begun or plan[begun[-1] - 1]["cell"]["tool"] != tool:
            return []
        return [pid for pid, line in processes_in(standing_lab).items() if program.encode() in line]

    left = {"iperf3": "iperf3", "engine": "dutlab-engine"}
    while left:  # in whatever order the trials are
        wait_for(lambda: any(at_work(program, tool) for tool, program in left.items()))
        tool = next(tool for tool, program in left.items() if at_work(program, tool))
        time.sleep(1)
        for pid in at_work(left.pop(tool), tool):
            signalled(pid, signal.SIGKILL)
    running.wait()
    aside = [record_in(p) for p in only_run(tmp_path).glob("trials/*.tool-ended-1/record.json")]
    assert [(r["status"], r["cell"]["tool"]) for r in sorted(aside, key=lambda r: r["cell"]["tool"])] == [
        ("failed", "engine"),
        ("failed", "iperf3"),
    ]
    kept = records(only_run(tmp_path))
    assert [(r["attempt"], r["status"] in {"measured", "disturbed"}) for r in kept] == [(2, True)] * 2


def test_a_run_that_is_ended_in_order_verifies_its_mode_before_it_puts_the_dut_back(start, dutlab, experiment, standing_lab, tmp_path):
    running = start("run", experiment(ONCE), "--lab", standing_lab)
    wait_for(lambda: list((tmp_path / "runs").glob("2*/trials/0001/record.json")))
    os.kill(running.pid, signal.SIGTERM)
    assert running.wait() == 130, running.said.read_text()
    run = only_run(tmp_path)
    kept = {int(p.parent.name): p.read_bytes() for p in run.glob("trials/????/record.json")}
    resumed = dutlab("resume", str(run))
    assert resumed.returncode == 0, resumed.stderr
    assert not list(run.glob("trials/*.unproven-1"))
    assert {n: (run / f"trials/{n:04d}/record.json").read_bytes() for n in kept} == kept


HARMS = (["nft", "flush", "ruleset"], ["sysctl", "-qw", "net.ipv4.ip_forward=0"], ["ip", "link", "set", "dev", "in-a", "mtu", "600"])


def test_the_trial_during_which_the_mode_was_lost_is_void_and_done_again_and_the_others_stay(start, experiment, standing_lab, tmp_path):
    text = ONCE.replace("[64, imix]", "[64, 512, imix]") + "repeat_disturbed: 0\n"
    running = start("run", experiment(text), "--lab", standing_lab)

    def lost():
        return sorted((tmp_path / "runs").glob("2*/trials/*.mode-lost-*/record.json"))

    def begun():
        """The number of the last trial that has begun."""
        journals = list((tmp_path / "runs").glob("2*/journal.jsonl"))
        return max((e["trial"] for j in journals for e in events(j.parent) if e["event"] == "trial-started"), default=0)

    harmed = 0
    for nth, harm in enumerate(HARMS):  # each in a trial that nothing has harmed yet
        wait_for(lambda: begun() > harmed or running.poll() is not None)  # noqa: B023 -- done with before it changes
        harmed = begun()
        subprocess.run(["ip", "netns", "exec", f"dutlab-{standing_lab}-dut", *harm], check=True)
        wait_for(lambda: len(lost()) > nth or running.poll() is not None)  # noqa: B023 -- likewise
    running.wait()
    aside = [json.loads(p.read_text()) for p in lost()]
    assert len(aside) == len(HARMS), running.said.read_text()
    # A DUT that forwards nothing may also fail the trial, if it had just begun. Otherwise it looked like any other trial.
    assert sum(r["status"] in {"measured", "disturbed"} for r in aside) >= 2
    kept, again = records(only_run(tmp_path)), [r["trial"] for r in aside]
    assert {r["trial"]: r["attempt"] for r in kept} == {n: 1 + again.count(n) for n in range(1, 7)}
    assert {r["status"] for r in kept} <= {"measured", "disturbed"}
