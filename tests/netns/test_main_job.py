"""The main job as a user runs it: real namespaces, real frames, the real command, and every way it can be cut."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from capability import have_netns, need
from dutlab.tools.find_engine import find_engine

ROOT = Path(__file__).parents[2]
EXPERIMENT = """
experiment: cut-me
testbed: {lab: three-node}
factors:
  mode: [router, nat]
workloads:
  - iperf3: {streams: 2, omit: 0s, duration: 1s, links: [[a]]}
  - sweep: {frame_sizes: [64, imix], duration: 300ms, warmup: 100ms, links: [[a]]}
repeats: 2
seed: 7
"""
TRIALS = 2 * 3 * 2
ONCE = EXPERIMENT.replace("repeats: 2", "repeats: 1")
BOTH_TOOLS = ONCE.replace("[router, nat]", "[router]").replace("[64, imix]", "[64]")
"""A trial of each tool in one mode: where it matters neither how many there are nor which."""


@pytest.fixture(autouse=True)
def _machine(no_leak):
    need("netns", have_netns())
    need("iperf3", shutil.which("iperf3") is not None)
    need("nft", shutil.which("nft") is not None)


@pytest.fixture
def dutlab(python, python_env, tmp_path):
    """Runs the command in an empty folder."""

    def run(*args, timeout=120, env=None):
        return subprocess.run(
            [python, "-m", "dutlab", *args],
            cwd=tmp_path,
            env={**python_env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run


@pytest.fixture
def start(python, python_env, tmp_path):
    """Starts the command and leaves it running; ended with the test at the latest."""
    started = []

    def run(*args):
        p = subprocess.Popen(
            [python, "-m", "dutlab", *args],
            cwd=tmp_path,
            env=python_env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(p)
        return p

    yield run
    for p in started:
        if p.poll() is None:
            os.killpg(p.pid, signal.SIGKILL)
        p.wait()
        p.stderr.close()


@pytest.fixture
def experiment(tmp_path):
    def write(text=EXPERIMENT):
        path = tmp_path / "experiment.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def lab(dutlab):
    """A lab of the test's own, so that what a run leaves in the DUT can be looked at."""
    label = dutlab("lab", "up", "three-node").stdout.strip()
    assert label
    yield label
    assert dutlab("lab", "down", label).returncode == 0


def dut_state(label):
    """What modes change: forwarding, other sysctls of the modes, and the ruleset."""
    inside = ["ip", "netns", "exec", f"dutlab-{label}-dut"]
    sysctls = subprocess.run(
        [*inside, "sysctl", "-a", "-r", r"^net\.ipv[46]\.(ip_forward|conf\.all\.forwarding)"], capture_output=True, text=True, check=True
    )
    rules = subprocess.run([*inside, "nft", "list", "ruleset"], capture_output=True, text=True, check=True)
    return sysctls.stdout, rules.stdout


def processes_in(label):
    pids = []
    for host in ("source", "dut", "sink"):
        pids += subprocess.run(["ip", "netns", "pids", f"dutlab-{label}-{host}"], capture_output=True, text=True, check=True).stdout.split()
    return pids


def only_run(tmp_path):
    (run,) = (tmp_path / "runs").iterdir()
    return run


def records(run):
    return [json.loads(p.read_text()) for p in sorted(run.glob("trials/[0-9][0-9][0-9][0-9]/record.json"))]


def events(run):
    return [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]


def test_an_experiment_leaves_a_whole_run_with_a_report_and_no_lab(dutlab, experiment, tmp_path):
    before = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    done = dutlab("run", str(experiment()))
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    found = records(run)
    assert len(found) == TRIALS and {r["status"] for r in found} == {"measured"}
    assert {p.name for p in run.iterdir()} >= {
        "experiment.yaml",
        "resolved.json",
        "plan.json",
        "hosts",
        "journal.jsonl",
        "trials",
        "MANIFEST.sha256",
    }
    for r in found:
        assert any(d["kind"] == "EMBEDDED_LAB" for d in r["doubts"])
        assert r["commands"] and all(c["passed"] for c in r["checks"])
        for flow in r["flows"]:
            assert flow["balances"] and flow["sent_frames"] > 0
            assert flow["asked_frames"] == flow["sent_frames"] + flow["refused_frames"]
            assert flow["sent_frames"] + flow["duplicated_frames"] == flow["received_frames"] + flow["lost_frames"]
        if r["cell"]["tool"] == "iperf3":
            assert r["figures"]["a"]["goodput_bps"] > 1e7
    page = re.search(r"report: (\S+)", done.stdout)
    assert page and (tmp_path / page[1]).is_file()
    assert subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout == before


