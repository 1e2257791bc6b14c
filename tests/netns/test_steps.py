"""Steps on real hosts: barriers, ends, what is kept; and Conductor's files through the command line."""

from __future__ import annotations

import asyncio
import json
import os
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
from dutlab.tools.steps import Account, Steps
from processes import eventually, running_with

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


async def test_a_step_that_never_ends_is_ended_by_its_time_out_with_all_that_it_had_said_and_the_reset_follows():
    marker = f"dutlab-steps-{os.getpid()}"
    steps = {"a": [{"run": f"echo before; sleep 600 # {marker}", "timeout": 0.5}, "echo next"]}
    account = await done_by({"a": LocalHost("a")}, work(run=steps, reset={"a": ["echo reset"]}))
    said = by_command(account)
    assert said[f"echo before; sleep 600 # {marker}"].stdout == b"before\n"
    assert said[f"echo before; sleep 600 # {marker}"].why == "did not end within 0.5 s and was ended"
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


async def test_a_cancelled_trial_is_reset_and_keeps_what_it_did():
    account, host = Account(), LocalHost("a")
    steps = work(startup={"a": ["echo one"]}, run={"a": ["sleep 600"]}, reset={"a": ["echo reset"]})
    task = asyncio.ensure_future(Steps({"a": host}).carry_out(steps, account))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await host.close()
    assert {"echo one", "echo reset"} <= set(by_command(account))


async def test_megabytes_and_binary_output_are_kept_as_they_are():
    host = LocalHost("a")
    account = await done_by({"a": host}, work(run={"a": ["head -c 5000000 /dev/zero; printf '\\377\\000'"]}))
    assert account.done[0].stdout == b"\0" * 5_000_000 + b"\xff\0"


async def test_a_host_that_is_not_there_is_refused_before_anything_runs():
    with pytest.raises(InputError, match="no host b"):
        await done_by({"a": LocalHost("a")}, work(startup={"a": ["echo a"]}, run={"b": ["echo b"]}))


async def test_a_machine_of_a_lab_sees_its_own_processes_only(namespace):
    outside = subprocess.Popen(["sleep", "30"])
    try:
        machine = await NetnsMachine.open("m", namespace)

        async def seen() -> list[str]:
            return (await machine.run(["ps", "-e", "-o", "comm="])).text.split()

        others = await seen()
        await machine.spawn(["sleep", "31"])
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


def dutlab(*argv, cwd):
    command = [sys.executable, "-c", "from dutlab.cli.main import main; main()", *map(str, argv)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


def test_the_example_runs_in_a_lab_and_leaves_a_run_and_the_originals_report(tmp_path):
    need_program("iperf3")
    before = time.time()
    done = dutlab("conductor", "run", EXAMPLE / "conductor.cfg", "--translate", "-t", 1, *MAPS, "-f", "json", "-o", "c.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (record,) = (json.loads(p.read_text()) for p in tmp_path.glob("runs/*/trials/*/record.json"))
    steps = {(r["host"], r["phase"], r["step"]): r for r in record["tables"]["steps"]}
    assert steps["source", "run", "timeout30"]["status"] == 0
    assert steps["sink", "run", "spawn0"]["command"].startswith("taskset -c 0,1 iperf3 -s")
    assert "raw/source/run/02.out" in record["raw"]
    assert record["figures"]["all hosts"]["failed_steps"] == 0
    (report,) = tmp_path.glob("runs/*/report/report.md")
    assert "- Every step did what it was asked for." in report.read_text().splitlines()
    theirs = json.loads((tmp_path / "c.json").read_text())
    assert theirs["metadata"]["total_workers"] == 3
    assert datetime_seconds(theirs["metadata"]["start_time"]) >= before - 1


def datetime_seconds(text):
    from datetime import datetime  # noqa: PLC0415

    return datetime.fromisoformat(text).timestamp()


def test_without_translation_the_failed_server_is_told_and_the_exit_says_so(tmp_path):
    for name in ("conductor.cfg", "source.cfg", "dut.cfg", "sink.cfg"):
        text = (
            (EXAMPLE / name)
            .read_text()
            .replace("sleep 5", "sleep 0.3")
            .replace("-P 2 -t 3", "-t 1 --connect-timeout 300")
            .replace("sleep 1", "true")
        )
        (tmp_path / name).write_text(text)
    done = dutlab("conductor", "run", "conductor.cfg", "-t", 1, *MAPS, cwd=tmp_path)
    assert done.returncode == 1
    (record,) = (json.loads(p.read_text()) for p in tmp_path.glob("runs/*/trials/*/record.json"))
    assert any("cpuset" in note for note in record["notes"])
    assert record["status"] == "failed"


def test_hosts_that_are_not_mapped_are_all_named_with_the_option_to_add(tmp_path):
    done = dutlab("conductor", "run", EXAMPLE / "conductor.cfg", cwd=tmp_path)
    assert done.returncode == 2
    assert all(f"--map {name}=HOST" in done.stderr for name in ("source", "dut", "sink"))
    assert not (tmp_path / "runs").exists()


def test_what_is_converted_loads_and_can_be_planned(tmp_path):
    done = dutlab("conductor", "convert", EXAMPLE / "conductor.cfg", "-o", "e.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    planned = dutlab("plan", "e.yaml", "--json", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert [t["cell"]["workload"] for t in json.loads(planned.stdout)["trials"]] == ["steps", "steps"]
