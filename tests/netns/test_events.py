"""Events of real runs: what a lab's run tells while it goes, and that a closed run has them in its manifest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dutlab.events import EVENTS, Reading, RunEnded, TrialEnded, events_in
from dutlab.runner.execution import RunOptions
from dutlab.runner.run import resume, run
from dutlab.spec.loader import read_experiment
from dutlab.store.run_folder import RunFolder
from dutlab.tools.engine.binary import find_engine
from run_events import Kept

pytestmark = [pytest.mark.timing, pytest.mark.usefixtures("cheap_rig")]

EXPERIMENT = """\
experiment: told
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - sweep: {frame_sizes: [512], rates: [1kpps], duration: 4s, links: [[a]]}
repeats: 1
disturbed: count
watch: [cpu]
"""


async def test_a_run_tells_what_happens_second_by_second_and_closes_with_it(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    options = RunOptions(runs=tmp_path / "runs", engine_binary=find_engine(), command=tuple(sys.argv[:1]), unattended=True)
    kept = Kept()
    result = await run(read_experiment(tmp_path / "e.yaml"), options, kept)
    assert list(events_in(result.folder / EVENTS)) == kept.events, "the same to whoever looks on and in the folder"
    kinds = [e.event for e in kept.events if e.event not in ("note", "reading", "doubt", "preparing")]
    assert kinds == ["run-begun", "mode-applying", "mode-verified", "trial-begun", "trial-ended", "run-ended"]
    readings = [e for e in kept.events if isinstance(e, Reading)]
    of = {who: [r for r in readings if r.who == who] for who in ("cpu", "dutlab-engine")}
    assert len(of["cpu"]) >= 2
    assert {r.where for r in of["cpu"]} == {"dut"}
    assert len(of["dutlab-engine"]) >= 2
    assert {r.where for r in of["dutlab-engine"]} == {"a"}
    assert all(0 <= value <= 2000 for r in of["dutlab-engine"] for value in r.values.values())
    (ended,) = (e for e in kept.events if isinstance(e, TrialEnded))
    assert ended.status == "measured"
    assert ended.figures[ended.main]["received_pps"] > 0
    assert isinstance(kept.events[-1], RunEnded)
    assert kept.events[-1].measured == 1

    folder = RunFolder.open(result.folder)
    assert EVENTS in (folder.path / "MANIFEST.sha256").read_text()
    assert folder.verify_manifest().none
    size = (folder.path / EVENTS).stat().st_size
    await resume(folder.path, options, Kept())
    assert (folder.path / EVENTS).stat().st_size == size, "nothing is added to a run that is closed"
    assert folder.verify_manifest().none
