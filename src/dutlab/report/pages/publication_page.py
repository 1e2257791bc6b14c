"""A publication as HTML, Markdown, CSV (a file a table) and JSON."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict

from dutlab.report.model.value import Figure
from dutlab.report.pages.csv_table import formula_safe
from dutlab.report.pages.html import environment, figure_text, style_sheet
from dutlab.report.pages.markdown import markdown_table, text
from dutlab.report.pages.publication import Cell, Head, Publication, Table


def publication_html(found: Publication) -> str:
    """One page, with what a reader asks first on its first screen."""
    made = environment()
    made.globals |= {"printed": printed, "spread": spread}
    return made.get_template("publication.html.j2").render(p=found, style=style_sheet())


def publication_markdown(found: Publication) -> str:
    """The same without plots."""
    parts = [f"# {text(found.title)}", "\n".join(f"- {text(a)}" for a in found.contents.answers)]
    parts += [text(words) for words in (*found.certainty, *found.limits)]
    for table in found.contents.tables:
        parts.append(f"{text(table.caption)}.")
        rows = [[text(f"{printed(c, h)} {spread(c, h)}".strip()) for c, h in zip(row, table.heads, strict=True)] for row in table.rows]
        parts.append(markdown_table([text(h.words) for h in table.heads], rows))
    parts.append("## How it was measured")
    parts += [f"{text(name)}: {text(' '.join(words))}" for name, words in found.methods]
    return "\n\n".join(part for part in parts if part) + "\n"


def publication_json(found: Publication) -> str:
    """For programs: every figure whole, in base units."""
    tables = [
        {
            "slug": t.slug,
            "caption": t.caption,
            "columns": [h.column for h in t.heads],
            "rows": [[asdict(c) if not isinstance(c, str) else c for c in row] for row in t.rows],
        }
        for t in found.contents.tables
    ]
    said = {"answers": found.contents.answers, "certainty": found.certainty, "limits": found.limits, "methods": dict(found.methods)}
    runs = [{"name": r.name, "manifest": r.manifest} for r in found.runs]
    return json.dumps({"schema_version": 1, "style": found.style, "runs": runs, "tables": tables, **said}, indent=1) + "\n"


def table_csv(table: Table) -> str:
    """As it is printed, in the units of its head: RFC 4180."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([formula_safe(h.column) for h in table.heads])
    for row in table.rows:
        writer.writerow([formula_safe(_plain(c, h)) for c, h in zip(row, table.heads, strict=True)])
    return out.getvalue()


def printed(cell: Cell, head: Head) -> str:
    """One place of a table."""
    if isinstance(cell, str):
        return cell
    if not isinstance(cell, Figure) or not head.unit:
        return "no result"
    return figure_text(cell, head.unit)


def spread(cell: Cell, head: Head) -> str:
    """`8.61–9.02`, where there are repeats."""
    if not isinstance(cell, Figure) or head.unit is None or cell.n < 2:  # noqa: PLR2004 -- one has no spread
        return ""
    return f"({head.unit.number(cell.low)}–{head.unit.number(cell.high)})"


def _plain(cell: Cell, head: Head) -> str:
    """A number that programs read."""
    if isinstance(cell, str):
        return cell
    if not isinstance(cell, Figure) or not head.unit:
        return ""
    return cell.published_in(head.unit.scale) or f"{cell.median / head.unit.scale:.{head.unit.digits}f}"