def test_the_quick_demo_measures_every_mode_and_its_report_can_be_made_again(dutlab, tmp_path):
    done = dutlab("demo", "--quick", timeout=300)
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    assert {r["cell"]["mode"] for r in records(run)} == {"router", "filter-empty", "filter-default", "nat"}
    assert "embedded lab: relative figures" in (run / "report" / "report.md").read_text().lower()
    assert subprocess.run(["sha256sum", "--check", "--quiet", "MANIFEST.sha256"], cwd=run).returncode == 0
    again = dutlab("report", str(run), "--format", "csv", "-o", "again.csv")
    assert again.returncode == 0 and (tmp_path / "again.csv").read_text() == (run / "report" / "report.csv").read_text()
    plots = dutlab("plot", str(run), "--format", "png")
    pictures = [tmp_path / line for line in plots.stdout.splitlines()]
    assert pictures and all(p.read_bytes().startswith(b"\x89PNG") for p in pictures)


def test_a_run_killed_again_and_again_ends_with_every_trial_once_and_the_dut_as_it_was(dutlab, start, experiment, lab, tmp_path):
    seed = int(time.time())
    print(f"seed {seed}")
    when = random.Random(seed)
    found_at_first = dut_state(lab)
    running = start("run", str(experiment()), "--lab", lab)
    for _ in range(6):
        time.sleep(when.uniform(0.3, 3.5))
        if running.poll() is not None:
            break
        os.kill(running.pid, signal.SIGKILL)  # the process alone: whatever it started must end by itself
        running.wait()
        if not list((tmp_path / "runs").glob("*/journal.jsonl")):
            running = start("run", str(experiment()), "--lab", lab)
            continue
        running = start("resume", str(only_run(tmp_path)))
    assert running.wait(120) == 0, running.stderr.read()
    run = only_run(tmp_path)
    found = records(run)
    assert [r["trial"] for r in found] == list(range(1, TRIALS + 1))
    assert {r["status"] for r in found} == {"measured"}
    finished = [e["trial"] for e in events(run) if e["event"] == "trial-finished"]
    assert len(finished) == len(set(finished))
    assert dut_state(lab) == found_at_first
    assert not processes_in(lab)


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_restores_the_dut_and_ends_with_130(start, dutlab, experiment, lab, tmp_path, sig):
    found_at_first = dut_state(lab)
    running = start("run", str(experiment(ONCE)), "--lab", lab)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "runs").glob("*/trials/0001/record.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.7)
    running.send_signal(sig)
    assert running.wait(30) == 130, running.stderr.read()
    assert dut_state(lab) == found_at_first
    assert not processes_in(lab)
    assert 1 <= len(records(only_run(tmp_path))) < TRIALS / 2
    done = dutlab("resume", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert len(records(only_run(tmp_path))) == TRIALS / 2


def test_undo_puts_the_dut_of_a_killed_run_back(start, dutlab, experiment, lab, tmp_path):
    found_at_first = dut_state(lab)
    running = start("run", str(experiment()), "--lab", lab)
    deadline = time.monotonic() + 60
    while dut_state(lab) == found_at_first and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert dut_state(lab) != found_at_first
    done = dutlab("undo", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert dut_state(lab) == found_at_first
    assert dutlab("undo", str(only_run(tmp_path))).stdout.strip() == "nothing to undo"


def test_a_namespace_that_vanishes_in_mid_trial_ends_the_run_and_keeps_what_was_measured(start, dutlab, experiment, lab, tmp_path):
    running = start("run", str(experiment()), "--lab", lab)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "runs").glob("*/trials/0001/record.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    subprocess.run(["ip", "netns", "del", f"dutlab-{lab}-sink"], check=True)
    status = running.wait(60)
    said = running.stderr.read()
    assert status == 3, said
    assert "sink" in said and "Traceback" not in said
    assert 1 <= len(records(only_run(tmp_path))) < TRIALS


def test_a_mode_that_does_not_hold_measures_nothing_and_the_run_goes_on(dutlab, experiment, tmp_path):
    text = BOTH_TOOLS.replace("mode: [router]", "mode: [deaf, router]")
    text += "modes:\n  deaf: {apply: ['sysctl -w net.ipv4.ip_forward=0'], verify: ['true'], restore: ['true']}\n"
    done = dutlab("run", str(experiment(text)))
    assert done.returncode == 1, done.stderr
    by_mode = {mode: [r for r in records(only_run(tmp_path)) if r["cell"]["mode"] == mode] for mode in ("deaf", "router")}
    assert {r["status"] for r in by_mode["deaf"]} == {"refused"} and all(not r["figures"] and "deaf" in r["why"] for r in by_mode["deaf"])
    assert {r["status"] for r in by_mode["router"]} == {"measured"}
    assert "refused" in done.stdout


def test_a_full_disk_says_so_and_keeps_what_was_measured(dutlab, experiment, lab, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    found_at_first = dut_state(lab)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=220k", "tmpfs", str(small)], check=True)
    try:
        done = dutlab("run", str(experiment()), "--runs", str(small), "--lab", lab)
        assert done.returncode == 1, (done.stdout, done.stderr)
        assert "space" in done.stderr.lower() and "Traceback" not in done.stderr
        (run,) = small.iterdir()
        assert all(r["status"] == "measured" for r in records(run))
        assert dut_state(lab) == found_at_first
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
    done = dutlab("run", str(experiment()), env=fake_iperf3(tmp_path, body))
    assert done.returncode == status, done.stderr
    assert says in done.stderr and "Traceback" not in done.stderr
    assert not records(only_run(tmp_path))


@pytest.mark.parametrize("body", ['echo "garbage \x01 {{{"', "exit 0", "kill -9 $$"])
def test_an_iperf3_that_prints_garbage_or_ends_early_costs_its_trials_and_no_others(dutlab, experiment, tmp_path, body):
    real = shutil.which("iperf3")
    script = f'case "$*" in *--version*|*-v*) exec {real} --version;; *-s*) exec {real} "$@";; esac\n{body}'
    done = dutlab("run", str(experiment(BOTH_TOOLS)), env=fake_iperf3(tmp_path, script))
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    by_tool = {tool: [r for r in records(only_run(tmp_path)) if r["cell"]["tool"] == tool] for tool in ("iperf3", "engine")}
    assert {r["status"] for r in by_tool["iperf3"]} == {"failed"} and all("iperf3" in r["why"] for r in by_tool["iperf3"])
    assert {r["status"] for r in by_tool["engine"]} == {"measured"}


def test_a_port_that_carries_the_default_route_is_refused(dutlab, experiment, lab, tmp_path):
    subprocess.run(["ip", "-n", f"dutlab-{lab}-source", "route", "add", "default", "via", "172.16.0.1", "dev", "eth-a"], check=True)
    done = dutlab("run", str(experiment(ONCE)), "--lab", lab)
    assert done.returncode in (1, 3), done.stderr
    said = done.stderr + "".join(r["why"] for r in records(only_run(tmp_path)))
    assert "default route" in said and "isolated" in said


def test_a_factor_set_by_hand_is_asked_for_and_unattended_refuses_it(python, python_env, dutlab, experiment, tmp_path):
    text = BOTH_TOOLS.replace("mode: [router]", "mode: [router]\n  boost: ['on', 'off']")
    path = experiment(text)
    refused = dutlab("run", str(path), "--unattended")
    assert refused.returncode == 2 and "boost" in refused.stderr
    assert not (tmp_path / "runs").exists()
    done = subprocess.run(
        [python, "-m", "dutlab", "run", str(path)],
        cwd=tmp_path,
        env=python_env,
        capture_output=True,
        text=True,
        input="did it\ndid that\n",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answered = [e for e in events(only_run(tmp_path)) if e["event"] == "answered"]
    assert {(e["question"], e["answer"]) for e in answered} in (
        {("set boost to on", "did it"), ("set boost to off", "did that")},
        {("set boost to off", "did it"), ("set boost to on", "did that")},
    )
    assert len(records(only_run(tmp_path))) == 2 * 2


def test_a_wrong_file_is_refused_whole_before_anything_is_made(dutlab, experiment, tmp_path):
    done = dutlab("run", str(experiment(EXPERIMENT.replace("lab: three-node", "lab: three-nodes").replace("duration: 1s", "duration: 1"))))
    assert done.returncode == 2
    assert len(re.findall(r"^(?:dutlab: )?\S*experiment\.yaml:\d+:\d+: ", done.stderr, re.MULTILINE)) >= 2, done.stderr
    assert not (tmp_path / "runs").exists()


def ordinary_user(python, env):
    """The words before a command that make it an ordinary user's, and an interpreter that this user may run."""
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]
    site = next(p for p in sys.path if p.endswith("site-packages"))
    for interpreter in (python, "/usr/bin/python3"):
        own = {**env, "PYTHONPATH": f"{env['PYTHONPATH']}:{site}"}
        # Through sh: what setpriv itself may execute says nothing about what the command may execute later.
        looks = ["sh", "-c", f'"{interpreter}" -c "import dutlab.cli.run" && test -x "{find_engine()}"']
        if subprocess.run([*as_nobody, *looks], env=own, capture_output=True).returncode == 0:
            return as_nobody, interpreter, own
    # The interpreter or this tree is root's alone: a user namespace without root in it has no more rights over the network.
    return ["unshare", "--user", "--map-user=65534", "--map-group=65534"], python, env


def test_an_experiment_runs_without_root_in_a_user_namespace(python, python_env):
    need("userns", subprocess.run(["unshare", "-Urnm", "true"], capture_output=True).returncode == 0)
    as_user, interpreter, env = ordinary_user(python, python_env)
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        Path(home).chmod(0o777)
        Path(home, "experiment.yaml").write_text(ONCE)
        argv = [*as_user, interpreter, "-m", "dutlab", "run", "experiment.yaml"]
        done = subprocess.run(
            argv, cwd=home, env={**env, "HOME": home, "XDG_CACHE_HOME": home}, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        assert "not root" in done.stderr
        found = records(only_run(Path(home)))
        assert len(found) == 6 and {r["status"] for r in found} == {"measured"}
