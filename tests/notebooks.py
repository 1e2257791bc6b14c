"""Runs the cells of a notebook as Jupyter does, in one namespace and with `await` at their top level, without a kernel."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"


async def cells_run(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """The namespace after the last cell, and what each cell of code ends with: what Jupyter would show."""
    space, shown = {"__name__": "__main__"}, []
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
        shown.append(None)
        for part, mode in ((tree, "exec"), (last, "eval")):
            if part is not None:
                found = eval(compile(part, f"{path.name}, cell {number}", mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), space)
                shown[-1] = await found if inspect.isawaitable(found) else found
    return space, shown
