"""dutlab measures devices under test; see ARCHITECTURE.md for the map of this package.

Interface for notebooks and programs (docs/reference/notebooks.md). Its modules are imported when they are first used:

    import dutlab

    for run in dutlab.runs("runs"):
        print(run.name, run.answer)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dutlab.notebook import DataTable, Run, compare, run, runs

__all__ = ["DataTable", "Run", "compare", "run", "runs"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'dutlab' has no attribute {name!r}")
    from dutlab import notebook  # noqa: PLC0415 - `dutlab --help` does not need it

    return getattr(notebook, name)
