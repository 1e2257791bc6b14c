"""The boundary of all readers: what is damaged is named, is not a traceback and no hang, and hinders no other run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from click.testing import CliRunner

from dutlab import bounds, outside
from dutlab.cli.main import dutlab
from dutlab.errors import DutlabError, InputError, StoreError
from dutlab.methods.ports import Measured
from dutlab.outside import Unfit, UnfitFile
from dutlab.runner import recovery
from dutlab.runner.journal import Journal, read_journal
from dutlab.store.ask import ask
from dutlab.store.index import Wanted as Listed
from dutlab.store.index import list_runs, opened
from dutlab.store.manifest import MANIFEST
from dutlab.store.names import trial_of
from dutlab.store.read import read_json, reading
from dutlab.store.record import measured_fields
from dutlab.store.run_folder import RunFolder
from processes import LIMIT_S
from run_records import new_run

GOOD = "2026-11-22T0801Z-firewall-modes-77c0"


@pytest.fixture
def runs(built, tmp_path):
    """Two runs, the first of which is to be damaged."""
    made = built(repeats=1, seconds=2, sizes=(64,), modes={"router": "router", "nat": "nat"}, cores=0)
    for name in (made.name, GOOD):
        shutil.copytree(made, tmp_path / "runs" / name)
    return tmp_path / "runs"


def damaged(runs):
    return min(runs.glob("2026-*"))


def change(path, **changed):
    document = json.loads(path.read_text())
    path.unlink()
    path.write_text(json.dumps({**document, **changed}))


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def a_folder(path):
    path.unlink()
    path.mkdir()


def repeat_of(number):
    return lambda path: path.write_text(path.read_text().replace('"repeat": 1', f'"repeat": {number}'))


HARMS = {
    "deep": lambda path: path.write_text("[" * 200_000 + "]" * 200_000),
    "another number": lambda path: change(path, trial=7),
    "no zone": lambda path: change(path, started="2026-11-21T08:01:00"),
    "not finite": lambda path: change(path, figures={"a": {"received_pps": float("nan")}}),
    "too large": repeat_of(10**400),
    "beyond SQLite": repeat_of(2**63),
    "a pipe": a_pipe,
    "a folder": a_folder,
}


def test_a_damaged_record_is_a_fault_of_its_run_alone(runs):
    whole = damaged(runs)
    for name, harm in HARMS.items():
        harm(shutil.copytree(whole, runs / name) / "trials" / "0001" / "record.json")
    with opened(runs) as index:
        found = {line.name: line.status for line in list_runs(index, Listed())}
        trials = dict(ask(index, runs, "SELECT run, count(*) FROM trials GROUP BY run").rows)
    no_file = {"a pipe", "a folder"}  # a trial without a record
    assert found == {name: "damaged" for name in HARMS if name not in no_file} | dict.fromkeys({whole.name, GOOD} | no_file, "finished")
    assert trials[whole.name] == trials[GOOD] == 8


def test_a_folder_that_no_trial_has_is_no_trial(runs):
    run = RunFolder.open(damaged(runs))
    before = run.finished()
    for name in ("0000", "00001", "99999999999999999999", "١٢٣٤", "12", "0001.cut-1"):
        shutil.copytree(run.path / "trials" / "0001", run.path / "trials" / name)
        assert trial_of(name) is None
    assert run.finished() == before


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "[1e999]", "9" * 5000, "[" * 200_000, "\x00", ""])
def test_what_is_no_json_is_named(tmp_path, text):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(StoreError, match=r"plan\.json"):
        read_json(path)


def said(*args):
    """What a command says; that it fails is told in words."""
    done = CliRunner().invoke(dutlab, [str(word) for word in args])
    assert done.exception is None or isinstance(done.exception, SystemExit | DutlabError), (args, done.exception)
    return done


def test_a_plan_without_anything_and_a_resolved_file_without_a_testbed_are_faults_in_words(runs):
    for name in ("plan.json", "resolved.json"):
        path = damaged(runs) / name
        path.unlink()
        path.write_text("{}")
    with pytest.raises(InputError, match="on a testbed"):
        recovery.testbed_in(RunFolder.open(damaged(runs)))
    for command in ("report", "resume", "undo", "cost"):
        said(command, damaged(runs))


def test_a_journal_that_is_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "journal.jsonl")
    with pytest.raises(StoreError, match=r"journal\.jsonl"):
        Journal(tmp_path / "journal.jsonl")
    with pytest.raises(UnfitFile):
        read_journal(tmp_path / "journal.jsonl")


def test_a_link_in_the_place_of_a_file_of_a_run_is_not_read(runs, tmp_path):
    for name in ("plan.json", "trials/0001/record.json", MANIFEST):
        run = shutil.copytree(damaged(runs), tmp_path / name.replace("/", "-"))
        (run / name).replace(tmp_path / "copy")
        (run / name).symlink_to(tmp_path / "copy")
        with pytest.raises(UnfitFile) as refused:
            outside.read(run / name, bounds.PLAN)
        assert (refused.value.path, refused.value.kind) == (run / name, Unfit.LINK)


def test_a_run_with_a_pipe_in_it_differs_from_its_manifest(runs):
    a_pipe(damaged(runs) / "experiment.yaml")
    assert RunFolder.open(damaged(runs)).verify_manifest().changed == ("experiment.yaml",)


def test_the_boundary_names_the_run_and_keeps_our_own_words(tmp_path):
    with pytest.raises(StoreError, match=r"KeyError: 'x'"), reading(tmp_path):
        {}["x"]
    with pytest.raises(InputError, match="ours"), reading(tmp_path):
        raise InputError("ours")


def test_a_figure_that_is_no_number_is_left_out_before_it_can_spoil_a_record():
    fields = measured_fields(
        Measured(figures={"a": {"received_pps": float("nan"), "loss_ratio": 0.0}}, tables={"t": ({"at_s": float("inf")},)})
    )
    assert fields["figures"] == {"a": {"loss_ratio": 0.0}}
    assert fields["tables"] == {"t": [{"at_s": None}]}


def test_temporary_files_of_killed_writers_are_never_in_a_manifest_and_go_with_the_next(runs):
    left = [damaged(runs) / ".MANIFEST.sha256.4711.part", damaged(runs) / "trials" / "0001" / ".record.json.4711.part"]
    for path in left:
        path.write_text("half")
    run = RunFolder.open(damaged(runs))
    assert run.verify_manifest().none
    run.write_manifest()
    assert not any(path.exists() for path in left)


def test_half_made_runs_of_killed_writers_are_swept_and_those_of_living_ones_stay(tmp_path):
    dead, living = tmp_path / ".2026-11-21T0801Z-x-3f2a.999999999.part", tmp_path / f".2026-11-21T0801Z-x-77c0.{os.getpid()}.part"
    for folder in (dead, living):
        folder.mkdir()
    new_run(tmp_path)
    assert not dead.exists() and living.exists()


@pytest.fixture
def reported(python, python_env, tmp_path, runs):
    """`dutlab report` as a program of its own, after words of the shell."""

    def run(before):
        words = ["sh", "-c", f'{before} exec "$@"', "sh", python, "-m", "dutlab", "report", str(damaged(runs)), "--format", "md"]
        return subprocess.run(words, cwd=tmp_path, env=python_env, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    return run


@pytest.mark.parametrize("closed", ["exec 2>&-;", "exec >&- 2>&- <&-;"])
def test_a_closed_standard_error_or_output_ends_nothing(reported, closed):
    assert (done := reported(closed)).returncode == 0, done.stderr


@pytest.mark.parametrize("kilobytes", [120_000, 250_000])
def test_too_little_memory_is_said_without_a_traceback(reported, kilobytes):
    done = reported(f"ulimit -v {kilobytes};")
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0 or done.stderr.strip()


def test_folders_whose_names_are_not_utf8_are_no_obstacle(tmp_path, runs):
    odd = os.fsencode(tmp_path) + b"/caf\xe9"
    shutil.copytree(os.fsencode(runs), odd)
    shutil.copytree(os.fsencode(damaged(runs)), odd + b"/run-\xff")
    folder, run = os.fsdecode(odd), os.fsdecode(odd + b"/run-\xff")
    for command in (("runs", "--runs", folder), ("query", "SELECT * FROM runs", "--runs", folder), ("report", run), ("compare", run)):
        assert said(*command).exit_code == 0, command
