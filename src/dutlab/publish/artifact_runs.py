"""Runs of an artifact in groups, each repeated by one new run: runs of one experiment on one testbed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dutlab.report.questions.sides import ComparedRun, open_run
from dutlab.store.run_folder import RunFolder

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class RunGroup:
    """Runs of one experiment on one testbed, the oldest first."""

    folders: tuple[RunFolder, ...]
    runs: tuple[ComparedRun, ...]

    @property
    def newest(self) -> RunFolder:
        """Run that is repeated, and whose claims are judged."""
        return self.folders[-1]

    @property
    def lab(self) -> str:
        """Name of the embedded lab; empty for machines."""
        testbed = self.newest.resolved.get("testbed")
        return str(testbed.get("lab") or "") if isinstance(testbed, Mapping) else ""

    @property
    def is_imported(self) -> bool:
        """True for results of another program, which dutlab cannot repeat."""
        return bool(self.newest.plan.get("imported"))

    @property
    def dutlab(self) -> dict[str, str]:
        """Version and commit of the dutlab that measured the newest run; empty for a run that does not state them."""
        stated = self.newest.resolved.get("dutlab")
        return {str(k): str(v) for k, v in stated.items()} if isinstance(stated, Mapping) else {}

    @property
    def seconds(self) -> float:
        """Estimated time of one new run."""
        estimate = self.newest.plan.get("estimate_s")
        return float(estimate) if isinstance(estimate, int | float) else 0.0


def grouped(folders: Sequence[RunFolder]) -> list[RunGroup]:
    """Group runs. Groups are in the order of the names of their first runs. Raises StoreError."""
    groups: dict[str, list[tuple[datetime, RunFolder, ComparedRun]]] = {}
    for folder in sorted(folders, key=lambda run: run.name):
        run = open_run(folder.path)
        groups.setdefault(_key(folder.resolved), []).append((min((r.started for r in run.records), default=_NEVER), folder, run))
    out = []
    for of in groups.values():
        of.sort(key=lambda entry: (entry[0], entry[1].name))
        out.append(RunGroup(tuple(folder for _, folder, _ in of), tuple(run for _, _, run in of)))
    return out


def _key(resolved: Mapping[str, Any]) -> str:
    """Return the common part of the runs of one group: the experiment without its seed, and the testbed."""
    experiment = resolved.get("experiment")
    without = {name: value for name, value in experiment.items() if name != "seed"} if isinstance(experiment, Mapping) else experiment
    return json.dumps([without, resolved.get("testbed")], sort_keys=True)
