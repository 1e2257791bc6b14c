"""Steps on real hosts: barriers, ends, what is kept; and Conductor's files through the command line."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from capability import need_program
from dutlab.errors import InputError
from dutlab.hosts.local import LocalHost
from dutlab.hosts.netns import NetnsMachine
from dutlab.spec.workloads.steps import StepsWorkload
from dutlab.tools.engine.clocks import Offset
from dutlab.tools.gate import LEAD_NS, ClockReading, Gate, lead_ns
from dutlab.tools.steps.account import Account
from dutlab.tools.steps.steps import Steps
from processes import LIMIT_S, eventually, running_with
from run_records import records_below

pytestmark = pytest.mark.timing

EXAMPLE = Path(__file__).parents[2] / "examples" / "conductor"
MAPS = [word for name in ("source", "dut", "sink") for word in ("--map", f"{name}=lab:three-node/{name}")]


def work(**phases):
    return StepsWorkload.model_validate(phases)


async def done_by(hosts, steps, **options):
    account = Account()
    try:
        await Steps(hosts).carry_out(steps, account, **options)
    finally:
        for host in hosts.values():
            await host.close()
    return account


def by_command(account):
    return {d.step.command: d for d in account.done}


async def test_hosts_begin_a_phase_together_and_no_phase_before_all_have_ended_the_one_before():
    hosts = {f"h{n}": LocalHost(f"h{n}") for n in range(6)}
    stamp = {name: ["date +%s%N", f"sleep 0.{n}"] for n, name in enumerate(hosts)}
    account = await done_by(hosts, work(startup=stamp, run=stamp))
    began = {p: [int(d.stdout) / 1e9 for d in account.done if d.phase == p and d.place == 1] for p in ("startup", "run")}
    slowest = max(d.started_s + d.seconds for d in account.done if d.phase == "startup")
    assert min(began["run"]) > slowest - 0.01
    assert {phase: sorted(s.host for s in starts) for phase, starts in account.starts.items()} == {
        "startup": sorted(hosts),
        "run": sorted(hosts),
    }
    assert account.failed == []


def test_one_host_alone_is_not_kept_waiting_for_others():
    gate = Gate(None, ClockReading(Offset(0, 1000), 0, 1_000_000))
    assert lead_ns([gate]) == 0
    assert lead_ns([gate, gate]) > LEAD_NS


async def test_one_host_alone_runs_its_steps_once_and_says_when_it_began():
    account = await done_by({"a": LocalHost("a")}, work(run={"a": ["echo one", "echo two"]}))
    assert [d.stdout for d in account.done] == [b"one\n", b"two\n"]
    (start,) = account.starts["run"]
    assert start.earliest_ns <= start.latest_ns


async def test_a_step_that_never_ends_is_ended_by_its_time_out_with_all_that_it_had_said_and_the_reset_follows():
    marker = f"dutlab-steps-{os.getpid()}"
    steps = {"a": [{"run": f"echo before; sleep 600 # {marker}", "timeout": 1}, "echo next"]}
    account = await done_by({"a": LocalHost("a")}, work(run=steps, reset={"a": ["echo reset"]}))
    said = by_command(account)
    assert said[f"echo before; sleep 600 # {marker}"].stdout == b"before\n"
    assert said[f"echo before; sleep 600 # {marker}"].why == "did not end within 1 s and was ended"
    assert said["echo next"].stdout == b"next\n"
    assert said["echo reset"].stdout == b"reset\n"
    assert eventually(lambda: not running_with(marker))


async def test_what_was_spawned_ends_with_the_trial_and_is_a_failure_only_if_it_ended_early_and_badly():
    marker = f"dutlab-spawn-{os.getpid()}"
    spawned = [{"spawn": f"echo up; sleep 600 # {marker}"}, {"spawn": "echo broken >&2; exit 3"}, {"spawn": "exit 0"}, "sleep 0.3"]
    account = await done_by({"a": LocalHost("a")}, work(run={"a": spawned}))
    said = by_command(account)
    assert said[f"echo up; sleep 600 # {marker}"].stdout == b"up\n"
    assert [d.step.command for d in account.failed] == ["echo broken >&2; exit 3"]
    assert account.failed[0].why == "ended with 3 before anything was reset"
    assert account.failed[0].stderr == b"broken\n"
    assert eventually(lambda: not running_with(marker))


@pytest.mark.parametrize(("on_failure", "runs"), [("keep-going", True), ("stop", False)])
async def test_after_a_failure_it_goes_on_or_stops_and_resets_either_way(on_failure, runs):
    account = await done_by(
        {"a": LocalHost("a")},
        work(startup={"a": ["exit 7"]}, run={"a": ["echo run"]}, reset={"a": ["echo reset"]}, on_failure=on_failure),
    )
    assert ("echo run" in by_command(account)) is runs
    assert "echo reset" in by_command(account)
    assert account.failed[0].status == 7


async def until(said, host):
    """Until `host` has a file `said`."""
    while (await host.run(["test", "-e", str(said)], check=False)).status:
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("before", [[], ["true"]], ids=["as the first step", "as the second"])
@pytest.mark.parametrize("leaves", ["", " & wait"], ids=["", "with a background"])
async def test_an_interrupted_step_is_kept_with_what_it_had_said_and_what_it_did_is_collected_and_reset(tmp_path, before, leaves):
    account, host, begun = Account(), LocalHost("a"), tmp_path / "begun"
    long = f"echo half; touch {begun}; sleep 600{leaves}"
    steps = work(startup={"a": ["echo one"]}, run={"a": [*before, long]}, collect={"a": ["echo all"]}, reset={"a": ["echo reset"]})
    task = asyncio.ensure_future(Steps({"a": host}).carry_out(steps, account))
    await until(begun, host)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await host.close()
    said = by_command(account)
    assert {command: d.stdout for command, d in said.items() if d.phase != "run"} == {
        "echo one": b"one\n", "echo all": b"all\n", "echo reset": b"reset\n",
    }  # fmt: skip
    assert (said[long].stdout, said[long].why, said[long].end) == (b"half\n", "was interrupted", "interrupted")
    assert account.interrupted == "run"
    assert account.measured().notes[0] == "interrupted in run"


async def test_a_step_that_its_time_out_was_to_end_has_its_last_words_and_has_not_failed():
    command = "trap 'echo total; exit' TERM; echo up; while :; do sleep 0.05; done"
    steps = {"a": [{"run": command, "timeout": 1, "at_timeout": "end"}, {"run": "sleep 600", "timeout": 0, "at_timeout": "end"}]}
    account = await done_by({"a": LocalHost("a")}, work(run=steps))
    assert account.failed == []
    assert [(d.stdout, d.status, d.end) for d in account.done] == [(b"up\ntotal\n", None, "time-out"), (b"", None, "time-out")]


async def test_what_a_step_leaves_in_the_background_lives_until_the_trial_ends(tmp_path):
    marker, alive = f"dutlab-left-{os.getpid()}", tmp_path / "alive"
    left = f"nohup sh -c 'while :; do sleep 0.05; echo x >>{alive}; done # {marker}' >/dev/null 2>&1 &"
    grows = f"a=$(wc -c <{alive}); while [ $(wc -c <{alive}) = $a ]; do sleep 0.05; done; echo grows"
    script = tmp_path / "start.sh"
    script.write_text("sleep 600 &\necho started\nexit 3\n")
    steps = work(startup={"a": [f"touch {alive}; echo began; {left}", f"sh {script}"]}, run={"a": [grows]}, reset={"a": [grows]})
    account = await done_by({"a": LocalHost("a")}, steps)
    assert [(d.status, d.stdout) for d in account.done] == [(0, b"began\n"), (3, b"started\n"), (0, b"grows\n"), (0, b"grows\n")]
    assert account.failed[0].why == "ended with 3"
    assert eventually(lambda: not running_with(marker))


async def test_a_step_that_is_waited_for_long_is_named_with_its_time_and_limit(monkeypatch):
    monkeypatch.setattr("dutlab.tools.steps.steps.FIRST_WORD_S", 0.05)
    told, host = [], LocalHost("a")
    steps = work(run={"a": [{"run": "sleep 2", "timeout": "90s", "name": "step3"}]})
    await Steps({"a": host}, note=told.append).carry_out(steps, Account())
    await host.close()
    assert any(re.fullmatch(r"waiting for a, run, step3: `sleep 2` \(\d s; limit 90 s\)", text) for text in told), told


async def test_steps_run_in_the_directory_that_was_asked_for(tmp_path):
    hosts, account = {name: LocalHost(name) for name in "ab"}, Account()
    steps = work(run={"a": ["pwd", "pwd"], "b": ["pwd"]})
    await Steps(hosts, directories={"a": str(tmp_path), "b": f"{tmp_path}/none"}).carry_out(steps, account)
    for host in hosts.values():
        await host.close()
    assert [d.stdout.decode().strip() for d in account.done if d.host != "b" and d.status == 0] == [str(tmp_path)] * 2
    assert [d.status for d in account.failed] == [126]


async def test_megabytes_and_binary_output_are_kept_as_they_are():
    host = LocalHost("a")
    account = await done_by({"a": host}, work(run={"a": ["head -c 5000000 /dev/zero; printf '\\377\\000'"]}))
    assert account.done[0].stdout == b"\0" * 5_000_000 + b"\xff\0"


async def test_a_host_that_is_not_there_is_refused_before_anything_runs():
    with pytest.raises(InputError, match="no host b"):
        await done_by({"a": LocalHost("a")}, work(startup={"a": ["echo a"]}, run={"b": ["echo b"]}))


async def test_a_machine_of_a_lab_sees_its_own_processes_only(namespace):
    outside = subprocess.Popen(["sleep", "600"])
    try:
        machine = await NetnsMachine.open("m", namespace)

        async def seen() -> list[str]:
            return (await machine.run(["ps", "-e", "-o", "comm="])).text.split()

        others = await seen()
        await machine.spawn(["sleep", "601"])
        while "sleep" not in await seen():  # until then it has the name of what carries it there
            pass
        killed = await machine.run(["killall", "sleep"])
        await machine.close()
        assert "sleep" not in others
        assert killed.status == 0
        assert outside.poll() is None
    finally:
        outside.kill()
        outside.wait()


def test_the_example_runs_in_a_lab_and_leaves_a_run_and_the_originals_report(dutlab, tmp_path):
    need_program("iperf3")
    before = time.time()
    done = dutlab("conductor", "run", str(EXAMPLE / "conductor.cfg"), "--translate", "-t", "1", *MAPS, "-f", "json", "-o", "c.json")
    assert done.returncode == 0, done.stderr
    (record,) = records_below(tmp_path)
    steps = {(r["host"], r["phase"], r["step"]): r for r in record["tables"]["steps"]}
    assert steps["source", "run", "timeout30"]["status"] == 0
    assert steps["sink", "run", "spawn0"]["command"].startswith("taskset -c 0,1 iperf3 -s")
    assert "raw/source/run/02.out" in record["raw"]
    assert record["figures"]["all hosts"]["failed_steps"] == 0
    (said,) = (p.read_text() for p in tmp_path.glob("runs/*/trials/*/raw/source/run/02.out"))
    rate, scale = re.search(r"^\[SUM\].* ([\d.]+) ([MG])bits/sec +receiver$", said, re.MULTILINE).groups()
    assert record["figures"]["source"]["run/02/goodput_bps"] == pytest.approx(float(rate) * {"M": 1e6, "G": 1e9}[scale])
    (report,) = tmp_path.glob("runs/*/report/report.md")
    assert "Goodput, by step and trial" in report.read_text()
    assert "- Every step succeeded." in report.read_text().splitlines()
    theirs = json.loads((tmp_path / "c.json").read_text())
    assert theirs["metadata"]["total_workers"] == 3
    assert datetime_seconds(theirs["metadata"]["start_time"]) >= before - 1


def datetime_seconds(text):
    from datetime import datetime  # noqa: PLC0415

    return datetime.fromisoformat(text).timestamp()


def test_without_translation_the_failed_server_is_told_and_the_exit_says_so(dutlab, tmp_path):
    for name in ("conductor.cfg", "source.cfg", "dut.cfg", "sink.cfg"):
        text = (
            (EXAMPLE / name)
            .read_text()
            .replace("sleep 5", "sleep 0.3")
            .replace("-P 2 -t 3", "-t 1 --connect-timeout 300")
            .replace("sleep 1", "true")
        )
        (tmp_path / name).write_text(text)
    done = dutlab("conductor", "run", "conductor.cfg", "-t", "1", *MAPS)
    assert done.returncode == 1, done.stderr
    (record,) = records_below(tmp_path)
    assert any("cpuset" in note for note in record["notes"])
    assert record["status"] == "failed"


def one_host(tmp_path, **phases):
    """A test of one host, here."""
    (tmp_path / "t.cfg").write_text("[Test]\ntrials: 1\n[Workers]\nhere: h.cfg\n")
    sections = "".join(f"[{p.capitalize()}]\n{phases.get(p, '')}\n" for p in ("startup", "run", "collect", "reset"))
    (tmp_path / "h.cfg").write_text("[Coordinator]\nplayer: x\n" + sections)
    return ["conductor", "run", "t.cfg", "--map", "here=local"]


def begun_in(tmp_path, argv):
    """The command, once `begun` is there."""
    command = [sys.executable, "-c", "from dutlab.cli.main import main; main()", *argv]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert eventually((tmp_path / "begun").exists)
    return process


def test_ctrl_c_leaves_the_step_the_trial_and_the_originals_report_as_interrupted(tmp_path):
    argv = one_host(tmp_path, run="s: echo half; touch begun; sleep 600", collect="c: echo all >collected", reset="r: touch reset")
    process = begun_in(tmp_path, [*argv, "-f", "json", "-o", "c.json"])
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    (record,) = records_below(tmp_path)
    assert (record["status"], record["why"]) == ("failed", "interrupted in run")
    assert [(r["phase"], r["ended_by"]) for r in record["tables"]["steps"]] == [("run", "interrupted"), ("collect", ""), ("reset", "")]
    assert {"collected", "reset"} <= {p.name for p in tmp_path.iterdir()}
    phases = json.loads((tmp_path / "c.json").read_text())["trials"][0]["phases"]
    assert [r["message"] for r in phases["run"]["workers"]["worker_0"]["results"]][1:] == ["phases complete"]


def test_after_a_kill_undo_names_what_was_not_reset_and_resets_when_asked(dutlab, tmp_path):
    process = begun_in(tmp_path, one_host(tmp_path, run="s: touch begun; sleep 600", reset="r: touch reset"))
    process.kill()
    process.communicate()
    (run,) = tmp_path.glob("runs/*")
    named = dutlab("undo", str(run))
    assert named.returncode == 0, named.stderr
    assert named.stdout == f"Startup began, and Reset was not run:\n  here: touch reset\n`dutlab undo {run} --reset` runs it\n"
    assert not (tmp_path / "reset").exists()
    done = dutlab("undo", str(run), "--reset")
    assert done.stdout == "reset: here: touch reset ended with 0\n"
    assert (tmp_path / "reset").exists()
    assert dutlab("undo", str(run)).stdout == "nothing to undo\n"


def test_after_a_kill_undo_resets_in_the_lab_before_it_goes(dutlab, tmp_path):
    argv = one_host(tmp_path, run="s: touch begun; sleep 600", reset="r: touch reset; readlink /proc/self/ns/net >where")
    process = begun_in(tmp_path, [*argv[:3], "--map", "here=lab:three-node/source"])  # steps run where dutlab was started
    process.kill()
    process.communicate()
    (run,) = tmp_path.glob("runs/*")
    named = dutlab("undo", str(run))
    assert named.returncode == 0, named.stderr
    assert "  here: " in named.stdout
    (label,) = re.findall(r"^lab (\S+) is kept for that; `dutlab lab down \1` takes it down without Reset$", named.stdout, re.MULTILINE)
    assert not (tmp_path / "reset").exists()
    done = dutlab("undo", str(run), "--reset")
    assert re.fullmatch(rf"reset: here: .* ended with 0\nlab {label} taken down\n", done.stdout), done
    assert (tmp_path / "reset").exists()
    assert (tmp_path / "where").read_text() != f"{Path('/proc/self/ns/net').readlink()}\n"
    assert dutlab("undo", str(run)).stdout == "nothing to undo\n"


def test_after_a_kill_what_was_to_be_reset_in_a_lab_is_gone_with_it(dutlab, tmp_path):
    argv = one_host(tmp_path, run="s: touch begun; sleep 600", reset="r: touch reset")
    process = begun_in(tmp_path, [*argv[:3], "--map", "here=lab:three-node/source"])
    process.kill()
    process.communicate()
    (run,) = tmp_path.glob("runs/*")
    (label,) = re.findall(r"lab (\S+) is kept", dutlab("undo", str(run)).stdout)
    assert dutlab("lab", "down", label).returncode == 0
    assert dutlab("undo", str(run), "--reset").stdout == "nothing to undo\n"
    assert not (tmp_path / "reset").exists()


def test_a_test_of_no_trials_runs_nothing_and_a_step_that_its_time_out_ends_is_no_failure(dutlab, tmp_path):
    argv = one_host(tmp_path, run="timeout1: sleep 600")
    done = dutlab(*argv, "-o", "c.txt")
    assert done.returncode == 0, done.stderr
    assert "Code: 1, Message: Command timed out after 1 seconds\n" in (tmp_path / "c.txt").read_text()
    (tmp_path / "t.cfg").write_text("[Test]\ntrials: 0\n[Workers]\nhere: h.cfg\n")
    done = dutlab(*argv, "-f", "json", "-o", "c.json")
    assert (done.returncode, done.stdout) == (0, "0 trials: nothing to run\n")
    assert json.loads((tmp_path / "c.json").read_text())["trials"] == []


@pytest.mark.parametrize(
    ("maps", "said"),
    [
        (["source=x", "sink=x"], "source and sink are all mapped to x"),
        (["source=sink"], "source and sink are all mapped to sink"),
        (["sauce=source"], "--map names sauce, which the file does not"),
        (["source=dut", "source=sink"], "--map source is a duplicate"),
    ],
)
def test_a_map_that_would_lose_steps_is_refused(dutlab, tmp_path, maps, said):
    done = dutlab("conductor", "convert", str(EXAMPLE / "conductor.cfg"), *[w for m in maps for w in ("--map", m)])
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert done.stdout == ""


def test_hosts_that_the_lab_does_not_have_are_named_when_converted(dutlab, tmp_path):
    one_host(tmp_path, run="s: true")
    done = dutlab("conductor", "convert", "t.cfg")
    assert done.returncode == 0, done.stderr
    assert "has no host here: map them" in done.stderr


def test_players_are_reached_at_the_addresses_of_their_files(dutlab, tmp_path):
    one_host(tmp_path, run="s: true")
    (tmp_path / "h.cfg").write_text((tmp_path / "h.cfg").read_text().replace("player: x", "player: 127.0.0.1:1"))
    done = dutlab("conductor", "run", "t.cfg", "--players", "ssh:nobody@")
    assert done.returncode == 3, done.stderr
    assert "127.0.0.1" in done.stderr
    wrong = dutlab("conductor", "run", "t.cfg", "--players", "root")
    assert "give ssh: or ssh:USER@" in wrong.stderr


def test_hosts_that_are_not_mapped_are_all_named_with_the_option_to_add(dutlab, tmp_path):
    done = dutlab("conductor", "run", str(EXAMPLE / "conductor.cfg"))
    assert done.returncode == 2, done.stderr
    assert all(f"--map {name}=HOST" in done.stderr for name in ("source", "dut", "sink"))
    assert not (tmp_path / "runs").exists()


def test_what_is_converted_loads_and_can_be_planned(dutlab, tmp_path):
    done = dutlab("conductor", "convert", str(EXAMPLE / "conductor.cfg"), "-o", "e.yaml")
    assert done.returncode == 0, done.stderr
    planned = dutlab("plan", "e.yaml", "--json")
    assert planned.returncode == 0, planned.stderr
    assert [t["cell"]["setting"]["kind"] for t in json.loads(planned.stdout)["trials"]] == ["steps", "steps"]
