"""The report as Markdown (GitHub's tables): the same answer, tables, doubts and conditions, without plots."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from dutlab.report.html import grid_units, matrix_unit
from dutlab.report.model import Figure, Grid, Matrix, RunReport, Section, Sweep, TrialLine, Value
from dutlab.report.row_plots import matrix_words
from dutlab.report.words import (
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

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~])")
_COLUMNS = (
    ("asked_pps", "asked, kpps", KPPS), ("refused_ratio", "refused, %", PERCENT),
    ("sent_pps", "sent, kpps", KPPS), ("received_pps", "received, kpps", KPPS),
    ("received_bps_l1", "L1, Mb/s", MBPS), ("received_bps_l2", "L2, Mb/s", MBPS), ("loss_ratio", "loss, %", PERCENT),
    ("latency_p50_ns", "p50, µs", MICROSECONDS), ("latency_p99_ns", "p99, µs", MICROSECONDS), ("latency_max_ns", "max, µs", MICROSECONDS),
    ("headroom_ratio", "headroom, ×", TIMES),
)  # fmt: skip


def markdown(runs: Sequence[RunReport]) -> str:
    """All runs, one after the other."""
    return "\n\n".join("\n\n".join(part for part in _parts(r) if part) for r in runs) + "\n"


def _parts(r: RunReport) -> Iterable[str]:
    yield f"# {_t(r.experiment)}"
    yield (
        f"Run {_t(r.name)} on testbed {_t(r.testbed)}, {_t(r.started)}: {plural(len(r.trials), 'trial')} in {duration_words(r.seconds)}, "
        f"{plural(r.repeats, 'repeat')}, order {_t(r.order)} (seed {_t(r.seed)})."
    )
    if r.lab is not None:
        yield "> **Embedded lab: relative figures.** Compare modes with one another; the absolute figures say nothing about real hardware."
    for note in r.severe:
        yield f"> **⚠ {_t(note.text)}** (trials {numbers_words(note.trials)}). {_t(note.remedy)}. See doubt {note.number}."
    for fault in r.faults:
        yield f"> **⚠ A file of the run cannot be read:** {_t(fault)}"
    yield "## Answer"
    yield (
        "\n".join(f"- **{_t(h.about)}**: {_t(' '.join([h.sentence, *(f'{words}.' for words in h.limits)]))}" for h in r.headlines)
        or "No two modes have figures that can be compared."
    )
    yield "\n".join(f"- {_t(words)}" for s in r.sections for words in s.words)
    yield _t(r.spread)
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
    yield f"## {_t(s.title)}"
    yield _t(s.lead)
    for grid in s.grids:
        yield f"{_t(grid.caption)}.{_common(grid.common_marks)}"
        yield _grid(r, grid)


def _grid(r: RunReport, g: Grid) -> str:
    units = grid_units(g)
    head = [f"{_t(c.head)}, {u.name}" if c.figure and u.name else _t(c.head) for c, u in zip(g.columns, units, strict=True)]
    rows = [
        [_t(row.label), *(_t(v) if isinstance(v, str) else _value(r, v, u, g.common_marks) for v, u in zip(row.cells, units, strict=True))]
        for row in g.rows
    ]
    return _table(["mode", *head], rows)


def _matrix(r: RunReport, m: Matrix) -> Iterable[str]:
    unit = matrix_unit(m)
    yield f"## {_t(matrix_words(m))}, {unit.name}"
    yield f"{_t(m.asked)}. Medians over repeats, the spread in brackets.{_common(m.common_marks)}"
    rows = [[_t(row.label), *(_value(r, v, unit, m.common_marks) for v in row.values)] for row in m.rows]
    if any(c is not None for c in m.ceilings):
        rows.append(["ceiling of the link", *("" if c is None else unit.number(c) for c in m.ceilings)])
    yield _table(["mode", *(_t(column_words(c.links, c.link)) for c in m.columns)], rows)


def _sweep(r: RunReport, s: Sweep) -> Iterable[str]:
    columns = [c for c in _COLUMNS if any(isinstance(p.values[c[0]], Figure) for series in s.series for p in series.points)]
    yield f"## {_t(s.workload)}, {_t(column_words(s.links, s.link))}"
    yield f"{_t(s.asked)}. Frame sizes with FCS; L1 counts preamble and gap, L2 does not.{_common(s.common_marks)}"
    for name, mix in sorted(s.mixes.items()):
        yield f"{_t(name)}: {_t(mix_words(mix))}."
    rows = []
    for series in s.series:
        for p in series.points:
            cells = [_value(r, p.values[name], unit, s.common_marks) for name, _, unit in columns]
            limit = s.ceilings.get(p.size, {}).get("received_pps")
            rows.append([_t(series.label), _t(p.size), *cells, *([KPPS.number(limit) if limit else ""] if s.ceilings else [])])
    yield _table(["mode", "frame size", *(words for _, words, _ in columns), *(["ceiling, kpps"] if s.ceilings else [])], rows)


def _limits(r: RunReport) -> Iterable[str]:
    if not r.limits:
        return
    yield "## What limited it"
    rows = []
    for row in r.limits:
        what = ", ".join(part for part in (row.workload, row.size, f"link {row.links}") if part)
        rows.append([_t(row.label), _t(what), _t(row.words), row.confidence, _t("; ".join(row.evidence)), _t(row.next_experiment)])
    yield _table(["mode", "what", "verdict", "sure", "because", "what would settle it"], rows)


def _losses(r: RunReport) -> Iterable[str]:
    if places := r.loss_places:
        yield "## Where frames got lost, % of the frames sent"
        shares = [[f"{row.shares[p]:.2%}".rstrip("%") if p in row.shares else "" for p in places] for row in r.losses]
        rows = [[_t(row.label), _t(f"{row.size}, link {row.link}"), *of] for row, of in zip(r.losses, shares, strict=True)]
        yield _table(["mode", "what", *places], rows)


def _cores(r: RunReport) -> Iterable[str]:
    for cpu in r.cpus:
        kinds = list(dict.fromkeys(kind for row in cpu.rows for kind in row.shares))
        yield f"## Cores of {_t(cpu.host)} during {_t(cpu.workload)}, % busy"
        rows = [[_t(row.label), str(row.core), f"{row.busy:.0f}", *(f"{row.shares.get(k, 0.0):.1f}" for k in kinds)] for row in cpu.rows]
        yield _table(["mode", "core", "busy", *kinds], rows)


def _findings(r: RunReport) -> Iterable[str]:
    if not r.findings:
        return
    yield "## What spoils measurements on this testbed"
    rows = []
    for f in r.findings:
        steps = [_lines(f"{s.host}: {s.command}" for s in of) for of in (f.cure, f.undo)]
        evidence = _lines(f"{e.host}: {e.read}: {e.said}" for e in f.evidence)
        rows.append([_t(f"{f.price.words} ({f.price.source})"), _t(", ".join(f.where)), _t(f.what), evidence, *steps])
    yield _table(["expected cost", "where", "what", "evidence", "cure", "undo"], rows)


def _lines(texts: Iterable[str]) -> str:
    """Several lines in one cell."""
    return "<br>".join(_t(text) for text in texts)


def _doubts(r: RunReport) -> Iterable[str]:
    yield "## Doubts"
    lines = []
    for n in r.notes:
        lines.append(f"- **[{n.number}] {n.grade}**: {_t(n.text)}. Remedy: {_t(n.remedy)}. Trials {numbers_words(n.trials)}.")
        lines += [f"  - {_t(d)}" for d in n.details]
    yield "\n".join(lines) or "None was found."
    if r.deviations:
        yield "### Where this departs from RFC 2544"
        yield "\n".join(f"- {_t(d)}" for d in r.deviations)
    if r.unsuccessful:
        yield "### Trials without a result"
        rows = [[str(t.number), _t(t.label), _t(f"{t.asked}, link {t.links}"), t.status, _t(t.why)] for t in r.unsuccessful]
        yield _table(["trial", "mode", "what", "status", "why"], rows)


def _conditions(r: RunReport) -> Iterable[str]:
    yield "## Conditions"
    if r.checks:
        rows = [[_t(c.mode), _t(c.what), f"{c.passed} of {c.total}", _t(c.found)] for c in r.checks]
        yield _table(["mode", "what real frames showed", "held", "found"], rows)
    if r.tools:
        yield "\n".join(f"- {_t(name)}: {_t(said)}" for name, said in r.tools)
    if rows := [[_t(f.name), *(_t(f.by_host.get(h, "")) for h in r.hosts)] for f in r.facts if f.key]:
        yield _table(["fact", *(f"[{_t(h)}]({r.folder}/hosts/{h}.json)" for h in r.hosts)], rows)
    yield "## Repeat it"
    yield "\n".join(f"    {line}" for line in r.command.splitlines())
    yield (
        f"[MANIFEST.sha256]({r.folder}/MANIFEST.sha256), whose own SHA-256 is {r.manifest}."
        if r.manifest
        else "No manifest: the run has not finished."
    )
    yield "## Every trial"
    yield _table(
        ["trial", "mode", "what", "repeat", "status", "files"],
        [[str(t.number), _t(t.label), _t(f"{t.asked}, link {t.links}"), str(t.repeat), t.status, _files(t)] for t in r.trials],
    )


def _files(t: TrialLine) -> str:
    return " · ".join(f"[{_t(name)}]({href})" for name, href in t.files)


def _value(r: RunReport, value: Value, unit: Unit, common: Sequence[int]) -> str:
    if not isinstance(value, Figure):
        return f"*no result: {_t(value.why)}*"
    spread = f" ({unit.number(value.low)}–{unit.number(value.high)})" if value.n > 1 else ""
    severe = {n.number for n in r.severe}
    marks = "".join(f" {'⚠' if m in severe else ''}[{m}]" for m in value.marks if m not in common)
    return f"{unit.number(value.median)}{spread}{marks}"


def _common(marks: Sequence[int]) -> str:
    return f" Doubts about every figure: {', '.join(f'[{m}]' for m in marks)}." if marks else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _t(text: str) -> str:
    """Text from outside as text: no markup of Markdown's or HTML's, no line break that would end a table row."""
    return _SPECIAL.sub(r"\\\1", html.escape(" ".join(text.split()), quote=False))
