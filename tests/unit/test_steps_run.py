"""A conducted run that does not come to its end: what its folder says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from dutlab.events import Event
from dutlab.hosts.local import LocalHost
from dutlab.runner.command_book import CommandBook
from dutlab.runner.steps_run import StepsWork, run_steps
from dutlab.spec.workloads.steps import StepsWorkload


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
