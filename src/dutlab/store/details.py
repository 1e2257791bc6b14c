"""Histograms of a trial's flows and the commands of the trial, as JSON in `trials/NNNN/details.json`.

They are most of a trial's data, and few readers need them. So they are not in the record, which every reader of a run reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict

from dutlab.methods.flow import Flow, Histogram, TimedFlow


class _Strict(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)


class CommandRecord(_Strict):
    """A command that was run for the trial."""

    host: str
    argv: list[str]
    status: int
    started: AwareDatetime
    seconds: float


class FlowHistograms(_Strict):
    """Frequency of each time in a flow; empty where unknown."""

    link: str
    latency_ns: Histogram = ()
    gaps_ns: Histogram = ()
    """Gaps between successive frames when sent, in nanoseconds."""


class TrialDetails(_Strict):
    """Details of one trial."""

    schema_version: Literal[4] = 4
    commands: list[CommandRecord] = []
    histograms: list[FlowHistograms] = []

    @classmethod
    def of(cls, flows: Iterable[Flow], commands: Sequence[CommandRecord]) -> Self:
        """Return the details of a trial with these flows and commands."""
        timed = [f for f in flows if isinstance(f, TimedFlow) and (f.latency_histogram or f.gap_histogram)]
        histograms = [FlowHistograms(link=f.link, latency_ns=f.latency_histogram, gaps_ns=f.gap_histogram) for f in timed]
        return cls(commands=list(commands), histograms=histograms)

    def __bool__(self) -> bool:
        return bool(self.commands or self.histograms)
