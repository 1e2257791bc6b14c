"""Columns of text for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from dutlab.printable import printable

GAP = "  "


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> Iterator[str]:
    """Lines of a table whose columns are as wide as they need; those numbered in `right` are set to the right.

    What could move the cursor or colour the terminal, as a name from a record might, is shown as `?`.
    """
    shown = [[printable(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[n]) for row in shown) for n in range(len(head))]
    for row in shown:
        cells = (cell.rjust(widths[n]) if n in right else cell.ljust(widths[n]) for n, cell in enumerate(row))
        yield GAP.join(cells).rstrip()
