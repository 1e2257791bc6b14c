"""Import of Conductor's report (`-f json`), also as exported by dutlab, and of its text output (`conductor_log`).

The report has a code and a message for each step, but no command. Conductor writes a row when it reads it, at the end of a phase. So times
of trials and phases are known, those of single steps are not. Times have no zone and count as UTC. Rows with code 65535 end a phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from dutlab.errors import InputError
from dutlab.interop.conductor import plain_name
from dutlab.interop.conductor_log import is_log, is_text_report, read_log, read_text_report
from dutlab.interop.conductor_report import PHASE_DONE
from dutlab.interop.imported_run import Imported, ImportOptions, imported_cell, moment_in, repair_doubts
from dutlab.methods.ports import Measured, Row
from dutlab.spec.workloads.steps import PHASES
from dutlab.subject import Figures, Subject, plain_place, step_part
from dutlab.tools.json_text import UnreadableError, member, read_cut_object
from dutlab.tools.steps.account import ALL_HOSTS, FIGURES, TOOL
from dutlab.tools.steps.figures import step_figures
from dutlab.tools.steps.killing import found_nothing

_REMEDY = "import what `conduct` printed, or wrote with -o FILE"


@dataclass(frozen=True)
class _Result:
    host: str
    phase: str
    place: int
    code: int
    message: str

    @property
    def why(self) -> str:
        return "" if self.code == 0 or found_nothing(self.message.strip(), self.code) else f"ended with {self.code}"

    @property
    def words(self) -> str:
        """Sentence on the failure, with the last line of output."""
        last_line = self.message.strip().rpartition("\n")[2][:200]
        return f"{self.host}, {self.phase}, step {self.place}: {self.why}{f': {last_line}' if last_line else ''}"

    @property
    def row(self) -> Row:
        """Row in the format of dutlab's own steps (tools/steps)."""
        return {
            "host": self.host,
            "phase": self.phase,
            "step": str(self.place),
            "kind": "not stated",
            "command": "not stated",
            "status": self.code,
            "started_s": None,
            "duration_s": None,
            "why": self.why,
            "ended_by": "",
            "file": self.file,
        }

    @property
    def named(self) -> Row:
        """Columns of the step in each row of its figures (tools/steps)."""
        return {"host": self.host, "phase": self.phase, "step": str(self.place), "command": "not stated", "file": self.file}

    @property
    def file(self) -> str:
        """Path of the file with the step's output, without its ending."""
        return f"{plain_name(self.host)}/{self.phase}/{self.place:02d}"

    @property
    def subject(self) -> Subject:
        """Subject of the figures in the step's output."""
        return Subject((plain_place(self.host),), part=step_part(self.phase, self.place))


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """Read each trial of the file `name`. The device is named after the file, without its ending. Raises InputError."""
    try:
        document, repairs = _document(data)
    except UnreadableError as error:
        raise InputError(f"{name}: {error}", remedy=_REMEDY) from error
    entries = document.get("trials")
    trials = [trial for trial in entries if isinstance(trial, Mapping)] if isinstance(entries, list) else []
    imports = [_trial(PurePath(name).stem, trial, repairs) for trial in trials if any(_results(trial))]
    if not imports:
        raise InputError(f"{name}: has no trial with a step in it", remedy=_REMEDY)
    return imports


def _document(data: bytes) -> tuple[dict[str, Any], list[str]]:
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    if is_text_report(text):
        return read_text_report(text), []
    return read_log(text) if is_log(text) else read_cut_object(data)


def _trial(device: str, document: Mapping[str, Any], repairs: list[str]) -> Imported:
    results = list(_results(document))
    failed = [result for result in results if result.why]
    began, ended = moment_in(document.get("start_time")), moment_in(document.get("end_time"))
    figures = {"failed_steps": float(len(failed))}
    if began is not None and ended is not None and ended >= began:
        figures["duration_s"] = (ended - began).total_seconds()
    own = [(r, own_figures) for r in results if (own_figures := step_figures(r.message.encode("utf-8", "replace"), b""))]
    measured = Measured(
        figures=Figures.of([(Subject((ALL_HOSTS,)), figures), *((r.subject, own_figures) for r, own_figures in own)]),
        doubts=repair_doubts(repairs, ALL_HOSTS),
        notes=[r.words for r in failed],
        raw={f"{r.file}.out": r.message.encode("utf-8", "replace") for r in results if r.message},
        tables={
            TOOL: [r.row for r in results],
            FIGURES: [{**r.named, "figure": name, "value": value} for r, own_figures in own for name, value in own_figures.items()],
        },
    )
    cell = imported_cell(device, workload="steps", tool="conductor", link=ALL_HOSTS, params={})
    return Imported(cell, measured, started=began, ended=ended)


def _results(trial: Mapping[str, Any]) -> Iterator[_Result]:
    """Yield the readable results of a trial's steps, in the order of phases and hosts."""
    for phase in PHASES:
        workers = member(member(member(trial, "phases"), phase), "workers")
        for key in workers:
            worker = member(workers, key)
            rows = worker.get("results")
            place = 0
            for row in rows if isinstance(rows, list) else ():
                code = row.get("code") if isinstance(row, Mapping) else None
                if not isinstance(code, int) or code == PHASE_DONE:
                    continue
                place += 1
                yield _Result(str(worker.get("name", key)), phase, place, code, str(row.get("message") or ""))
