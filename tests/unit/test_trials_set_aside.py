"""A trial that is set aside counts no more for the rule that says how many repeats are needed, whatever it is set aside for."""

import asyncio
import shutil
from pathlib import Path

import pytest

from dutlab.errors import TestbedError
from dutlab.hosts.host import Done
from dutlab.runner.attempts import Attempts
from dutlab.runner.command_book import CommandBook
from dutlab.runner.execution import RunOptions
from dutlab.runner.into_mode import unless_killed
from dutlab.runner.journal import Journal
from dutlab.runner.records import MOST_KILLED, TrialOutput
from dutlab.runner.run import Work, resumable_work
from dutlab.spec.loader import given_experiment
from run_records import trial_record

FILE = b"""\
experiment: x
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - sweep: {frame_sizes: [64], links: [[a]]}
repeats: {until: 2%, most: 10}
"""
ENOUGH = 8
"""As few results can end it."""


class Silent:
    """Looks on and says nothing."""

    def hear(self, event):
        pass

    async def ask(self, question):
        raise AssertionError(question)


@pytest.fixture
def execution(tmp_path, monkeypatch):
    """A run whose first trials were so close that the others are needless."""
    monkeypatch.setenv("DUTLAB_DISTURBED", "repeat")
    work = Work.planned(given_experiment(FILE, Path("e.yaml")), unattended=True)
    folder = work.new_folder(RunOptions(runs=tmp_path, engine_binary=Path("/absent"), command=("dutlab",)))
    execution = work.started(folder, Journal(folder.journal), Silent())
    for trial in work.plan.trials[:ENOUGH]:
        folder.write_trial(
            trial_record(trial.number, trial.cell, {"a": {"offered_pps": 2000.0, "received_pps": 1000.0 + trial.number % 2}}), {}
        )
    assert execution.records.left() == []
    yield execution
    execution.journal.close()


def test_trials_that_were_needless_are_needed_again_once_the_mode_of_one_before_was_lost(execution):
    again = execution.records.void([execution.plan.trials[2]], "mode router is not in force", None)
    assert [t.number for t in again] == [3]
    assert [t.number for t in execution.records.left()] == [3, *range(ENOUGH + 1, 11)]


def test_trials_that_were_needless_are_needed_again_once_one_before_proves_to_have_been_disturbed(execution, monkeypatch):
    monkeypatch.setattr(Attempts, "disturbed_within_cell", lambda *_: {3: "other work took the CPU"})
    assert [t.number for t in execution.records.disturbed_within_cell()] == [3]
    assert [t.number for t in execution.records.left()] == [3, *range(ENOUGH + 1, 11)]


def test_what_a_host_said_last_is_kept_with_the_trial_that_waited_where_none_had_begun(execution):
    (waits,) = execution.records.void([execution.plan.trials[2]], "mode router is not in force", None)

    def made(trial, why):
        return TrialOutput(trial_record(trial.number, trial.cell, status="failed", why=why), {"console-dut.txt": b"Kernel panic"}, [])

    assert execution.records.void_lost("dut: its kernel has ended", execution.plan.trials, made) == waits
    (console,) = execution.folder.path.glob("trials/0003.host-lost-*/raw/console-dut.txt")
    assert console.read_bytes() == b"Kernel panic"
    assert execution.records.left()[0] == waits


def killed(execution, trial):
    """A trial whose engine somebody killed."""
    record = trial_record(trial.number, trial.cell, status="failed", why="engine")
    return execution.records.once_more(TrialOutput(record, {}, [], ("source: dutlab-engine",)))


def test_a_trial_whose_engine_is_killed_is_done_again_at_once_and_then_by_each_resume_until_it_is_no_accident(execution, tmp_path):
    trial = execution.plan.trials[2]
    shutil.rmtree(execution.folder.path / "trials" / "0003")
    assert (killed(execution, trial), killed(execution, trial)) == (True, False)
    for _ in range(MOST_KILLED - 1):
        assert execution.records.killed() == {3: "source: dutlab-engine"}
        open_still = execution.result()
        assert (open_still.left, open_still.failed, open_still.exit_status, execution.folder.is_closed) == (1, 0, 1, False)
        execution.records.void_killed()
        assert execution.records.left()[0] == trial
        assert not killed(execution, trial)
    assert execution.records.killed() == {}
    assert (execution.result().failed, execution.folder.is_closed) == (1, True)


def test_a_resume_does_again_what_a_kill_cost(execution):
    trial = execution.plan.trials[2]
    shutil.rmtree(execution.folder.path / "trials" / "0003")
    killed(execution, trial)
    killed(execution, trial)
    execution.journal.close()
    folder, work = resumable_work(execution.folder.path, trusted=True)
    journal = Journal(folder.journal)
    resumed = asyncio.run(work.resumed(folder, journal, Silent()))
    assert resumed.records.left()[0] == trial
    journal.close()


class Killing:
    """A verification during which the engine is killed `times`; what it finds says nothing then."""

    def __init__(self, times):
        self.times, self.book, self.notes, self.looks = times, CommandBook(), [], 0

    async def look(self):
        self.looks += 1
        if self.looks > self.times:
            return ""
        self.book.note(Done("source", ("dutlab-engine", "agent"), -9, b"", b"", 0.0, 0.0))
        return "mode nat: the engine ended"

    async def verified(self):
        return await unless_killed(self.look, str, self.book, self.notes.append)


async def test_a_mode_is_verified_again_where_the_engine_was_killed_meanwhile_and_is_not_refused_for_it():
    once, twice, never = Killing(1), Killing(2), Killing(0)
    assert (await once.verified(), once.looks, len(once.notes)) == ("", 2, 1)
    with pytest.raises(TestbedError):
        await twice.verified()
    assert (await never.verified(), never.looks) == ("", 1)
    refusing = Killing(0)
    refusing.book.note(Done("source", ("iperf3",), -9, b"", b"", 0.0, 0.0))  # before it

    async def fails():
        refusing.looks += 1
        return "mode nat is not in force"

    assert await unless_killed(fails, str, refusing.book, refusing.notes.append) == "mode nat is not in force"
    assert refusing.looks == 1
