"""Tables for a terminal of a given width: text is wrapped, spreads are below figures, heat maps are shaded if colour is allowed."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from dutlab.printable import printable
from dutlab.report.model.table import Cell, Figure, Missing, Table, number_text, spread_text

if TYPE_CHECKING:
    from dutlab.report.model.run_report import Answer

GAP = 2
_INDENT = 12
"""Indent of the text after `Limited by`, the longest head of the answer."""
MOST_LINES = 40
"""Largest number of lines of a table in an answer, so that the answer stays on the screen."""
LONGEST_WORD = 24
"""Longest word that is not broken, so that no path or address widens the table."""
_SHADES = {"lower": (58, 94, 130), "higher": (17, 24, 25), "": (237, 239, 241)}
"""Better direction → background colours (of 256): weak, middle, strong. As on pages: amber where less is better, blue where more is."""


_WITH_SPREAD = 2
"""Parts of a figure with a spread."""
_KEPT = "\x01"
"""A space at which no line is broken, while widths are computed."""


@dataclass(frozen=True)
class _Place:
    """A cell as printed: each part begins a line."""

    parts: tuple[str, ...]
    right: bool = False
    fill: int = 0
    """Background colour; 0 for none."""

    @property
    def natural(self) -> int:
        return max(map(len, self.parts), default=0)

    @property
    def least(self) -> int:
        return min(max((len(word) for part in self.parts for word in part.split(" ")), default=0), LONGEST_WORD)

    def lines(self, width: int) -> list[str]:
        return [line for part in self.parts for line in _in_cell(part, width) or [""]]


def _in_cell(part: str, width: int) -> list[str]:
    """Wrap text to `width`; a long sum of names, as `server:d1+server:d2`, breaks after a plus."""
    words = (word.replace("+", "+\0 ") if len(word) > width else word for word in part.split(" "))
    return [line.replace("\0 ", "").replace("\0", "") for line in textwrap.wrap(" ".join(words), width)]


def terminal_answer(answer: Answer, *, name: str, folder: str, width: int = 80, colour: bool = False) -> Iterator[str]:
    """Yield the lines of an answer. Commands name the run by `folder` and are not wrapped, so that they can be pasted."""
    for table in answer.tables:
        lines = list(terminal_table(table, width=width, colour=colour))
        yield from lines[:MOST_LINES]
        if len(lines) > MOST_LINES:
            yield f"… {len(lines) - MOST_LINES} more lines"
        yield ""
    for head, sentences in (("How fast", answer.fast), ("How sure", answer.sure), ("Limited by", (answer.limited,))):
        text = " ".join(filter(None, sentences)).removeprefix(f"{head} ").removeprefix("What limited it is ")
        indent = " " * _INDENT
        yield from _wrapped(text, width, initial_indent=f"{head:<{_INDENT}}", subsequent_indent=indent) if text else ()
    for n, step in enumerate(answer.next):
        head = f"{'' if n else 'Next':<{_INDENT}}"
        yield from _wrapped(step.words, width, initial_indent=head, subsequent_indent=" " * _INDENT)
        if step.command:
            yield f"  {_clean(step.command).replace(name, folder)}"


def terminal_table(table: Table, *, width: int = 80, colour: bool = False) -> Iterator[str]:
    """Yield the lines of a table, then the reasons for missing figures.

    A table that is too wide is split into blocks, one below another; each block repeats the labels and first text columns.
    """
    yield from _wrapped(table.caption, width)
    heads = [*([_Place((table.first,))] if table.first else [])]
    heads += [_Place((_clean(table.head(i, flat=True)),), right=table.columns[i].numeric) for i in table.shown]
    rows = [_row(table, n, colour=colour) for n in range(len(table.rows))]
    of_columns = _with_spreads_inline(list(zip(heads, *rows, strict=True)), width)
    heads, *rows = map(list, zip(*of_columns, strict=True))
    for block in _blocks(of_columns, width):
        widths = _widths([of_columns[n] for n in block], width)
        for nth, line in enumerate((heads, *rows)):
            yield from _lines([line[n] for n in block], widths)
            if nth == 0:
                yield "─" * (sum(widths) + GAP * (len(widths) - 1))
    for words in (*_reasons(table), *table.notes):
        yield from _wrapped(words, width)


def _reasons(table: Table) -> Iterator[str]:
    """Yield the reasons for missing figures; reasons that differ only in numbers appear once."""
    alike: dict[str, list[str]] = {}
    greyed = {cell.why for row in table.rows for cell in row.cells if isinstance(cell, Missing) and cell.greyed is not None}
    for cell in (cell for row in table.rows for cell in row.cells):
        if isinstance(cell, Missing):
            alike.setdefault(re.sub(r"\d+", "#", cell.why), []).append(cell.why)
    for first, *others in alike.values():
        more = sum(why != first for why in others)
        head = "(in brackets)" if first in greyed else "no result"
        yield f"{head}: {first}{f' (with other numbers: {more} more)' if more else ''}"


def _row(table: Table, n: int, *, colour: bool) -> list[_Place]:
    row = table.rows[n]
    out = [_Place((_clean(row.label or row.head),))] if table.first else []
    gap = table.gap(row)
    for place, i in enumerate(table.shown):
        cell = row.cells[i]
        shade = table.shade_percent(cell) if colour else 0
        fill = _SHADES[table.columns[i].better][min(2, shade * 3 // 100)] if shade else 0
        parts = () if gap is not None and place > gap else _parts(table, i, cell)
        out.append(_Place(parts, right=table.columns[i].numeric and not (isinstance(cell, Missing) and cell.greyed is None), fill=fill))
    return out


def _parts(table: Table, i: int, cell: Cell) -> tuple[str, ...]:
    if isinstance(cell, str):
        return (_clean(cell),)
    if isinstance(cell, Missing):
        return ("no result" if cell.greyed is None else f"({number_text(cell.greyed, table.units[i])})",)
    marks = "".join(f" [{m}]" for m in cell.marks if m not in table.common_marks) if isinstance(cell, Figure) else ""
    spread = spread_text(cell, table.units[i]) if table.columns[i].spread else ""
    return (f"{number_text(cell, table.units[i])}{marks}", *([spread] if spread else []))


def _with_spreads_inline(of_columns: Sequence[tuple[_Place, ...]], width: int) -> list[tuple[_Place, ...]]:
    """Return the columns with each spread on the line of its figure, if the table is not wider than `width` then; else unchanged."""
    joined = [(head, *_with_spreads(places)) if head.right else (head, *places) for head, *places in of_columns]
    fits = sum(max(1, *(p.natural for p in of)) + GAP for of in joined) - GAP <= width
    return joined if fits else list(of_columns)


def _with_spreads(places: Sequence[_Place]) -> list[_Place]:
    """Return the figures of a column with their spreads in brackets, in a separate column; unchanged without spreads."""
    ends = [f" ({p.parts[1]})" if len(p.parts) == _WITH_SPREAD else "" for p in places]
    most = max(map(len, ends), default=0)
    if not most:
        return list(places)
    return [
        replace(p, parts=(p.parts[0] + end.ljust(most).replace(" ", _KEPT),)) if p.parts and p.right else p
        for p, end in zip(places, ends, strict=True)
    ]


def _blocks(of_columns: Sequence[Sequence[_Place]], width: int) -> list[list[int]]:
    """Return the columns of each block; text columns before the first figure are in every block, unless they take half of it."""
    least = [max(p.least for p in of) for of in of_columns]
    keys = list(takewhile(lambda n: n == 0 or not of_columns[n][0].right, range(len(of_columns))))
    if sum(least[n] + GAP for n in keys) > width / 2:
        keys = keys[:1]
    blocks = [[*keys]]
    for n in range(len(keys), len(of_columns)):
        if len(blocks[-1]) > len(keys) and sum(least[m] + GAP for m in blocks[-1]) + least[n] > width:
            blocks.append([*keys])
        blocks[-1].append(n)
    return blocks


def _widths(of_columns: Sequence[Sequence[_Place]], width: int) -> list[int]:
    """Return the width of each column; the widest columns shrink if the table is too wide."""
    widths = [max(1, *(p.natural for p in of)) for of in of_columns]
    least = [max(1, *(p.least for p in of)) for of in of_columns]
    while sum(widths) + GAP * (len(widths) - 1) > width and widths != least:
        n = max((n for n, w in enumerate(widths) if w > least[n]), key=lambda n: widths[n])
        widths[n] -= 1
    return widths


def _lines(places: Sequence[_Place], widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of one row."""
    columns = [place.lines(width) for place, width in zip(places, widths, strict=True)]
    for n in range(max(len(lines) for lines in columns)):
        out = []
        for place, lines, width in zip(places, columns, widths, strict=True):
            text = lines[n] if n < len(lines) else ""
            padded = text.rjust(width) if place.right else text.ljust(width)
            out.append(f"\x1b[48;5;{place.fill};97m{padded}\x1b[0m" if place.fill and text else padded)
        yield (" " * GAP).join(out).replace(_KEPT, " ").rstrip()


def _wrapped(text: str, width: int, *, initial_indent: str = "", subsequent_indent: str = "") -> list[str]:
    """Wrap text; a name such as `filter-default` is not broken."""
    return textwrap.wrap(_clean(text), width, break_on_hyphens=False, initial_indent=initial_indent, subsequent_indent=subsequent_indent)


def _clean(text: str) -> str:
    """Return text on one line, without terminal control characters; spaces inside numbers stay."""
    return printable(re.sub(r"[ \t\r\n\f\v]+", " ", text.replace("\u00ad", "")).strip())
