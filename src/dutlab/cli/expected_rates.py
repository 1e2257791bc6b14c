"""Option --expected-from: the limits that an earlier run found, as the expected rates of a search."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dutlab.cli.one_workload import MeasureOptions
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.store.record import TrialRecord

TABLES = ("goals", "throughput")
"""Tables of a record with `lower_pps` in their first row: of workload `search`, of `rfc2544`."""
EXPECTED_FROM = click.option(
    "--expected-from",
    "expected_from",
    metavar="RUN",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Try the limits that RUN found first, with the same mode and links; implies loads_by=fit.",
)


def expected_body(run: Path | None, workload: str, sizes: Sequence[str | int], where: MeasureOptions) -> dict[str, Any]:
    """Return the settings `loads_by` and `expected` from the run; none without a run. `sizes` are those asked for; none is all of the run.

    Raises InputError, StoreError.
    """
    if run is None:
        return {}
    from dutlab.spec.mixes import frame_mix
    from dutlab.store.run_folder import RunFolder

    asked = {frame_mix(size).name for size in sizes}
    rates_by_size = expected_rates(RunFolder.open(run).records(), workload, modes=where.modes, link_sets=where.link_sets)
    rates = {size: rate for size, rate in rates_by_size.items() if not asked or size in asked}
    if not rates:
        raise InputError(f"{run} has no limit of {workload} to expect", remedy=f"name a run of {workload} that found one")
    return {"loads_by": "fit", "expected": {size: f"{rate:.17g}pps" for size, rate in rates.items()}}


def expected_rates(
    records: Iterable[TrialRecord], workload: str, *, modes: Sequence[str], link_sets: Sequence[Sequence[str]] | None
) -> Mapping[str, float]:
    """Return the median lower bound of each link in pps, by the name of the frame size.

    Raises InputError if the modes and links that are asked for leave several limits of one size, since a search has one expected rate.
    """
    from dutlab.store.cell_figures import counts

    rates_by_size: dict[str, dict[tuple[str, tuple[str, ...]], list[float]]] = {}
    for record in records:
        cell, rate = record.cell, _lower_pps(record)
        fits = (not modes or cell.mode in modes) and (link_sets is None or list(cell.links) in [list(links) for links in link_sets])
        if cell.workload == workload and rate is not None and fits and counts(record):
            rates_by_size.setdefault(cell.setting.size, {}).setdefault((cell.mode, cell.links), []).append(rate)
    if several := {size: cells for size, cells in rates_by_size.items() if len(cells) > 1}:
        size, cells = next(iter(several.items()))
        places = ", ".join(f"{mode} on {'+'.join(links)}" for mode, links in cells)
        raise InputError(f"the run has several limits of {size}: {places}", remedy="choose one with --mode and --link")
    return {size: statistics.median(*cells.values()) for size, cells in rates_by_size.items()}


def _lower_pps(record: TrialRecord) -> float | None:
    for name in TABLES:
        for row in record.tables.get(name, ())[:1]:
            if isinstance(rate := row.get("lower_pps"), int | float) and rate > 0:
                return float(rate)
    return None
