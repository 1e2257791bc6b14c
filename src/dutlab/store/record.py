"""The record that a trial leaves behind, as JSON in `trials/NNNN/record.json`.

Written once and never rewritten. `record_schema()` is the contract in contracts/record.schema.json.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from dutlab.plan.cell import Cell

SCHEMA_VERSION = 1
"""Of everything in a run folder; raised when an older reader would misread."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DoubtRecord(_Strict):
    """A doubt (dutlab.doubts) with all its words, so that a reader of the file needs nothing else."""

    kind: str
    grade: Literal["note", "warning", "severe"]
    text: str
    remedy: str
    detail: str = ""
    about: str = ""


class LatencyRecord(_Strict):
    """One-way latency of the frames that arrived, in nanoseconds."""

    count: int
    min_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int
    mean_ns: float
    pdv_p99_ns: int | None = None
    """RFC 5481 section 4.2, relative to the least."""
    pdv_p999_ns: int | None = None
    ipdv_p50_ns: int | None = None
    """RFC 5481 section 4.1, absolute, of consecutive frames."""
    ipdv_p99_ns: int | None = None
    ipdv_max_ns: int | None = None
    histogram: list[tuple[int, int]] = []
    """(upper end of the bucket in ns, frames in it)."""


class GapsRecord(_Strict):
    """Time between consecutive frames as they were sent, in nanoseconds."""

    count: int
    min_ns: int
    p50_ns: int
    p99_ns: int
    max_ns: int
    mean_ns: float
    histogram: list[tuple[int, int]] = []
    """(upper end of the bucket in ns, gaps in it)."""


class FlowRecord(_Strict):
    """Asked, sent and received of one link. Frame sizes are bytes with FCS."""

    link: str
    asked_frames: int
    sent_frames: int
    refused_frames: int
    received_frames: int
    lost_frames: int
    duplicated_frames: int
    reordered_frames: int
    foreign_frames: int
    sent_seconds: float
    mean_frame_bytes: float
    received_bytes: int
    balances: bool
    places: dict[str, int] = {}
    """Place on the path → frames lost there, of the places whose counters tell."""
    latency: LatencyRecord | None = None
    gaps: GapsRecord | None = None
    late_frames: int | None = None
    stale_frames: int = 0
    corrupted_frames: int = 0
    reorder_extent_max: int = 0


class CommandRecord(_Strict):
    """A command that was run for the trial."""

    host: str
    argv: list[str]
    status: int
    started: datetime
    seconds: float


class TrialRecord(_Strict):
    """One trial."""

    schema_version: Literal[1] = 1
    trial: int
    status: Literal["measured", "failed", "refused"]
    why: str = ""
    """Why there is no result, in words; empty when measured."""
    cell: Cell
    started: datetime
    ended: datetime
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
    tool_facts: dict[str, str] = {}
    raw: list[str] = []
    """Paths of the untouched outputs, relative to the trial's folder."""


def record_schema() -> dict[str, Any]:
    """JSON Schema of a record."""
    return TrialRecord.model_json_schema()
