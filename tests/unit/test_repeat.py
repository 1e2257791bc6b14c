"""`dutlab repeat`: an old run's work as it was, what differs here, and nothing of a stranger's run without being asked."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dutlab.cli import loop
from dutlab.cli import repeat as cli
from dutlab.errors import DutlabError, InputError
from dutlab.plan.plan import Plan
from dutlab.runner.execution import RunOptions
from dutlab.runner.repeat import to_repeat
from dutlab.runner.run import Work
from dutlab.runner.trust import NotOurs
from dutlab.spec.loader import given_experiment, given_testbed
from dutlab.store.run_folder import RunFolder

ROOT = Path(__file__).parents[2]
TEXT = b"""\
experiment: student
testbed: bed.yaml
factors: {mode: [router]}
workloads:
  - iperf3: {duration: 1s}
  - iperf3: {duration: 2s}
repeats: 4
"""
BED = (ROOT / "examples" / "testbeds" / "e302-9d.yaml").read_bytes()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of this user on a real testbed, without trials."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("DUTLAB_DISTURBED", raising=False)
    (tmp_path / "bed.yaml").write_bytes(BED)
    given = given_experiment(TEXT, tmp_path / "e.yaml", ["repeats=3"])
    options = RunOptions(runs=tmp_path / "runs", engine_binary=Path("none"), command=("dutlab", "run", "e.yaml"))
    return Work.planned(given, unattended=False).new_folder(options)


@pytest.fixture
def strangers(run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """The same for somebody with another key."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other-state"))
    return run


def test_the_work_is_the_runs_own_order_seed_testbed_and_files(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "bed.yaml").unlink()
    work = to_repeat(run.path, testbed=None, trusted=False)
    assert work.plan == Plan.from_json(run.plan)
    assert (work.experiment.repeats, work.experiment_yaml, work.testbed_yaml) == (3, TEXT, BED)
    assert work.testbed.model_dump(mode="json") == run.resolved["testbed"]


def test_on_another_testbed_the_seed_and_so_the_order_stay(run: RunFolder, tmp_path: Path) -> None:
    text = BED.replace(b"testbed: e302-9d", b"testbed: other")
    work = to_repeat(run.path, testbed=(given_testbed(text, tmp_path / "other.yaml"), text), trusted=False)
    plan = Plan.from_json(run.plan)
    assert (work.testbed.name, work.plan.seed, work.testbed_yaml) == ("other", plan.seed, text)
    assert [t.cell for t in work.plan.trials] == [t.cell for t in plan.trials]


def test_a_testbed_without_the_runs_links_is_refused(run: RunFolder, tmp_path: Path) -> None:
    bed = given_testbed(BED, tmp_path / "bed.yaml")
    less = bed.model_copy(update={"name": "less", "links": {"z": next(iter(bed.links.values()))}})
    with pytest.raises(InputError, match=r"testbed less .*link a, b"):
        to_repeat(run.path, testbed=(less, BED), trusted=False)


def test_a_run_that_was_changed_since_it_ended_is_refused(run: RunFolder) -> None:
    run.write_manifest()
    to_repeat(run.path, testbed=None, trusted=False)
    (run.path / "experiment.yaml").write_bytes(b"changed")
    with pytest.raises(InputError, match=r"changed: experiment\.yaml"):
        to_repeat(run.path, testbed=None, trusted=True)


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_strangers_run_shows_what_it_holds_and_no_host_of_it_is_reached(strangers, monkeypatch, more) -> None:
    monkeypatch.setattr(loop, "run_in_order", lambda _: pytest.fail("nothing may be begun"))
    done = CliRunner().invoke(cli.repeat, [str(strangers.path), *more])
    assert isinstance(done.exception, NotOurs)
    assert "experiment factors.mode.0: router" in done.output and "testbed links.a.path.0" in done.output


def test_a_strangers_run_that_is_trusted_is_carried_out_in_its_order(strangers, tmp_path, monkeypatch) -> None:
    begun = list[tuple[Work, str]]()

    def again(work: Work, run: str, *_: object) -> Any:
        begun.append((work, run))
        raise InputError("enough")

    async def differing(*_: object) -> list[str]:
        return ["differs here:"]

    monkeypatch.setattr(cli, "_again", again)
    monkeypatch.setattr(cli, "_differing", differing)
    assert CliRunner().invoke(cli.repeat, [str(strangers.path), "--trust"]).output == "differs here:\n"
    assert [(work.plan, name) for work, name in begun] == [(Plan.from_json(strangers.plan), strangers.name)]


def test_what_differs_here_is_listed_once_and_nothing_is_measured(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    then = {"kernel": {"release": "5.4.0"}, "cpu": {"model": "Xeon D-2123IT", "cores": 4}, "versions": {"iperf3": "3.7"},
            "interfaces": {"ix0": {"driver": "ix", "firmware": "1"}}, "neighbours": {"ix0": []}}  # fmt: skip
    here = {**then, "kernel": {"release": "6.1.0"}, "versions": {"iperf3": "3.12", "vpp": None}, "neighbours": {"ix0": [1]}}
    for name in ("source", "dut"):
        run.write_host(name, then)
    run.write_host("dut", {"kernel": {"release": "of a resumed run"}})

    async def now(*_: object) -> dict[str, Any]:
        return {"source": here, "dut": {**here, "interfaces": {"ix0": {"driver": "ix", "firmware": "2"}}}}

    monkeypatch.setattr(cli, "_facts_now", now)
    monkeypatch.setattr(cli, "_again", lambda *_: pytest.fail("--dry-run measures nothing"))
    done = CliRunner().invoke(cli.repeat, [str(run.path), "--dry-run"])
    rows = [tuple(line.split()) for line in done.output.splitlines()[2:] if "─" not in line]
    assert ("kernel.release", "5.4.0", "6.1.0") in rows and ("versions.iperf3", "3.7", "3.12") in rows
    assert ("dut:", "interfaces.ix0.firmware", "1", "2") in rows
    assert len(rows) == 3


def test_what_no_run_made_is_refused(run: RunFolder, tmp_path: Path) -> None:
    torn = Path(shutil.copytree(run.path, tmp_path / "torn"))
    for resolved in ({}, {"experiment": {"name": "x"}, "testbed": run.resolved["testbed"]}):
        (torn / "resolved.json").write_text(json.dumps(resolved))
        with pytest.raises(DutlabError, match=re.escape(torn.name)):
            to_repeat(torn, testbed=None, trusted=True)
