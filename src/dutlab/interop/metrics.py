"""Metrics of a run for Prometheus, during the run and after it.

They use only the events of the run, so any process that can read its folder can compute them.
The format is Prometheus text 0.0.4, or OpenMetrics 1.0 (the same with an end mark). Every metric is a gauge that begins with `dutlab_`:

    dutlab_run_info{run,experiment,folder}         1
    dutlab_run_running{run}                        1 while a process carries the run out
    dutlab_run_trials{run}, dutlab_run_trials_done{run}
    dutlab_run_left_seconds{run}                   estimated time of trials without a record
    dutlab_run_ended_trials{run,status}            measured, failed, refused, disturbed
    dutlab_run_doubts{run,grade}
    dutlab_trial_info{run,trial,mode,workload,tool,links,repeat}   1, for the trial that is being measured
    dutlab_reading{run,where,who,name}             newest value of each sensor, tool and search; the name ends in the unit
    dutlab_figure{run,trial,workload,link,figure}  figure of the newest trial with a result
    dutlab_last_event_timestamp_seconds{run}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from dutlab.errors import InputError
from dutlab.events import EventTail
from dutlab.outside import UnfitFile
from dutlab.store.find import is_running

_HELP = {
    "dutlab_run_info": "The run, its experiment and its folder.",
    "dutlab_run_running": "1 while a process carries the run out.",
    "dutlab_run_trials": "Trials of the plan.",
    "dutlab_run_trials_done": "Trials that have their record.",
    "dutlab_run_left_seconds": "Estimate of the time for all trials without a record.",
    "dutlab_run_ended_trials": "Trials that ended, by status.",
    "dutlab_run_doubts": "Doubts of the trials that ended, by grade.",
    "dutlab_trial_info": "The trial that is being measured.",
    "dutlab_reading": "The newest value of a sensor, tool or search; its measure ends in its unit.",
    "dutlab_figure": "A figure of the newest trial that has a result; its measure ends in its unit.",
    "dutlab_last_event_timestamp_seconds": "When something happened last, by the clock of the machine that measures.",
}
Labels = tuple[tuple[str, str], ...]


class RunMetrics:
    """Metrics of one run. Each call of text() reads only the events since the last call."""

    def __init__(self, run: Path) -> None:
        self._run, self._tail = run, EventTail(run)
        self._begin()

    def _begin(self) -> None:
        self._info: dict[str, str] = {}
        self._trials = self._done = 0
        self._left, self._last = 0.0, 0.0
        self._trial: dict[str, str] = {}
        self._ended, self._doubts = dict[int, str](), Counter[str]()
        self._readings: dict[tuple[str, str, str], float] = {}
        self._figures: dict[Labels, float] = {}

    def text(self, *, openmetrics: bool = False) -> str:
        """Return all metrics at this moment. Raises InputError for a folder without events."""
        self._take_in()
        base = (("run", self._run.resolve().name),)
        lines = list[str]()
        for name, values in self._values(base):
            lines += metric_lines(name, _HELP[name], values)
        return "\n".join([*lines, *(["# EOF"] if openmetrics else [])]) + "\n"

    def _values(self, base: Labels) -> Iterable[tuple[str, list[tuple[Labels, float]]]]:
        statuses = Counter(self._ended.values())
        yield "dutlab_run_info", [((*base, *self._info.items()), 1)]
        yield "dutlab_run_running", [(base, is_running(self._run))]
        yield "dutlab_run_trials", [(base, self._trials)]
        yield "dutlab_run_trials_done", [(base, self._done)]
        yield "dutlab_run_left_seconds", [(base, self._left)]
        of_statuses: list[tuple[Labels, float]] = [
            ((*base, ("status", s)), statuses[s]) for s in ("measured", "failed", "refused", "disturbed")
        ]
        yield "dutlab_run_ended_trials", of_statuses
        yield "dutlab_run_doubts", [((*base, ("grade", g)), self._doubts[g]) for g in ("severe", "warning", "note")]
        if self._trial:
            yield "dutlab_trial_info", [((*base, *self._trial.items()), 1)]
        if self._readings:
            readings = sorted(self._readings.items())
            yield "dutlab_reading", [((*base, ("where", w), ("who", by), ("name", n)), v) for (w, by, n), v in readings]
        if self._figures:
            yield "dutlab_figure", [((*base, *labels), v) for labels, v in self._figures.items()]
        yield "dutlab_last_event_timestamp_seconds", [(base, self._last)]

    def _take_in(self) -> None:
        try:
            was_replaced, events = self._tail.new()
        except UnfitFile as error:
            raise InputError(error.what, remedy=error.remedy) from error
        except OSError as error:
            raise InputError(f"{self._run}: has no events: {error.strerror}", remedy="name the folder of a run that has begun") from error
        if was_replaced:
            self._begin()
        for event in events:
            try:
                self._hear(event, event["event"])
            except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError):
                continue  # a newer dutlab wrote it

    def _hear(self, event: Mapping[str, Any], kind: str) -> None:
        self._last = datetime.fromisoformat(str(event["at"])).timestamp()
        match kind:
            case "run-begun":
                self._info = {"experiment": str(event["experiment"]), "folder": str(event["folder"])}
                self._trials, self._done, self._left = int(event["trials"]), int(event["done"]), float(event["estimate_s"])
            case "trial-begun":
                self._trial = {key: _word(event[key]) for key in ("trial", "mode", "workload", "tool", "links", "repeat")}
                self._readings.clear()
                self._done, self._trials, self._left = int(event["done"]), int(event["trials"]), float(event["left_s"])
            case "reading":
                self._readings |= {(str(event["where"]), str(event["who"]), str(n)): float(v) for n, v in event["values"].items()}
            case "doubt":
                self._doubts[str(event["grade"])] += 1
            case "trial-ended":
                self._trial.clear()
                self._ended[int(event["trial"])] = str(event["status"])
                self._done, self._trials = int(event["done"]), int(event["trials"])
                if event["status"] == "measured":
                    of = (("trial", str(event["trial"])), ("workload", str(event["workload"])))
                    figures = ((link, name, value) for link, of_link in event["figures"].items() for name, value in of_link.items())
                    self._figures = {(*of, ("link", str(link)), ("figure", str(name))): float(v) for link, name, v in figures}
            case "run-ended":
                self._trial.clear()
                self._readings.clear()
                self._left = 0.0 if event["status"] == "finished" else self._left


def metric_lines(name: str, what: str, values: Iterable[tuple[Labels, float]]) -> list[str]:
    """Return the lines of one metric with its help, type and values."""
    return [f"# HELP {name} {what}", f"# TYPE {name} gauge", *(f"{name}{{{_labels(of)}}} {float(value)!r}" for of, value in values)]


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)


def _word(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


def _escaped(text: str) -> str:
    """Return a label's value, escaped by the rules of both formats. Characters that UTF-8 cannot encode become escapes too."""
    encodable = text.encode(errors="backslashreplace").decode()
    return encodable.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
