"""Record of a trial, as JSON in `trials/NNNN/record.json`.

It is written once and never rewritten. `record_schema()` is the contract in contracts/record.schema.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from math import isfinite
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetPydanticSchema, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from dutlab.doubts import Doubt, DoubtKind
from dutlab.methods.flow import Flow
from dutlab.methods.ports import Measured, OfferCount
from dutlab.physics.ceilings.assumed import above_line
from dutlab.physics.interference import Interference
from dutlab.plan.cell import Cell
from dutlab.spec.workloads import settings_schema
from dutlab.subject import Figures, Subject, Way

SCHEMA_VERSION = 4
"""Schema version of all files in a run folder. It is raised when an older reader would misread a file."""

PUBLISHED = "published"
"""Table of an imported record: digits and unit in which each figure was printed."""
LEFT_OUT, ASSUMED = "left_out", "assumed"
"""Tables of an imported record: values of the file that are in no figure, and units that the file does not name."""


class _Strict(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)


class SubjectRecord(_Strict):
    """Subject of figures (dutlab.subject)."""

    places: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of links, drives or hosts, as in the cell. For several, figures are sums over them."""
    way: Way = Way.FORWARD
    """Left out where it is `forward`."""
    part: str = ""
    """Part of the measurement: a goal, a stream, a job, a phase, a state, a step. Left out for the whole."""


class SubjectFigures(_Strict):
    """The figures of one subject."""

    subject: SubjectRecord
    values: dict[str, float]
    """Measure → value."""


@lru_cache(4096)
def _subject(places: tuple[str, ...], way: Way, part: str) -> Subject:
    return Subject(places, way, part)


def _read_figures(entries: Sequence[SubjectFigures]) -> Figures:
    return Figures.of((_subject(e.subject.places, e.subject.way, e.subject.part), e.values) for e in entries)


def figure_entries(figures: Figures) -> list[dict[str, Any]]:
    """Return figures as the entries of a record's file, one for each subject."""
    return [{"subject": _fields(subject), "values": values} for subject, values in Figures(figures).by_subject()]


def _fields(subject: Subject) -> dict[str, Any]:
    way = {} if subject.way is Way.FORWARD else {"way": subject.way.value}
    return {"places": list(subject.places), **way, **({"part": subject.part} if subject.part else {})}


def _as_entries(figures: object, info: ValidationInfo) -> object:
    """Return figures in memory as entries. In a file only entries are valid, so nothing is converted then."""
    return figure_entries(Figures(figures)) if isinstance(figures, Mapping) and info.context is not FROM_FILE else figures


def _figures_schema(_source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
    entries = core_schema.no_info_after_validator_function(_read_figures, handler.generate_schema(list[SubjectFigures]))
    in_memory = core_schema.with_info_before_validator_function(_as_entries, entries)
    written = core_schema.plain_serializer_function_ser_schema(figure_entries, return_schema=core_schema.list_schema())
    return core_schema.json_or_python_schema(entries, in_memory, serialization=written)


FROM_FILE = object()
"""Validation context of data from a file."""

RecordFigures = Annotated[Figures, GetPydanticSchema(_figures_schema)]
"""Figures of a record; in a file a list with an entry for each subject."""


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
        """Return the record of a doubt."""
        kind = doubt.kind
        words = {"kind": kind.name, "grade": kind.grade.value, "text": kind.text, "remedy": kind.remedy}
        return cls.model_validate({**words, "detail": doubt.detail, "about": doubt.about})


@dataclass(frozen=True)
class FlowRecord(Flow):
    """A flow as methods measure it, with its verdict written out for readers of the file."""

    balances: bool = False

    @classmethod
    def of(cls, flow: Flow) -> Self:
        """Return the record of a flow."""
        return cls(**{f.name: getattr(flow, f.name) for f in fields(Flow)}, balances=flow.balances)


WatchedMeans = dict[str, dict[str, dict[str, dict[str, float]]]]
"""Sensor → where (a host, or the link of a tool's readings) → unit → name → mean, without the first reading where there are more."""


class TrialRecord(_Strict):
    """One trial."""

    schema_version: Literal[4] = 4
    trial: int
    status: Literal["measured", "failed", "refused", "disturbed"]
    """`disturbed`: measured, but other work on the machine took too much of it, so the figures do not count."""
    why: str = ""
    """Why there is no result, in words; empty when measured."""
    attempt: int = 1
    """Earlier attempts are kept next to the trial's folder."""
    cell: Cell
    started: AwareDatetime
    ended: AwareDatetime
    figures: RecordFigures
    """Subject of each figure, and its value by measure."""
    ceilings: RecordFigures = Field(default_factory=Figures)
    """Limits that follow from facts (link speed), in the form of figures."""
    flows: list[FlowRecord] = []
    doubts: list[DoubtRecord] = []
    checks: list[dict[str, Any]] = []
    """Checks of the mode's verification: what, passed, found."""
    counters: dict[str, dict[str, float]] = {}
    """Host → counter → difference over the trial (softirqs, drops). Unchanged counters are left out."""
    polling: list[int] = []
    """Cores of the DUT that its mode keeps busy without load."""
    interference: dict[str, Interference] = {}
    """Host → processor time that other work took there during the trial. Hosts that cannot report it are left out.

    `this-machine` stands for all hosts of a lab, which share one kernel.
    """
    offers: OfferCount | None = None
    """Counts of methods that judge each load; None: the trial is judged as a whole, by `interference`."""
    tool_facts: dict[str, str] = {}
    notes: list[str] = []
    """Sentences of the method about its figures."""
    tables: dict[str, list[dict[str, int | float | str | None]]] = {}
    """Tables of the method: name → rows whose columns have their unit in their name."""
    watched: WatchedMeans = {}
    """Mean of everything that was watched; samples.parquet, in the same folder, has it over time."""
    raw: list[str] = []
    """Paths of the untouched outputs, relative to the trial's folder."""

    def doubted(self, kind: DoubtKind) -> bool:
        """Return whether the record has a doubt of this kind."""
        name = kind.name  # once: a member of an enumeration looks it up each time
        return any(d.kind == name for d in self.doubts)


def measured_fields(measured: Measured) -> dict[str, Any]:
    """Return the fields of a record that come from a method or a tool, except doubts.

    NaN and infinity are left out of the figures. In a table they become None.
    """
    return {
        "figures": Figures({place: {k: v for k, v in of.items() if isfinite(v)} for place, of in measured.figures.items()}),
        "flows": [FlowRecord.of(f) for f in measured.flows],
        "tool_facts": dict(measured.facts),
        "notes": list(measured.notes),
        "offers": measured.offers,
        "tables": {name: [{k: _finite(v) for k, v in row.items()} for row in table] for name, table in measured.tables.items()},
    }


def _finite(value: float | str | None) -> float | str | None:
    return None if isinstance(value, float) and not isfinite(value) else value


def above_line_doubts(figures: Mapping[str, Mapping[str, float]], ceilings: Mapping[str, Mapping[str, float]]) -> list[Doubt]:
    """Return a doubt for each figure that is more than its link can carry."""
    return [Doubt(DoubtKind.ABOVE_LINE_RATE, detail, link) for link, detail in above_line(figures, ceilings)]


def record_schema() -> dict[str, Any]:
    """Return the JSON Schema of a record."""
    schema = TrialRecord.model_json_schema()
    return {**schema, "$defs": {**schema["$defs"], **settings_schema()}}
