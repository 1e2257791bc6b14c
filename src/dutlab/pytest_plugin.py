"""Pytest fixture for tests of firewalls, routers and drivers: it runs an experiment and returns its figures with their intervals.

In conftest.py: `pytest_plugins = ["dutlab.pytest_plugin"]`. docs/how-to/ci.md has an example.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dutlab.errors import TestbedError
from dutlab.notebook import Run, Value
from dutlab.stats.summary import Summary, summarise

MUST_RUN = "--dutlab-must-run"
_LAST_WORDS = 2000
_OF_A_REPEAT = ("trial", "repeat", "value")


@dataclass(frozen=True, repr=False)
class MeasuredFigure:
    """One figure of one cell, over its repeats. A failed assertion shows its median, interval and number of repeats."""

    name: str
    where: str
    values: tuple[float, ...]

    @property
    def summary(self) -> Summary:
        """Median, range and, from six repeats on, the 95 % interval of the median."""
        return summarise(self.values)

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval; below six repeats the lowest value."""
        return self.summary.interval.low if self.summary.interval else self.summary.low

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval; below six repeats the highest value."""
        return self.summary.interval.high if self.summary.interval else self.summary.high

    def is_at_least(self, limit: float) -> bool:
        """Return whether the whole interval is at or above `limit`. Where it contains `limit`, this and is_below() are both false."""
        return self.low >= limit

    def is_below(self, limit: float) -> bool:
        """Return whether the whole interval is below `limit`."""
        return self.high < limit

    def __repr__(self) -> str:
        kind = "95 % interval" if self.summary.interval else "range"
        return f"{self.name} of {self.where}: {self.summary.median:g} ({kind} {self.low:g} to {self.high:g}, repeats: {len(self.values)})"


@dataclass(frozen=True)
class MeasuredRun:
    """A run of an experiment."""

    run: Run
    """The run with all its data (docs/reference/notebooks.md)."""

    def figure(self, name: str, **where: Value) -> MeasuredFigure:
        """Return a figure such as `received_pps`; `where` names its cell: `mode="nat", frame_size=64, link="a"`.

        Raises LookupError where no cell has the figure, or several cells have it.
        """
        every = self.run.figures
        rows = [row for row in every if row["figure"] == name]
        matches = [row for row in rows if all(str(row.get(key)) == str(value) for key, value in where.items())]
        if not matches:
            known = {key: _all(rows, key) for key in where} if rows else {"figures": _all(list(every), "figure")}
            raise LookupError(f"{self.run.name} has no {name} of {_words(where)}; it has {_listed(known)}")
        apart = {key: of for key in every.columns if key not in _OF_A_REPEAT and len(of := _all(matches, key)) > 1}
        if apart:
            raise LookupError(f"{name} of {_words(where)} is of several: {_listed(apart)}")
        return MeasuredFigure(name, _words(where), tuple(float(row["value"] or 0.0) for row in matches))


class Dutlab:
    """Runs experiments for a test, each as a separate process that restores what it changes."""

    def __init__(self, folder: Path, *, must_run: bool) -> None:
        """Keep the runs in `folder`."""
        self._folder, self._must_run, self._runs = folder, must_run, 0

    def run(
        self,
        experiment: str | Path | Mapping[str, Any],
        *,
        overrides: Sequence[str] = (),
        lab: str | None = None,
        testbed: Path | None = None,
    ) -> MeasuredRun:
        """Carry out an experiment: a file, or its contents. `overrides`, `lab` and `testbed` are the options of `dutlab run`.

        Skips the test, with the reason, where the testbed cannot be used (no root, a missing program, an unreachable host); with
        --dutlab-must-run the test fails instead. Also fails the test for a faulty experiment, and where nothing was measured.
        """
        __tracebackhide__ = True
        self._runs += 1
        runs = self._folder / f"runs-{self._runs}"
        if isinstance(experiment, Mapping):
            file = self._folder / f"experiment-{self._runs}.yaml"
            file.write_text(json.dumps(experiment), encoding="utf-8")  # JSON is YAML
        else:
            file = Path(experiment)
        argv = [sys.executable, "-m", "dutlab", "run", str(file), "--runs", str(runs), "--unattended", "--yes"]
        argv += [word for override in overrides for word in ("--set", override)]
        argv += ["--lab", lab] if lab else []
        argv += ["--testbed", str(testbed)] if testbed else []
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        output = done.stderr[-_LAST_WORDS:].strip()
        if done.returncode == TestbedError.exit_status:
            last = output.splitlines()[-1] if output else "the testbed cannot be used"
            (pytest.fail if self._must_run else pytest.skip)(last.removeprefix("dutlab: "))
        folders = [path for path in runs.iterdir() if (path / "plan.json").exists()] if runs.is_dir() else []
        if not folders or not len((run := Run(folders[0])).figures):
            pytest.fail(f"`{shlex.join(argv[2:])}` ended with {done.returncode} and measured nothing:\n{output}")
        return MeasuredRun(run)


def _all(rows: Sequence[Mapping[str, Value]], key: str) -> list[str]:
    """Return the distinct values of a column, in order."""
    return [*dict.fromkeys(str(row[key]) for row in rows if key in row)]


def _listed(values: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{key}: {', '.join(of) or 'nothing'}" for key, of in values.items())


def _words(where: Mapping[str, Value]) -> str:
    return ", ".join(f"{key} {value}" for key, value in where.items()) or "the run"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option --dutlab-must-run."""
    parser.getgroup("dutlab").addoption(
        MUST_RUN, action="store_true", help="Fail a test, in place of skipping it, where dutlab cannot measure here."
    )


@pytest.fixture
def dutlab(tmp_path: Path, request: pytest.FixtureRequest) -> Dutlab:
    """Run experiments in the test's temporary folder."""
    return Dutlab(tmp_path, must_run=bool(request.config.getoption(MUST_RUN)))
