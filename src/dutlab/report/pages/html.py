"""The report as one self-contained HTML file with two colour schemes; all external text is escaped.

Its only script is allowed by hash in the page's policy; the page is complete without it.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dutlab.report.model.glossary import meaning
from dutlab.report.model.notes import DoubtNote
from dutlab.report.model.run_report import RunReport, Section, TrialLine
from dutlab.report.model.run_tables import check_tables, fact_tables, limit_tables, unsuccessful_tables
from dutlab.report.model.shown_tables import shown_tables
from dutlab.report.model.table import Figure, Missing, number_text, spread_text
from dutlab.report.model.words import duration_words, folded, numbers_words, plural
from dutlab.report.pages.method_words import method_words
from dutlab.report.plots.of_report import plots_of
from dutlab.report.plots.palette import DARK, SERIES, dark_rules
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.svg import TOLD_RULE
from dutlab.report.plots.testbed_plot import TESTBED_PLOT

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class SitePlace:
    """Place of a page in a published site. Addresses are relative to the page, or absolute where the site's address is known."""

    crumbs: tuple[tuple[str, str], ...]
    """Text and address of the pages above it and of its neighbours."""
    described: str
    """Description for link previews, a sentence."""
    picture: str = ""
    """Address of a PNG file for link previews; empty without one."""
    trials: Mapping[int, str] = field(default_factory=dict)
    """First trial of a cell → page that lists it; empty if this page lists all trials."""


def html(runs: Sequence[RunReport], plots: Mapping[str, Sequence[Plot]] | None = None, site: SitePlace | None = None) -> str:
    """Return the page of `runs`. `plots` is run name → plots (default: all plots); `site` is the page's place in a published site."""
    plots = {r.name: plots_of(r) for r in runs} if plots is None else plots
    words = page_words(runs, site)
    return environment().get_template("report.html.j2").render(runs=runs, plots=plots, style=style_sheet(), site=site, **words)


def page_words(runs: Sequence[RunReport], site: SitePlace | None = None) -> dict[str, Any]:
    """Return the names that templates use to show tables and doubts of `runs`."""
    place = {r.name: n for n, r in enumerate(runs, 1)}

    def prefix(r: RunReport) -> str:
        """Return the prefix of a run's anchors; empty for a single run."""
        return f"r{place[r.name]}-" if len(runs) > 1 else ""

    groups = {(r.name, t.number): t.group for r in runs for t in r.trials}
    notes = {(r.name, n.number): n for r in runs for n in r.notes}

    def anchor(r: RunReport, value: Figure | Missing) -> str:
        """Return the address of the list of a value's trials and their files."""
        group = groups[r.name, value.trials[0]]
        return f"{site.trials.get(group, '') if site else ''}#{prefix(r)}g{group}"

    def note_of(r: RunReport, number: int) -> DoubtNote:
        return notes[r.name, number]

    def severe_marks(r: RunReport, marks: Sequence[int]) -> list[int]:
        return [m for m in marks if notes[r.name, m].grade == "severe"]

    return {"prefix": prefix, "anchor": anchor, "note_of": note_of, "severe_marks": severe_marks}


def mode_switches(r: RunReport) -> tuple[str, ...]:
    """Return the modes that a reader can hide; none if there is only one, or if there are more modes than colours."""
    return r.labels if 1 < len(r.labels) <= len(SERIES) else ()


def switch_rules(r: RunReport, around: str) -> str:
    """Return CSS that hides a mode whose checkbox in `around` is cleared; it needs no script."""
    out = []
    for n, _ in enumerate(mode_switches(r)):
        off = f"{around}:has(.show-{n}:not(:checked))"
        drawn = (f"{off} figure [{attribute}='{SERIES[n]}']" for attribute in ("fill", "stroke"))
        out.append(f"{','.join(drawn)},{off} tr:has(>th .m{n}){{display:none}}")
    return "".join(out)


