"""Finished runs of the lab three-node whose rates a test chooses, with the outputs that the rates follow from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dutlab.doubts import Doubt, DoubtKind
from dutlab.runner.execution import RunOptions
from dutlab.runner.run import Work
from dutlab.spec.loader import given_experiment
from dutlab.store.record import DoubtRecord, TrialRecord
from raw_outputs import iperf3

BEGAN = datetime(2026, 11, 21, 8, tzinfo=UTC)
GBPS = {"router": (9.31, 9.35, 9.28, 9.33), "nat": (6.12, 6.1, 6.15, 6.11)}
"""Mode → rate of each repeat."""
TEXT = """\
experiment: lab-run
testbed: {{lab: three-node}}
factors: {{mode: [{modes}]}}
workloads:
{loads}
repeats: {repeats}
seed: {seed}
"""


def lab_run(
    runs: Path, gbps: Mapping[str, Sequence[float | None]] = GBPS, *, processor: str = "Xeon", after: timedelta = timedelta(0), seed: int = 7,
    disturbed: bool = False, streams: Sequence[int] = (4,), **beside: Any,
) -> Path:  # fmt: skip
    """The run's folder. None is a trial without a result; `beside` is added to resolved.json. With one stream less rates are a tenth lower."""
    loads = "\n".join(f"  - iperf3: {{duration: 30s, streams: {n}, links: [[a]]}}" for n in streams)
    text = TEXT.format(modes=", ".join(gbps), loads=loads, repeats=len(next(iter(gbps.values()))), seed=seed).encode()
    work = Work.planned(given_experiment(text, runs / "e.yaml"), unattended=True)
    options = RunOptions(runs=runs, engine_binary=Path("none"), command=("dutlab", "run", "e.yaml"))
    run = work.new_folder(options, now=BEGAN + after, additions=beside)
    for host in ("source", "dut", "sink"):
        run.write_host(host, {"cpu": {"model": processor, "cores": 4}, "versions": {"iperf3": "iperf 3.12"}})
    doubts = [DoubtRecord.of(Doubt(DoubtKind.DISTURBED, "by 9 %"))] if disturbed else []
    for trial in work.plan.trials:
        at, rate = BEGAN + after + timedelta(minutes=trial.number), gbps[trial.cell.mode][trial.cell.repeat - 1]
        usual: dict[str, Any] = {"trial": trial.number, "cell": trial.cell, "started": at, "ended": at + timedelta(seconds=40)}
        if rate is None:
            run.write_trial(TrialRecord(**usual, status="failed", why="the link went down", figures={}), {})
            continue
        bps = round(rate * (1000 if trial.cell.params["streams"] == streams[0] else 900)) * 1e6
        made = TrialRecord(**usual, status="measured", figures={"a": {"goodput_bps": bps}}, tool_facts={"iperf3": "3.12"}, doubts=doubts)
        run.write_trial(made, {"iperf3-a-client.json": iperf3(bps)})
    run.write_manifest()
    return run.path
