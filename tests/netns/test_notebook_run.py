"""The notebook that runs an experiment, in a real lab; and one that stops looking on leaves nothing behind."""

from __future__ import annotations

import json
from contextlib import aclosing
from pathlib import Path

import pytest
from click.testing import CliRunner

import dutlab
from capability import need_program
from dutlab.cli.publish import publish
from dutlab.interop.metrics import RunMetrics
from dutlab.labs import lab as labs
from notebooks import NOTEBOOKS, cells_run

pytestmark = pytest.mark.usefixtures("cheap_rig")
EXPERIMENT = """
experiment: from-a-notebook
testbed: {lab: three-node}
factors: {mode: [router]}
workloads: [{iperf3: {streams: 1, omit: 0s, duration: 1s, links: [[a]]}}]
repeats: 1
disturbed: count
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    need_program("iperf3")
    (tmp_path / "experiment.yaml").write_text(EXPERIMENT)
    return tmp_path / "experiment.yaml"


async def test_a_notebook_runs_an_experiment_and_reads_its_figures(
    experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPERIMENT", str(experiment))
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    space, shown = await cells_run(NOTEBOOKS / "run-an-experiment.ipynb")
    assert space["measured"].path == next((tmp_path / "runs").glob("20*"))
    ((where, rate),) = shown[-1].items()
    assert where == ("router", "a") and rate > 1e6
    run = space["measured"].path
    done = CliRunner().invoke(publish, [str(run), str(tmp_path / "site"), "--json"], catch_exceptions=False)
    (published,) = json.loads(done.output)["runs"]
    assert published["claims"] and {c["state"] for c in published["claims"]} == {"holds"}  # by iperf3's own output
    assert 'dutlab_run_trials_done{run="' in RunMetrics(run).text()


async def test_who_leaves_the_loop_early_ends_the_run_in_order(experiment: Path, tmp_path: Path) -> None:
    async with aclosing(dutlab.run(experiment, runs=tmp_path / "runs")) as events:
        async for event in events:
            if event.event == "run-begun":
                told = RunMetrics(Path(event.folder))
            if event.event == "trial-begun":
                assert "} 1.0" in next(line for line in told.text().splitlines() if line.startswith("dutlab_run_running{"))
                break
    (run,) = dutlab.runs(tmp_path / "runs")
    assert not run.is_running and not run.trials
    assert {"mode-restored", "lab-down"} <= {json.loads(line)["event"] for line in (run.path / "journal.jsonl").read_text().splitlines()}
    assert labs.standing() == []
