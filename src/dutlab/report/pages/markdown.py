"""The report as Markdown (GitHub's tables): the same answer, tables, doubts and conditions, without plots."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from dutlab.report.model.grid import Grid, Links
from dutlab.report.model.loads import BACKPRESSURE, DELIVERED
from dutlab.report.model.run_report import Matrix, RunReport, Section, Sweep, TrialLine
from dutlab.report.model.value import Figure, Value
from dutlab.report.model.words import (
    KPPS,
    MBPS,
    MICROSECONDS,
    PERCENT,
    TIMES,
    Unit,
    column_words,
    duration_words,
    mix_words,
    numbers_words,
    plural,
)
from dutlab.report.pages.html import figure_text, grid_units, matrix_unit
from dutlab.report.pages.method_words import method_words
from dutlab.report.plots.row_plots import matrix_words

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~])")
_COLUMNS = (
    ("intended_pps", "intended, kpps", KPPS), ("offered_pps", "offered, kpps", KPPS), (BACKPRESSURE, "backpressure, %", PERCENT),
    ("received_pps", "delivered, kpps", KPPS), (DELIVERED, "delivered, %", PERCENT), ("loss_ratio", "lost, %", PERCENT),
    ("received_bps_l1", "L1, Mb/s", MBPS), ("received_bps_l2", "L2, Mb/s", MBPS),
    ("latency_p50_ns", "p50, µs", MICROSECONDS), ("latency_p99_ns", "p99, µs", MICROSECONDS), ("latency_max_ns", "max, µs", MICROSECONDS),
    ("headroom_ratio", "headroom, ×", TIMES),
)  # fmt: skip
_LOADS = (
    "Offered is what left the generator (RFC 2285); backpressure and delivered are shares of what it made, "
    "lost is the share of what was offered."
)


def markdown(runs: Sequence[RunReport]) -> str:
    """All runs, one after the other."""
    return "\n\n".join("\n\n".join(part for part in _parts(r) if part) for r in runs) + "\n"


def _parts(r: RunReport) -> Iterable[str]:
    yield f"# {text(r.experiment)}"
    yield (
        f"Run {text(r.name)} on testbed {text(r.testbed)}, {text(r.started)}: "
        f"{plural(len(r.trials), 'trial')} in {duration_words(r.seconds)}, "
        f"{plural(r.repeats, 'repeat')}, order {text(r.order)} (seed {text(r.seed)})."
    )
    if r.lab is not None:
        yield "> **Embedded lab: relative figures.** Compare modes with one another; the absolute figures say nothing about real hardware."
    if r.busy:
        yield f"> **⚠ {text(r.busy[:1].upper() + r.busy[1:])}**"
    for note in r.severe:
        yield f"> **⚠ {text(note.text)}** (trials {numbers_words(note.trials)}). {text(note.remedy)}. See doubt {note.number}."
    for fault in r.faults:
        yield f"> **⚠ A file of the run cannot be read:** {text(fault)}"
    yield "## Answer"
    yield (
        "\n".join(f"- **{text(h.about)}**: {text(' '.join([h.sentence, *(f'{words}.' for words in h.limits)]))}" for h in r.headlines)
        or ("No two modes have figures that can be compared." if r.matrices or r.sweeps else "")
    )
    yield "\n".join(f"- {text(words)}" for s in r.sections for words in (*s.words, *(f"Not known: {what}." for what in s.unknown)))
    yield text(r.repeated)
    yield "\n".join(f"- {text(words)}" for words in r.per_cpu)
    yield text(r.spread)
    for section in r.sections:
        yield from _section(r, section)
    for m in r.matrices:
        yield from _matrix(r, m)
    for s in r.sweeps:
        yield from _sweep(r, s)
    yield from _limits(r)
    yield from _losses(r)
    yield from _cores(r)
    yield from _findings(r)
    yield from _doubts(r)
    yield from _conditions(r)


def _section(r: RunReport, s: Section) -> Iterable[str]:
    yield f"## {text(s.title)}"
    yield text(s.lead)
    for grid in s.grids:
        yield f"{text(grid.caption)}.{_common(grid.common_marks)}"
        yield _grid(r, grid)


def _grid(r: RunReport, g: Grid) -> str:
    units = grid_units(g)
    head = [f"{text(c.head)}, {u.name}" if c.figure and u.name else text(c.head) for c, u in zip(g.columns, units, strict=True)]
    rows = [
        [
            text(row.label),
            *(_words(r, v) if isinstance(v, str) else _value(r, v, u, g.common_marks) for v, u in zip(row.cells, units, strict=True)),
        ]
        for row in g.rows
    ]
    return markdown_table(["mode", *head], rows)


def _words(r: RunReport, said: str) -> str:
    if not isinstance(said, Links):
        return text(said)
    return " ".join(f"[{text(words)}]({r.folder}/{file})" for words, file in said.links)


def _matrix(r: RunReport, m: Matrix) -> Iterable[str]:
    unit = matrix_unit(m)
    yield f"## {text(matrix_words(m))}, {unit.name}"
    yield f"{text(m.asked)}. Medians over repeats, the spread in brackets.{_common(m.common_marks)}"
    rows = [[text(row.label), *(_value(r, v, unit, m.common_marks) for v in row.values)] for row in m.rows]
    if any(c is not None for c in m.ceilings):
        rows.append(["ceiling of the link", *("" if c is None else unit.number(c) for c in m.ceilings)])
    yield markdown_table(["mode", *(text(column_words(c.links, c.link)) for c in m.columns)], rows)


def _sweep(r: RunReport, s: Sweep) -> Iterable[str]:
    columns = [c for c in _COLUMNS if any(isinstance(p.values[c[0]], Figure) for series in s.series for p in series.points)]
    yield f"## {text(s.workload)}, {text(column_words(s.links, s.link))}"
    yield f"{text(s.asked)}. Frame sizes with FCS; L1 counts preamble and gap, L2 does not. {_LOADS}{_common(s.common_marks)}"
    for name, mix in sorted(s.mixes.items()):
        yield f"{text(name)}: {text(mix_words(mix))}."
    rows = []
    for series in s.series:
        for p in series.points:
            cells = [_value(r, p.values[name], unit, s.common_marks) for name, _, unit in columns]
            if not any(isinstance(p.values[name], Figure) for name, _, _ in columns):  # why there is no result, said once
                cells[1:] = [""] * (len(cells) - 1)
            limit = s.ceilings.get(p.size, {}).get("received_pps")
            rows.append([text(series.label), text(p.size), *cells, *([KPPS.number(limit) if limit else ""] if s.ceilings else [])])
    yield markdown_table(["mode", "frame size", *(words for _, words, _ in columns), *(["ceiling, kpps"] if s.ceilings else [])], rows)


def _limits(r: RunReport) -> Iterable[str]:
    if not r.limits:
        return
    yield "## What limited it"
    rows = []
    for row in r.limits:
        what = ", ".join(part for part in (row.workload, row.size, f"link {row.links}") if part)
        rows.append(
            [
                text(row.label),
                text(what),
                text(row.words),
                row.confidence,
                text(row.because),
                text(row.next_experiment),
            ]
        )
    yield markdown_table(["mode", "what", "verdict", "sure", "because", "what would settle it"], rows)


def _losses(r: RunReport) -> Iterable[str]:
    if places := r.loss_places:
        yield "## Where frames got lost, % of the frames sent"
        shares = [[f"{row.shares[p]:.2%}".rstrip("%") if p in row.shares else "" for p in places] for row in r.losses]
        rows = [[text(row.label), text(f"{row.size}, link {row.link}"), *of] for row, of in zip(r.losses, shares, strict=True)]
        yield markdown_table(["mode", "what", *places], rows)


def _cores(r: RunReport) -> Iterable[str]:
    for cpu in r.cpus:
        kinds = list(dict.fromkeys(kind for row in cpu.rows for kind in row.shares))
        yield f"## Cores of {text(cpu.host)} during {text(cpu.workload)}, % busy"
        rows = [[text(row.label), str(row.core), f"{row.busy:.0f}", *(f"{row.shares.get(k, 0.0):.1f}" for k in kinds)] for row in cpu.rows]
        yield markdown_table(["mode", "core", "busy", *kinds], rows)


def _findings(r: RunReport) -> Iterable[str]:
    if not r.findings:
        return
    yield "## What spoils measurements on this testbed"
    rows = []
    for f in r.findings:
        steps = [_lines(f"{s.host}: {s.command}" for s in of) for of in (f.cure, f.undo)]
        evidence = _lines(f"{e.host}: {e.read}: {e.said}" for e in f.evidence)
        rows.append([text(f"{f.price.words} ({f.price.source})"), text(", ".join(f.where)), text(f.what), evidence, *steps])
    yield markdown_table(["expected cost", "where", "what", "evidence", "cure", "undo"], rows)


def _lines(lines: Iterable[str]) -> str:
    """Several lines in one cell."""
    return "<br>".join(text(line) for line in lines)


def _doubts(r: RunReport) -> Iterable[str]:
    yield "## Doubts"
    lines = []
    for n in r.notes:
        lines.append(f"- **[{n.number}] {n.grade}**: {text(n.text)}. Remedy: {text(n.remedy)}. Trials {numbers_words(n.trials)}.")
        lines += [f"  - {text(d)}" for d in n.details]
    yield "\n".join(lines) or "None was found."
    if r.deviations:
        yield "### Where this departs from RFC 2544"
        yield "\n".join(f"- {text(d)}" for d in r.deviations)
    if r.unsuccessful:
        yield "### Trials without a result"
        rows = [[str(t.number), text(t.label), text(f"{t.asked}, link {t.links}"), t.status, text(t.why)] for t in r.unsuccessful]
        yield markdown_table(["trial", "mode", "what", "status", "why"], rows)


def _conditions(r: RunReport) -> Iterable[str]:
    yield "## Conditions"
    yield text(" ".join(method_words(r)))
    if r.checks:
        rows = [[text(c.mode), text(c.what), f"{c.passed} of {c.total}", text(c.found)] for c in r.checks]
        yield markdown_table(["mode", "what real frames showed", "held", "found"], rows)
    if r.tools:
        yield "\n".join(f"- {text(name)}: {text(said)}" for name, said in r.tools)
    if rows := [[text(f.name), *(text(f.by_host.get(h, "")) for h in r.hosts)] for f in r.facts if f.key]:
        yield markdown_table(["fact", *(f"[{text(h)}]({r.folder}/hosts/{h}.json)" for h in r.hosts)], rows)
    yield "## Repeat it"
    yield f"Each cell was {text(r.repeat_rule)}." if r.repeat_rule else ""
    yield "\n".join(f"    {line}" for line in r.command.splitlines())
    yield (
        f"[MANIFEST.sha256]({r.folder}/MANIFEST.sha256), whose own SHA-256 is {r.manifest}."
        if r.manifest
        else "No manifest: the run has not finished."
    )
    yield "## Every trial"
    yield markdown_table(
        ["trial", "mode", "what", "repeat", "status", "files"],
        [[str(t.number), text(t.label), text(f"{t.asked}, link {t.links}"), str(t.repeat), t.status, _files(t)] for t in r.trials],
    )


def _files(t: TrialLine) -> str:
    return " · ".join(f"[{text(name)}]({href})" for name, href in t.files)


def _value(r: RunReport, value: Value, unit: Unit, common: Sequence[int]) -> str:
    if not isinstance(value, Figure):
        return f"*no result: {text(value.why)}*"
    spread = f" ({unit.number(value.low)}–{unit.number(value.high)})" if value.n > 1 else ""
    severe = {n.number for n in r.severe}
    marks = "".join(f" {'⚠' if m in severe else ''}[{m}]" for m in value.marks if m not in common)
    return f"{text(figure_text(value, unit))}{spread}{marks}"


def _common(marks: Sequence[int]) -> str:
    return f" Doubts about every figure: {', '.join(f'[{m}]' for m in marks)}." if marks else ""


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def text(text: str) -> str:
    """Text from outside as text: no markup of Markdown's or HTML's, no line break that would end a table row."""
    return _SPECIAL.sub(r"\\\1", html.escape(" ".join(text.split()), quote=False))
