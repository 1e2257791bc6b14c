"""Claim cards: one headline with its numbers, conditions and the hash of the run that it rests on, for others to check."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from dutlab import bounds, outside
from dutlab.bounds import CARD
from dutlab.errors import InputError, StoreError
from dutlab.report.gather import gather
from dutlab.report.model.run_report import HeadlineFigure, RunReport
from dutlab.report.model.table import Figure
from dutlab.spec.workloads.setting import Value, identity_of
from dutlab.stats.summary import Summary, summarise
from dutlab.store.cell_figures import CellKey
from dutlab.store.manifest import MANIFEST
from dutlab.store.read import read_json, reading
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder


class ClaimedCell(BaseModel):
    """One figure of a claim: the median over `trials`. `low`, `high` are the 95 % interval where `interval`, else the range."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    label: str
    workload: str
    mode: str
    factors: dict[str, str]
    links: tuple[str, ...]
    params: dict[str, Value]
    """Params that identify the cell in another run."""
    link: str
    figure: str
    trials: tuple[int, ...]
    values: tuple[float, ...]
    repeats: tuple[int, ...]
    """Repeat of each trial; `values` has the figure of each."""
    median: float
    low: float
    high: float
    interval: bool

    @property
    def size(self) -> str:
        """Frame size; empty where there is none."""
        return str(self.params.get("frame_size") or "")

    @property
    def key(self) -> CellKey:
        """Key of the cell, as from dutlab.store.cell_figures.key_of()."""
        return (self.workload, self.mode, self.links, tuple(sorted(self.factors.items())), identity_of(self.params))


class ClaimCard(BaseModel):
    """A claim, and all that is needed to check it."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    claim: str
    about: str
    run: str
    folder: str
    """Folder of the run, relative to the card."""
    manifest_sha256: str
    cells: tuple[ClaimedCell, ...]
    limited_by: tuple[str, ...]
    deviations: tuple[str, ...]
    """Deviations from RFC 2544."""
    doubts: tuple[str, ...]
    conditions: dict[str, dict[str, str]]
    """Host → the facts that a reader looks for first."""


class Claimed(NamedTuple):
    """Source of a card."""

    about: str
    sentence: str
    figures: tuple[HeadlineFigure, ...]
    limits: tuple[str, ...]


def cards(path: Path, folder: Path) -> dict[str, ClaimCard]:
    """Return file name → card for each headline of the run at `path`, or for its answer if nothing is compared.

    `folder` is the folder of the cards. Raises InputError for a run without a manifest or figure, StoreError.
    """
    with reading(path):
        return _cards(path, folder)


def _cards(path: Path, folder: Path) -> dict[str, ClaimCard]:
    run_report = gather(path, folder)
    if run_report.manifest is None:
        raise InputError(f"{path}: has no manifest, so it cannot be verified", remedy="`dutlab resume` finishes it")
    if not (card_by_name := cards_of(RunFolder.open(path), run_report, folder)):
        raise InputError(f"{path}: has no figure to make a card of", remedy="at least one cell needs a result")
    return card_by_name


def cards_of(run: RunFolder, report: RunReport, folder: Path) -> dict[str, ClaimCard]:
    """Return the cards of a finished run from its report; empty for a run without a figure. Raises StoreError."""
    card_by_name = {f"claim-{n}-{_slug(h.about)}.json": _card(run, report, h, folder) for n, h in enumerate(_headlines(report), 1)}
    return {name: card for name, card in card_by_name.items() if card.cells}


def _headlines(report: RunReport) -> tuple[Claimed, ...]:
    """Return the comparisons of modes; without any, the answer with every figure of its tables."""
    if report.headlines or report.busy:
        return tuple(Claimed(h.about, f"{h.about}: {h.sentence}", h.figures, h.limits) for h in report.headlines)
    figures = [
        HeadlineFigure(row.label, cell.link, column.figure, cell.trials)
        for table in report.answer.tables
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if isinstance(cell, Figure) and cell.link
    ]
    limits = tuple(filter(None, [report.answer.limited]))
    return (Claimed(report.experiment, " ".join(report.answer.fast), tuple(figures), limits),) if figures else ()


def read_card(path: Path) -> ClaimCard:
    """Read a card. Raises InputError, StoreError."""
    try:
        return ClaimCard.model_validate(read_json(path, CARD))
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{path}: is not a claim card: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def as_text(card: ClaimCard) -> str:
    """Return the text of the card's file."""
    return json.dumps(card.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"


def summary_of(cell: ClaimedCell, values: Sequence[float]) -> list[str]:
    """Return sentences on claimed figures that differ from those of `values`."""
    numbers = _numbers(summarise(values))
    claimed_numbers = {"median": cell.median, "low": cell.low, "high": cell.high}
    return [
        f"{name} of {cell.label} is {numbers[name]:.10g}, the card claims {v:.10g}"
        for name, v in claimed_numbers.items()
        if not same(numbers[name], v)
    ]


def same(first: float, second: float) -> bool:
    """Return whether two values agree to twelve digits; JSON and another order of addition may change the last ones."""
    return abs(first - second) <= 1e-12 * max(abs(first), abs(second))


def manifest_hash(run: RunFolder) -> str:
    """Return the SHA-256 of the manifest. Raises StoreError if there is none."""
    try:
        return hashlib.sha256(outside.read(run.path / MANIFEST, bounds.MANIFEST)).hexdigest()
    except OSError as error:
        raise StoreError(f"{run.path / MANIFEST}: cannot be read: {error.strerror}") from error


def _card(run: RunFolder, report: RunReport, headline: Claimed, folder: Path) -> ClaimCard:
    cells = []
    for of in headline.figures:
        records: list[TrialRecord] = [r for r in map(run.record, of.trials) if of.figure in r.figures.get(of.link, ())]
        if not records:
            continue
        values = tuple(r.figures[of.link][of.figure] for r in records)
        cell = records[0].cell
        numbers: dict[str, Any] = _numbers(summarise(values))
        cells.append(
            ClaimedCell(
                label=of.label, workload=cell.workload, mode=cell.mode, factors=cell.factors, links=cell.links, params=dict(cell.params),
                link=of.link, figure=of.figure, trials=tuple(r.trial for r in records), values=values,
                repeats=tuple(r.cell.repeat for r in records), **numbers,
            )
        )  # fmt: skip
    return ClaimCard(
        claim=headline.sentence, about=headline.about, run=report.name, folder=os.path.relpath(run.path, folder),
        manifest_sha256=str(report.manifest), cells=tuple(cells), limited_by=headline.limits, deviations=report.deviations,
        doubts=tuple(f"{n.grade}: {n.text}" for n in report.notes),
        conditions=conditions_of(report),
    )  # fmt: skip


def conditions_of(report: RunReport) -> dict[str, dict[str, str]]:
    """Return host → the facts that a reader looks for first."""
    return {
        host: {f.name: f.by_host[host] for f in report.conditions.facts if f.key and host in f.by_host} for host in report.conditions.hosts
    }


def _numbers(summary: Summary) -> dict[str, float]:
    inside = summary.interval
    return {"median": summary.median, "low": inside.low if inside else summary.low, "high": inside.high if inside else summary.high,
            "interval": inside is not None}  # fmt: skip


def _slug(about: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", about.lower()).strip("-")[:60]