@cache
def environment() -> Environment:
    """Return the jinja2 environment of all pages; it escapes all external text and compiles each template once."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - 60 ms that only reports need

    from dutlab.report.pages.compiled import KeptTemplates  # noqa: PLC0415 - as above

    templates = Environment(
        loader=FileSystemLoader(TEMPLATES), bytecode_cache=KeptTemplates(),
        autoescape=True, undefined=StrictUndefined, trim_blocks=False,
    )  # fmt: skip
    templates.filters |= {
        "safe_svg": _ours, "safe_css": _ours, "safe_html": _ours, "code": _code, "breakable": _breakable, "address": _address,
    }  # fmt: skip
    templates.globals |= {
        "doubts_at": "",
        "plural": plural,
        "folded": folded,
        "numbers_words": numbers_words,
        "number_text": number_text,
        "spread_text": spread_text,
        "meaning": meaning,
        "method_words": method_words,
        "colour_place": _colour_place,
        "counts": _counts,
        "all_ranges": _all_ranges,
        "curves_of": _curves_of,
        "shown_tables": shown_tables,
        "cells_of": _cells_of,
        "cpu_plots": _cpu_plots,
        "duration_words": duration_words,
        "limit_tables": limit_tables,
        "check_tables": check_tables,
        "fact_tables": fact_tables,
        "unsuccessful_tables": unsuccessful_tables,
        "mode_switches": mode_switches,
        "switch_rules": switch_rules,
        "script": script,
        "script_hash": script_hash,
        "sort_script": sort_script,
        "sort_hash": sort_hash,
    }
    return templates


def _breakable(text: str) -> Markup:
    """Allow line breaks after each `+`, so that the figures fit next to a long list of links."""
    from markupsafe import escape  # noqa: PLC0415 - comes with jinja2

    return escape(text).replace("+", "+" + _ours("<wbr>"))


def _address(name: str) -> str:
    """Quote a relative path for a link, so that no name becomes a scheme or a query."""
    return quote(os.fsencode(name))


def _ours(text: str) -> Markup:
    """Mark text as safe HTML. Only for output of this package, in which external text is already escaped."""
    from markupsafe import Markup  # noqa: PLC0415 - comes with jinja2

    return Markup(text)  # noqa: S704 - see above


def _code(text: str) -> Markup:
    """Escape text, and mark words between backticks as code."""
    from markupsafe import Markup, escape  # noqa: PLC0415 - as above

    parts = text.split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick is plain text
        return escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if n % 2 else escape(part) for n, part in enumerate(parts))


@cache
def script() -> str:
    """Return the script of interactive figures. Each page contains it, so a page works from a folder too."""
    return (TEMPLATES / "figures.js").read_text(encoding="utf-8")


@cache
def script_hash() -> str:
    """Return the hash of the only script that a page's policy allows (CSP level 3, section 2.3.1)."""
    return _hash(script())


@cache
def sort_script() -> str:
    """Return the script that sorts tables of class `sortable`; without it they are in their first order."""
    return (TEMPLATES / "sort.js").read_text(encoding="utf-8")


@cache
def sort_hash() -> str:
    """Return the hash of that script, as script_hash()."""
    return _hash(sort_script())


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def style_sheet() -> str:
    """Return the CSS of every page: rules, colours of modes, and the dark scheme."""
    modes = "".join(f".m{n}{{color:{light}}}" for n, light in enumerate(SERIES))
    dark_modes = "".join(f".m{n}{{color:{DARK[light]}}}" for n, light in enumerate(SERIES))
    css = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    return f"{css}{modes}{TOLD_RULE}\n@media (prefers-color-scheme:dark){{{dark_modes}\n{dark_rules('figure')}}}"


def _colour_place(r: RunReport, label: str) -> int:
    """Return the colour number of a label; a mode, as in checks, has that of its first label."""
    return r.places.get(label, 0) % len(SERIES)


def _counts(r: RunReport) -> list[tuple[str, int]]:
    statuses = sorted(t.status for t in r.unsuccessful)
    return [(status, len(list(same))) for status, same in groupby(statuses)]


def _all_ranges(r: RunReport) -> bool:
    values = (cell for s in r.sections for t in s.tables for row in t.rows for cell in row.cells)
    return not any(isinstance(v, Figure) and v.interval for v in values)


def _curves_of(section: Section, plots: Sequence[Plot]) -> list[Plot]:
    slugs = {curve.slug for curve in section.curves} | {flame.slug for flame in section.flames}
    slugs |= {TESTBED_PLOT} if section.diagrams else set()
    return [plot for plot in plots if plot.name in slugs]


def _cells_of(trials: Sequence[TrialLine]) -> list[list[TrialLine]]:
    """Return the trials of each cell; trials of a cell follow one another."""
    return [list(same) for _, same in groupby(trials, key=lambda t: t.group)]


def _cpu_plots(plots: Sequence[Plot]) -> list[Plot]:
    return [plot for plot in plots if plot.name.startswith("cpu-")]
