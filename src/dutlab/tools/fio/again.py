"""A trial's figures worked out again from fio's own reports, for those who do not take a record's word."""

from __future__ import annotations

from collections.abc import Mapping

from dutlab.plan.cell import Cell
from dutlab.spec.workloads.fio import FioSetting
from dutlab.spec.workloads.pts import PtsSetting
from dutlab.tools.fio import pts
from dutlab.tools.fio.output import jobs_of, total
from dutlab.tools.json_text import UnreadableError, read_object
from dutlab.tools.raw_figures import CannotRecompute, KeptTrial, Recomputed


def again(kept: KeptTrial) -> Recomputed:
    """Those of a trial of fio. Raises CannotRecompute."""
    try:
        return {kept.cell.link_label: figures_again(kept.cell, kept.raw, state=kept.facts.get("state", ""))}
    except (UnreadableError, ValueError) as error:
        raise CannotRecompute(f"its raw files cannot be read: {error}") from error


def figures_again(cell: Cell, raw: Mapping[str, bytes], *, state: str) -> dict[str, float]:
    """Of all drives of the cell together; `state` is what the record calls a test's.

    Raises UnreadableError; ValueError where reports are missing, or the rounds give another verdict.
    """
    if isinstance(cell.setting, PtsSetting):
        rounds = pts.again(cell.setting, raw)
        if (found := pts.state_of(cell.setting, rounds)) != state:
            raise ValueError(f"its rounds are {found}, and the record says {state}")
        return pts.figures_of(cell.setting, rounds)
    if not isinstance(cell.setting, FioSetting):
        raise ValueError(f"raw files of {cell.workload} are not read here")  # noqa: TRY004 -- the caller has one answer for all of them
    reports = [data for name, data in raw.items() if name.startswith("fio-") and name.endswith(".json")]
    if not reports:
        raise ValueError("no report of fio is kept")
    return total([job for data in reports for job in jobs_of(read_object(data)[0])]).figures
