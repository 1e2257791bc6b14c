"""What ended a spawned step: a later step that was there to end it is no failure; anything else before the reset is one."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from dutlab.events import Event
from dutlab.hosts.local import LocalHost
from dutlab.runner.command_book import CommandBook
from dutlab.runner.steps_run import StepsWork, run_steps
from dutlab.spec.workloads.steps import StepsWorkload
from dutlab.tools.steps.account import Account, StepDone
from dutlab.tools.steps.steps import Steps

GONE = "until [ -e gone ]; do sleep 0.02; done; sleep 0.5"


async def spawned(folder: Path, spawn: str, later: str, on: str = "here") -> StepDone:
    """The spawned step on `here`, after a step `later` that begins once the file `ready` is there and `spawn` has told it."""
    wait = "until [ -e ready ]; do sleep 0.02; done"
    phases = {"run": {"here": [{"spawn": spawn}], "there": [wait]}, "collect": {on: [later]}, "reset": {"there": ["true"]}}
    hosts = {name: LocalHost(name) for name in ("here", "there")}
    account = Account()
    await Steps(hosts, directories=dict.fromkeys(hosts, str(folder))).carry_out(StepsWorkload.model_validate(phases), account)
    for host in hosts.values():
        await host.close()
    (step,) = (done for done in account.done if done.step.spawn is not None)
    return step


@pytest.mark.parametrize("status", ["exit 1", "exit 0"])
async def test_a_later_step_that_kills_by_number_ends_it(status: str, tmp_path: Path) -> None:
    spawn = f"trap '{status}' TERM; echo $$ >pid; touch ready; while :; do sleep 0.02; done"
    step = await spawned(tmp_path, spawn, "kill $(cat pid); while kill -0 $(cat pid) 2>/dev/null; do sleep 0.02; done; sleep 0.5")
    assert (step.failed, step.end, step.status) == (False, "step", None)


async def test_a_later_step_that_names_the_program_ends_it(tmp_path: Path) -> None:
    shutil.copy(shutil.which("sleep") or "/bin/sleep", tmp_path / "dutlab-sleeper")
    step = await spawned(
        tmp_path,
        f"nice -n 1 {tmp_path}/dutlab-sleeper 600 & touch ready; wait $!",
        f"pkill -f ^{tmp_path}/dutlab-sleeper; while pgrep -f ^{tmp_path}/dutlab-sleeper >/dev/null; do sleep 0.02; done; sleep 0.5",
    )
    assert (step.failed, step.end) == (False, "step")


@pytest.mark.parametrize(
    ("spawn", "later", "on"),
    [
        ("touch ready gone; exit 3", f"{GONE}; kill -0 $$", "there"),  # on another host
        (
            "touch ready; until [ -e later ]; do sleep 0.02; done; touch gone; exit 3",
            f"touch later; {GONE}",
            "here",
        ),  # a step that ends nothing
        (
            "touch ready; until [ -e later ]; do sleep 0.02; done; touch gone; exit 3",
            f"touch later; pkill -x dutlab-nothing; {GONE}",
            "here",
        ),  # one that ends another program
    ],
)
async def test_one_that_ends_by_itself_has_failed(spawn: str, later: str, on: str, tmp_path: Path) -> None:
    step = await spawned(tmp_path, spawn, later, on)
    assert (step.failed, step.end, step.status) == (True, "", 3)


@pytest.mark.parametrize(
    ("command", "failed"),
    [
        ("killall dutlab-nothing", False),
        ("pkill -x dutlab-nothing", False),
        ("true; killall dutlab-nothing", False),
        ("killall dutlab-nothing; false", True),
        ("pkill", True),  # its usage
        ("false", True),
    ],
)
async def test_a_step_that_was_to_end_what_is_not_there_has_not_failed(command: str, failed: bool) -> None:
    account, host = Account(), LocalHost("here")
    await Steps({"here": host}).carry_out(StepsWorkload.model_validate({"reset": {"here": [command]}}), account)
    await host.close()
    ((status, has_failed),) = [(done.status, done.failed) for done in account.done]
    assert (bool(status), has_failed) == (True, failed)


# ---- A conducted run that does not come to its end: what its folder says


class Heard:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.begun = asyncio.Event()

    def hear(self, event: Event) -> None:
        self.events.append(event)
        if event.event == "trial-begun":
            self.begun.set()

    async def ask(self, question: str) -> str:
        raise AssertionError(question)


async def test_a_conducted_run_that_is_interrupted_ends_its_events_and_keeps_its_trial(tmp_path: Path) -> None:
    work = StepsWorkload.model_validate({"run": {"here": ["sleep 600"]}})
    host, heard = LocalHost("here"), Heard()
    what = StepsWork("cut", work, 3, b"# cut\n", {})
    running = asyncio.ensure_future(run_steps(what, {"here": host}, CommandBook(), heard, runs=tmp_path, done=[]))
    await heard.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await host.close()
    (run,) = tmp_path.iterdir()
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert (events[-1]["event"], events[-1]["status"]) == ("run-ended", "cut")
    assert [e["event"] for e in events].count("trial-ended") == 1
    assert len(list(run.glob("trials/*/record.json"))) == 1
    journal = [json.loads(line)["event"] for line in (run / "journal.jsonl").read_text().splitlines()]
    assert journal[0] == "leasing"
    assert journal[1:] == ["steps-begun", "trial-started", "trial-finished", "steps-ended", "lease-ended"]
