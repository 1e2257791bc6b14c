"""A trial that is set aside counts no more for the rule that says how many repeats are needed, whatever it is set aside for."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dutlab.runner.attempts import Attempts
from dutlab.runner.execution import RunOptions
from dutlab.runner.journal import Journal
from dutlab.runner.records import TrialOutput
from dutlab.runner.run import Work
from dutlab.spec.loader import given_experiment
from dutlab.store.record import TrialRecord

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
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for trial in work.plan.trials[:ENOUGH]:
        figures = {"a": {"offered_pps": 2000.0, "received_pps": 1000.0 + trial.number % 2}}
        folder.write_trial(TrialRecord(trial=trial.number, status="measured", cell=trial.cell, started=at, ended=at, figures=figures), {})
    assert execution.records.left() == []
    yield execution
    execution.journal.close()


def test_trials_that_were_needless_are_needed_again_once_the_mode_of_one_before_was_lost(execution):
    again = execution.records.void([execution.plan.trials[2]], "mode router is not in force", None)
    assert [t.number for t in again] == [3]
    assert [t.number for t in execution.records.left()] == [3, *range(ENOUGH + 1, 11)]


def test_trials_that_were_needless_are_needed_again_once_one_before_proves_to_have_been_disturbed(execution, monkeypatch):
    monkeypatch.setattr(Attempts, "disturbed_in_hindsight", lambda *_: {3: "other work took the CPU"})
    assert [t.number for t in execution.records.disturbed_in_hindsight()] == [3]
    assert [t.number for t in execution.records.left()] == [3, *range(ENOUGH + 1, 11)]


def test_what_a_host_said_last_is_kept_with_the_trial_that_waited_where_none_had_begun(execution):
    (waits,) = execution.records.void([execution.plan.trials[2]], "mode router is not in force", None)
    at = datetime(2026, 1, 1, tzinfo=UTC)

    def made(trial, why):
        record = TrialRecord(trial=trial.number, status="failed", why=why, cell=trial.cell, started=at, ended=at, figures={})
        return TrialOutput(record, {"console-dut.txt": b"Kernel panic"}, [])

    assert execution.records.void_lost("dut: its kernel has ended", execution.plan.trials, made) == waits
    (console,) = execution.folder.path.glob("trials/0003.host-lost-*/raw/console-dut.txt")
    assert console.read_bytes() == b"Kernel panic"
    assert execution.records.left()[0] == waits
