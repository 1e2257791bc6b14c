"""A publication as HTML, Markdown and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from dutlab.report.model.table import Figure, Missing
from dutlab.report.pages.html import environment, style_sheet
from dutlab.report.pages.markdown import table_markdown, text
from dutlab.report.pages.publication import Publication


def publication_html(publication: Publication) -> str:
    """Return the publication as one HTML page, with the answers on its first screen."""
    templates = environment()
    return templates.get_template("publication.html.j2").render(p=publication, style=style_sheet())


def publication_markdown(publication: Publication) -> str:
    """Return the publication in Markdown, without plots."""
    parts = [f"# {text(publication.title)}", "\n".join(f"- {text(a)}" for a in publication.contents.answers)]
    parts += [text(words) for words in (*publication.certainty, *publication.limits)]
    for table in publication.contents.tables:
        parts += [f"{text(table.caption)}.", table_markdown(table)]
    parts.append("## How it was measured")
    parts += [f"{text(name)}: {text(' '.join(words))}" for name, words in publication.methods]
    return "\n\n".join(part for part in parts if part) + "\n"


def publication_json(publication: Publication) -> str:
    """Return the publication as JSON, with unrounded figures in base units."""
    tables = [
        {
            "slug": t.slug,
            "caption": t.caption,
            "columns": [c.name or c.figure or c.head for c in t.columns],
            "rows": [[asdict(c) if isinstance(c, Figure | Missing) else c for c in row.cells] for row in t.rows],
        }
        for t in publication.contents.tables
    ]
    statements = {
        "answers": publication.contents.answers,
        "certainty": publication.certainty,
        "limits": publication.limits,
        "methods": dict(publication.methods),
    }
    runs = [{"name": r.name, "manifest": r.manifest} for r in publication.runs]
    return json.dumps({"schema_version": 1, "style": publication.style, "runs": runs, "tables": tables, **statements}, indent=1) + "\n"
