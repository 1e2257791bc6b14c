"""All runs of a site together: claims that contradict each other, a table of every figure, and the site's index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Pair
from dutlab.analysis.design import RunOrder
from dutlab.analysis.verdict import Verdict
from dutlab.measures import direction_of
from dutlab.publish.devices import DeviceSheet
from dutlab.publish.site_run import FigureRow, SiteClaim, SiteRun
from dutlab.report.questions.claims import ClaimedCell
from dutlab.store.memory_database import to_parquet

LEAST = 0.05
"""Least difference of two medians that can contradict, as a share of the larger."""
SITE_SCHEMA_VERSION = 1
COLUMNS = (
    "device", "run", "experiment", "manifest_sha256", "trial", "mode", "factors", "workload", "links", "frame_size", "repeat", "link",
    "figure", "value",
)  # fmt: skip
"""Columns of runs.parquet, which has a row for each figure of a trial that counts. Names of figures end in their unit."""
_NUMBERS = {"trial": "INTEGER", "repeat": "INTEGER", "value": "DOUBLE"}


@dataclass(frozen=True)
class Contradiction:
    """Two claims with different figures for one cell of one device."""

    device: str
    about: str
    """Words for the cell."""
    figure: str
    first: tuple[SiteRun, SiteClaim, ClaimedCell]
    second: tuple[SiteRun, SiteClaim, ClaimedCell]
    proven: bool
    """True if `dutlab compare` proves the difference; False if repeats are too few for a proof, and their ranges do not overlap."""


def contradictions(runs: Iterable[SiteRun]) -> list[Contradiction]:
    """Return, for each cell and figure of a device, claims of two runs that differ by the rule of `dutlab compare`.

    If repeats are too few for a proof, their ranges must not overlap, and their medians must differ by more than LEAST. A claim that
    differs from its own raw files contradicts no other claim; it is marked separately.
    """
    by_cell: dict[tuple[object, ...], list[tuple[SiteRun, SiteClaim, ClaimedCell]]] = {}
    for run in runs:
        for claim in run.claims:
            for cell in claim.card.cells if claim.state != "differs" else ():
                by_cell.setdefault((run.device, cell.key, cell.link, cell.figure), []).append((run, claim, cell))
    return [contradiction for same in by_cell.values() for contradiction in _contradictions(same)]


def _contradictions(same: Sequence[tuple[SiteRun, SiteClaim, ClaimedCell]]) -> Iterator[Contradiction]:
    ordered = sorted(same, key=lambda result: result[2].median)
    lowest, highest = ordered[0], ordered[-1]
    cell, other = lowest[2], highest[2]
    if lowest[0] is highest[0]:
        return
    side = direction_of(cell.figure) or "higher"  # any side serves: only the difference matters
    pair = Pair("", cell.figure, cell.values, other.values, RunOrder.ONE_AFTER_THE_OTHER, cell.repeats, other.repeats, better=side)
    (result,) = compare([pair])
    apart = cell.high < other.low and other.median - cell.median > LEAST * other.median
    proven = result.verdict in {Verdict.BETTER, Verdict.WORSE}
    if proven if result.could_prove else apart:
        size = f", {cell.size} bytes" if cell.size else ""
        yield Contradiction(lowest[0].device, f"{cell.label}, {cell.workload}{size}, {cell.link}", cell.figure, lowest, highest, proven)


def write_parquet(path: Path, rows: Sequence[FigureRow]) -> None:
    """Write every figure as Parquet (see COLUMNS), or replace the file. Raises StoreError."""
    import numpy as np  # noqa: PLC0415 - 80 ms that only this needs

    arrays: dict[str, Any] = {}
    for n, name in enumerate(COLUMNS):
        array = np.empty(len(rows), dtype={"INTEGER": "int32", "DOUBLE": "float64"}.get(_NUMBERS.get(name, ""), "O"))
        array[:] = [row[n] for row in rows]
        arrays[name] = array
    typed = ", ".join(f"{name}::{_NUMBERS.get(name, 'VARCHAR')} AS {name}" for name in COLUMNS)
    to_parquet(path, f"SELECT {typed} FROM figures", {"figures": arrays})  # noqa: S608 - our own SQL


def index_of(
    title: str,
    runs: Sequence[SiteRun],
    sheets: Mapping[str, DeviceSheet],
    origins: Mapping[str, Sequence[str]],
    contradictions: Sequence[Contradiction],
) -> dict[str, Any]:
    """Return the content of index.json, for merging this site into another, and for programs. Paths are relative to the site."""
    return {
        "schema_version": SITE_SCHEMA_VERSION,
        "generator": "dutlab",
        "title": title,
        "devices": {name: sheets[name].model_dump(mode="json") if name in sheets else {} for name in sorted({r.device for r in runs})},
        "runs": [
            {
                "folder": r.folder, "page": r.page, "name": r.name, "device": r.device, "experiment": r.experiment, "started": r.started,
                "ended": r.ended, "trials": r.trials, "unsuccessful": r.unsuccessful, "relative": r.relative, "imported": r.imported,
                "manifest_sha256": r.manifest, "modes": list(r.modes), "faults": list(r.faults), "severe": list(r.severe),
                "sites": list(origins.get(r.folder, ())),
                "claims": [
                    {"file": c.file, "claim": c.card.claim, "state": c.state, "differences": list(c.differences)} for c in r.claims
                ],
            }
            for r in runs
        ],
        "contradictions": [
            {
                "device": c.device, "about": c.about, "figure": c.figure, "proven": c.proven,
"claims": [
                    {"file": claim.file, "median": cell.median, "low": cell.low, "high": cell.high}
                    for _, claim, cell in (c.first, c.second)
                ],
            }
            for c in contradictions
        ],
    }  # fmt: skip
