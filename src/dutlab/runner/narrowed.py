"""Work on some cells of a plan, for a gate that measures them again."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from dutlab.plan.cell import Cell
from dutlab.runner.run import Work
from dutlab.store.cell_figures import CellKey, key_of


def narrowed(work: Work, keys: AbstractSet[CellKey]) -> Work:
    """Return the work with only the trials of these cells."""
    trials = tuple(trial for trial in work.plan.trials if not keys.isdisjoint(keys_of(trial.cell)))
    return replace(work, plan=work.plan.model_copy(update={"trials": trials, "estimate_s": sum(trial.estimate_s for trial in trials)}))


def keys_of(cell: Cell) -> tuple[CellKey, CellKey]:
    """Return a cell's own key, and its key for a comparison of kernels."""
    return (key_of(cell), key_of(cell.model_copy(update={"setting": cell.setting.of_any_kernel})))


def with_more_frames(work: Work, times: int) -> Work:
    """Return the work with `times` as many frames from each guest."""
    trials = tuple(
        trial.model_copy(update={"cell": trial.cell.model_copy(update={"setting": trial.cell.setting.with_frames(times)})})
        for trial in work.plan.trials
    )
    return replace(work, plan=work.plan.model_copy(update={"trials": trials}))
