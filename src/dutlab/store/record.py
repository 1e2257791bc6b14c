"""The record that a trial leaves behind, as JSON in `trials/NNNN/record.json`.

Written once and never rewritten. `record_schema()` is the contract in contracts/record.schema.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict

from dutlab.analysis.ceilings.assumed import above_line
from dutlab.analysis.interference import Interference
from dutlab.doubts import Doubt, DoubtKind
from dutlab.methods.ports import Flow, Measured, OfferCount
from dutlab.plan.cell import Cell
from dutlab.spec.workloads import settings_schema

SCHEMA_VERSION = 2
"""Schema version of everything in a run folder; raised when an older reader would misread."""

PUBLISHED = "published"
"""The table of an imported record that says in which digits and unit each figure was printed."""


class _Strict(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)


class DoubtRecord(_Strict):
    """A doubt (dutlab.doubts) with all its words, so that a reader of the file needs nothing else."""

    kind: str
    grade: Literal["note", "warning", "severe"]
    text: str
    remedy: str
    detail: str = ""
    about: str = ""

    @classmethod
    def of(cls, doubt: Doubt) -> Self:
        """The record of a doubt."""
        kind = doubt.kind
        words = {"kind": kind.name, "grade": kind.grade.value, "text": kind.text, "remedy": kind.remedy}
        return cls.model_validate({**words, "detail": doubt.detail, "about": doubt.about})


@dataclass(frozen=True)
class FlowRecord(Flow):
    """A flow as methods measure it, with its verdict written out for readers of the file."""

    balances: bool = False

    @classmethod
    def of(cls, flow: Flow) -> Self:
        """The record of a flow."""
        return cls(**{f.name: getattr(flow, f.name) for f in fields(flow)}, balances=flow.balances)


class CommandRecord(_Strict):
    """A command that was run for the trial."""

    host: str
    argv: list[str]
    status: int
    started: AwareDatetime
    seconds: float


class TrialRecord(_Strict):
    """One trial."""

    schema_version: Literal[2] = 2
    trial: int
    status: Literal["measured", "failed", "refused", "disturbed"]
    """`disturbed`: measured, but other work on the machine took too much of it, so the figures do not count."""
    why: str = ""
    """Why there is no result, in words; empty when measured."""
    attempt: int = 1
    """The attempts before it are kept beside the trial's folder."""
    cell: Cell
    started: AwareDatetime
    ended: AwareDatetime
    figures: dict[str, dict[str, float]]
    """Link (or `a+b` for the sum) → name with unit suffix → value."""
    ceilings: dict[str, dict[str, float]] = {}
    """The same keys, for the limits that follow from facts (link speed)."""
    flows: list[FlowRecord] = []
    doubts: list[DoubtRecord] = []
    checks: list[dict[str, Any]] = []
    """What verify of the mode found: what, passed, found."""
    commands: list[CommandRecord] = []
    counters: dict[str, dict[str, float]] = {}
    """Host → counter → difference over the trial (softirqs, drops)."""
    interference: dict[str, Interference] = {}
    """Host → what other work took from the trial there (`this-machine`: a lab, whose hosts share one kernel). A host that cannot tell is
    not there."""
    offers: OfferCount | None = None
    """Of methods that judge each of their offers; None: the trial is judged as a whole, by `interference`."""
    tool_facts: dict[str, str] = {}
    notes: list[str] = []
    """What the method says beside its figures, in sentences."""
    tables: dict[str, list[dict[str, int | float | str | None]]] = {}
    """What the method found step by step: name → rows whose columns carry their unit in their name."""
    raw: list[str] = []
    """Paths of the untouched outputs, relative to the trial's folder."""


def found_of(measured: Measured) -> dict[str, Any]:
    """The fields of a record that a method or a tool filled, doubts apart: those of the trial come to them.

    NaN and infinity are not figures and left out; in a table they are an empty place.
    """
    return {
        "figures": {link: {k: v for k, v in of_link.items() if isfinite(v)} for link, of_link in measured.figures.items()},
        "flows": [FlowRecord.of(f) for f in measured.flows],
        "tool_facts": dict(measured.facts),
        "notes": list(measured.notes),
        "offers": measured.offers,
        "tables": {name: [{k: _finite(v) for k, v in row.items()} for row in table] for name, table in measured.tables.items()},
    }


def _finite(value: float | str | None) -> float | str | None:
    return None if isinstance(value, float) and not isfinite(value) else value


def above_line_doubts(measured: Measured, ceilings: Mapping[str, Mapping[str, float]]) -> list[Doubt]:
    """One for each link that is said to have carried more than it can."""
    return [Doubt(DoubtKind.ABOVE_LINE_RATE, said, link) for link, said in above_line(measured.figures, ceilings)]


def record_schema() -> dict[str, Any]:
    """JSON Schema of a record."""
    schema = TrialRecord.model_json_schema()
    return {**schema, "$defs": {**schema["$defs"], **settings_schema()}}
