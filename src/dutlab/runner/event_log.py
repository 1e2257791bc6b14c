"""Write the events of a run to its events.jsonl, and pass them to observers.

Each line is one write, so that a reader sees whole lines. No write waits for the disk. On a full disk, writing stops and the run continues.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from dutlab.dut.mode import Check
from dutlab.errors import HostError
from dutlab.events import (
    CheckSeen,
    DoubtFound,
    Event,
    HostLost,
    ModeApplying,
    ModeVerified,
    Note,
    Preparing,
    Reading,
    RunBegun,
    RunEnded,
    SetAside,
    TrialBegun,
    TrialEnded,
)  # fmt: skip
from dutlab.plan.cell import Cell
from dutlab.plan.plan import Plan, Trial
from dutlab.spec.factors import MODE
from dutlab.store.loads import BACKPRESSURE, load_of
from dutlab.store.record import TrialRecord
from dutlab.store.write import open_to_append
from dutlab.subject import whole_of


class EventLog:
    """One process's events of one run. `path` is None for a closed run, whose file gets no more events."""

    def __init__(self, path: Path | None, hear: Callable[[Event], None], plan: Plan) -> None:
        self._path, self._hear, self._plan = path, hear, plan
        self._file: int | None = None
        self._done = set[int]()
        self._trial: int | None = None

    def begun(self, folder: Path, done: set[int]) -> None:
        """Report that a process works on the run, in which the trials `done` have records."""
        self._done = set(done)
        plan = self._plan
        self._say(
            RunBegun(
                at=_now(), folder=str(folder), experiment=plan.experiment, cells=plan.cells, trials=len(plan.trials), done=len(done),
                estimate_s=plan.estimate_s, seed=plan.seed,
            )
        )  # fmt: skip

    def preparing(self, what: str) -> None:
        """Report preparation that takes seconds before trials begin."""
        self._say(Preparing(at=_now(), what=what))

    def note(self, text: str) -> None:
        """Report a note to the user."""
        self._say(Note(at=_now(), text=text))

    def applying(self, mode: str, trials: int) -> None:
        """Report that a mode is being applied, for so many trials."""
        self._say(ModeApplying(at=_now(), mode=mode, trials=trials))

    def verified(self, mode: str, checks: Sequence[Check], *, holds: bool) -> None:
        """Report the checks of an applied mode."""
        results = tuple(CheckSeen(what=c.statement, passed=c.passed, found=c.found) for c in checks)
        self._say(ModeVerified(at=_now(), mode=mode, holds=holds, checks=results))

    def trial(self, trial: Trial) -> None:
        """Report that a trial begins."""
        cell, self._trial = trial.cell, trial.number
        self._say(
            TrialBegun(
                at=_now(), trial=trial.number, what=self._words_of(cell), mode=cell.mode, workload=cell.workload, tool=cell.tool,
                links=tuple(cell.links), repeat=cell.repeat, estimate_s=trial.estimate_s, done=len(self._done),
                trials=len(self._plan.trials), left_s=round(sum(t.estimate_s for t in self._plan.trials if t.number not in self._done), 1),
            )
        )  # fmt: skip

    def reading(self, where: str, who: str, values: Mapping[str, float]) -> None:
        """Report the newest values of a sensor, tool or method; this method has the type Tell."""
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        if finite:
            self._say(Reading(at=_now(), trial=self._trial, where=where, who=who, values=finite))

    def set_aside(self, trial: int, attempt: int, reason: str, why: str) -> None:
        """Report that a trial does not count and is repeated."""
        self._done.discard(trial)
        self._say(SetAside(at=_now(), trial=trial, attempt=attempt, reason=reason, why=why))

    def lost(self, host: str, what: str) -> None:
        """Report that a host no longer answers."""
        self._say(HostLost(at=_now(), host=host, what=what))

    def ended(self, record: TrialRecord) -> None:
        """Report the record of a trial, and its doubts."""
        self._trial = None
        self._done.add(record.trial)
        for d in record.doubts:
            text = f"{d.text} ({d.detail})" if d.detail else d.text
            self._say(DoubtFound(at=_now(), trial=record.trial, kind=d.kind, grade=d.grade, text=text))
        main = whole_of(record.figures)
        self._say(
            TrialEnded(
                at=_now(), trial=record.trial, what=self._words_of(record.cell), workload=record.cell.workload, status=record.status,
                why=record.why, seconds=round((record.ended - record.started).total_seconds(), 3), figures=record.figures,
                main=main, backpressure_ratio=load_of(record, main, BACKPRESSURE), done=len(self._done), trials=len(self._plan.trials),
            )
        )  # fmt: skip

    def cut(self, error: BaseException, remedy: str) -> None:
        """Report that the run was cut. `remedy` is how to continue it; empty if it cannot continue."""
        if isinstance(error, HostError):
            self.lost(error.host, str(error))
        self.close("cut", {}, remedy)

    def close(self, status: str, counts: Mapping[Any, int], remedy: str = "") -> None:
        """Report the end of this process's work, and close the file. `counts` is status → number of records."""
        if status == "finished" or self._done or remedy:
            of = {word: counts.get(word, 0) for word in ("measured", "failed", "refused", "disturbed")}
            self._say(RunEnded.model_validate({"at": _now(), "status": status, **of, "remedy": remedy}))
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _words_of(self, cell: Cell) -> str:
        """Return a trial in words, as in `nat search 64 a+b #2` or `nat · mtu 9000 iperf3 a #1`."""
        levels = "".join(f" · {name} {level}" for name, level in cell.factors.items() if name in self._varied)
        size = f" {cell.setting.size}" if cell.setting.size else ""
        pair = f" {' to '.join(cell.setting.ends)}" if cell.setting.ends else ""
        variant = f", {words}," if (words := cell.setting.variant) else ""
        link = f" {cell.link_label}" if cell.links else ""
        return f"{cell.mode}{levels} {cell.workload}{size}{pair}{link}{variant} #{cell.repeat}"

    @cached_property
    def _varied(self) -> frozenset[str]:
        """Factors other than the mode that have several levels in the plan."""
        levels = {pair for trial in self._plan.trials for pair in trial.cell.factors.items()}
        counted = Counter(name for name, _ in levels)
        return frozenset(name for name, count in counted.items() if count > 1 and name != MODE)

    def _say(self, event: Event) -> None:
        self._write(event)
        self._hear(event)

    def _write(self, event: Event) -> None:
        if self._path is None:
            return
        line = event.model_dump_json().encode() + b"\n"
        try:
            if self._file is None:
                self._file = open_to_append(self._path, os.O_RDWR)
                size = os.fstat(self._file).st_size
                if size and os.pread(self._file, 1, size - 1) != b"\n":  # a crash cut the last line
                    line = b"\n" + line
            os.write(self._file, line)
        except OSError as e:
            path, self._path = self._path, None
            with suppress(OSError):
                if self._file is not None:
                    os.close(self._file)
            self._file = None
            self._hear(Note(at=_now(), text=f"{path.name} is no longer written: {e.strerror}; the run continues"))


def _now() -> datetime:
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)
