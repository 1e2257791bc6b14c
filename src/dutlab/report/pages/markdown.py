"""The report as Markdown (GitHub's tables): the same answer, tables, doubts and conditions, without plots."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from dutlab.report.model.run_report import RunReport, Section, TrialLine
from dutlab.report.model.run_tables import check_tables, fact_tables, limit_tables, unsuccessful_tables
from dutlab.report.model.shown_tables import shown_tables
from dutlab.report.model.table import Cell, Figure, Links, Missing, Table, number_text, spread_text
from dutlab.report.model.words import duration_words, folded, numbers_words, plural
from dutlab.report.pages.method_words import method_words

_SPECIAL = re.compile(
    r"(?P<mark>\[\d+\](?![(\[:]))|(?P<inside>(?<=\w)_(?=\w))|(?P<code>`(?! )[\w ./:=,-]+(?<! )`)"
    r"|[\\`*_\[\]|~]|^[#+\-=](?=[ #=\-])|(?<=^\d)[.)](?= )|(?<=\])\("
)
"""Characters that need escaping in Markdown. Numbers of doubts, underscores inside words, and words between backticks need
none."""


def markdown(runs: Sequence[RunReport]) -> str:
    """Return all runs as Markdown, one after another."""
    return "\n\n".join("\n\n".join(part for part in _parts(r) if part) for r in runs) + "\n"


def _parts(r: RunReport) -> Iterable[str]:
    yield f"# {text(r.experiment)}"
    yield (
        f"Run {text(r.name)} on testbed {text(r.testbed)}, {text(r.course.started)}: "
        f"{plural(len(r.trials), 'trial')} in {duration_words(r.course.seconds)}, "
        f"{plural(r.course.repeats, 'repeat')}, order {text(r.course.order)} (seed {text(r.course.seed)})."
    )
    if r.lab is not None:
        yield "> **Embedded lab: relative figures.** Compare modes with one another; absolute figures do not apply to real hardware."
    if r.simulated:
        named = text(", ".join(r.simulated))
        yield f"> **Simulated readings.** Watts, temperatures and figures from them are made up: the readings of {named} are simulated."
    if r.busy:
        yield f"> **⚠ {text(r.busy[:1].upper() + r.busy[1:])}**"
    for note in r.severe:
        yield f"> **⚠ {text(note.text)}** (trials {numbers_words(note.trials)}). {text(note.remedy)}. See doubt {note.number}."
    for fault in r.faults:
        yield f"> **⚠ A file of the run cannot be read:** {text(fault)}"
    yield "## Answer"
    yield from _answer(r)
    for section in r.sections:
        yield from _section(r, section)
    yield from _limits(r)
    yield from _watched(r)
    yield from _findings(r)
    yield from _doubts(r)
    yield from _additions(r)
    yield from _conditions(r)


def _answer(r: RunReport) -> Iterable[str]:
    for head, sentences in (("How fast", r.answer.fast), ("How sure", r.answer.sure), ("Why not faster", (r.answer.limited,))):
        if words := [text(sentence) for sentence in sentences if sentence]:
            yield f"**{head}.** {' '.join(words)}"
    steps = [f"{text(step.words)}{f' `{step.command}`' if step.command and '`' not in step.command else ''}" for step in r.answer.next[:2]]
    yield f"**What next.** {' '.join(steps)}" if steps else ""
    yield from _tables(r.answer.tables, r)
    yield _common(sorted(r.shared_marks), "Doubts about every figure of this report").strip()


def _section(r: RunReport, s: Section) -> Iterable[str]:
    yield f"## {text(s.title)}"
    yield text(s.lead)
    yield "\n".join(f"- {text(words)}" for words in (*s.words, *(f"Not known: {what}." for what in s.unknown)))
    for table, is_shown in shown_tables(r, s):
        yield from _tables([table], r) if is_shown else (f"{text(table.caption)}: in the answer.", *map(text, table.notes))
    if s.deviations:
        yield "### Where this departs from its standard"
        yield "\n".join(f"- {text(d)}" for d in s.deviations)


def table_markdown(t: Table, r: RunReport | None = None) -> str:
    """Return a table as Markdown; `r` is the run of its doubts and files, None in a publication."""
    rows = []
    for row in t.rows:
        cells, gap = [_cell(r, t, i, row.cells[i]) for i in t.shown], t.gap(row) if r else None
        if gap is not None:  # give the reason for missing results once
            cells[gap + 1 :] = [""] * (len(cells) - gap - 1)
        rows.append([*([text(row.label or row.head)] if t.first else []), *cells])
    return markdown_table([*([t.first] if t.first else []), *(text(t.head(i, flat=True).replace("\u00ad", "")) for i in t.shown)], rows)


def _cell(r: RunReport | None, t: Table, i: int, cell: Cell) -> str:
    if isinstance(cell, Links):
        return " ".join(text(words) if to.startswith("#") or r is None else f"[{text(words)}]({r.folder}/{to})" for words, to in cell.links)
    if isinstance(cell, str):
        return text(cell)
    if isinstance(cell, Missing) and cell.greyed is not None:
        return f"*({text(number_text(cell.greyed, t.units[i]))}, disturbed)*"
    if isinstance(cell, Missing):
        return f"*no result: {text(cell.why)}*" if r else "no result"
    spread = spread_text(cell, t.units[i])
    own = cell.marks if r and isinstance(cell, Figure) else ()
    severe = {n.number for n in r.severe} if r else set()
    marks = "".join(f" {'⚠' if m in severe else ''}[{m}]" for m in own if m not in t.common_marks)
    return f"{text(number_text(cell, t.units[i]))}{f' ({spread})' if spread else ''}{marks}"


def _tables(tables: Iterable[Table], r: RunReport) -> Iterable[str]:
    for table in tables:
        yield f"{text(table.caption)}.{_common([m for m in table.common_marks if m not in r.shared_marks])}"
        yield table_markdown(table, r)
        yield from (text(words) for words in table.notes)


def _limits(r: RunReport) -> Iterable[str]:
    if r.limits:
        yield "## What limited it"
        yield from _tables(limit_tables(r.limits, r.trials), r)


def _watched(r: RunReport) -> Iterable[str]:
    for head, tables in (("Where frames got lost", r.watched.losses), ("What the cores did", [cpu.table for cpu in r.watched.cpus])):
        yield f"## {head}" if tables else ""
        yield from _tables(tables, r)


def _findings(r: RunReport) -> Iterable[str]:
    if not r.findings:
        return
    yield "## What distorts results on this testbed"
    rows = []
    for f in r.findings:
        steps = [_lines(f"{s.host}: {s.command}" for s in of) for of in (f.cure, f.undo)]
        evidence = _lines(f"{e.host}: {e.read}: {e.said}" for e in f.evidence)
        rows.append([text(f"{f.price.words} ({f.price.source})"), text(", ".join(f.where)), text(f.what), evidence, *steps])
    yield markdown_table(["expected cost", "where", "what", "evidence", "cure", "undo"], rows)


def _lines(lines: Iterable[str]) -> str:
    """Return several lines as one cell."""
    return "<br>".join(text(line) for line in lines)


def _doubts(r: RunReport) -> Iterable[str]:
    yield "## Doubts"
    lines = []
    for n in r.notes:
        lines.append(f"- **[{n.number}] {n.grade}**: {text(n.text)}. Remedy: {text(n.remedy)}. Trials {numbers_words(n.trials)}.")
        lines += [f"  - {text(d)}" for d in folded(n.details)]
    yield "\n".join(lines) or "No doubts."
    if r.other_deviations:
        yield "### Where this departs from RFC 2544"
        yield "\n".join(f"- {text(d)}" for d in r.other_deviations)
    if r.unsuccessful:
        yield "### Trials without a result"
        yield from _tables(unsuccessful_tables(r.unsuccessful), r)


def _additions(r: RunReport) -> Iterable[str]:
    if not r.additions:
        return
    yield "## Notes and pictures"
    for a in r.additions:
        origin = ", ".join(filter(None, (text(a.added), text(a.by))))
        of_file = f"{a.size_bytes} bytes, SHA-256 {a.sha256}; " if a.file else ""
        link = f"[{text(a.file)}]({a.href}): " if a.file else ""
        facts = f" ({text(a.host)}): {'; '.join(f'{text(name)} {text(value)}' for name, value in a.facts)}" if a.facts else ""
        yield f"{link}{text(a.text)}{facts} ({of_file}{origin})"


def _conditions(r: RunReport) -> Iterable[str]:
    yield "## Conditions"
    yield text(" ".join(method_words(r)))
    yield from _tables(check_tables(r.conditions.checks), r)
    if r.conditions.tools:
        yield "\n".join(f"- {text(name)}: {text(version)}" for name, version in r.conditions.tools)
    yield from _tables((t for t in fact_tables(r.conditions.facts, r.conditions.hosts) if not t.folded), r)
    yield "## Repeat it"
    yield f"Each cell was {text(r.course.repeat_rule)}." if r.course.repeat_rule else ""
    yield "\n".join(f"    {line}" for line in r.course.command.splitlines())
    yield (
        f"[MANIFEST.sha256]({r.folder}/MANIFEST.sha256), whose own SHA-256 is {r.manifest}."
        if r.manifest
        else "No manifest: the run has not finished."
    )
    yield "## Every trial"
    yield markdown_table(
        ["trial", "mode", "what", "repeat", "result", "files"],
        [[str(t.number), text(t.label), text(t.what), str(t.repeat), text(t.result) or t.status, _files(t)] for t in r.listed],
    )
    if more := len(r.trials) - len(r.listed):
        yield f"{more} more of {plural(len(r.trials), 'trial')} are not listed here: [trials]({r.folder}/trials/) has a folder for each."


def _files(t: TrialLine) -> str:
    return " · ".join(f"[{text(name)}]({href})" for name, href in t.files)


def _common(marks: Sequence[int], about: str = "Doubts about every figure") -> str:
    return f" {about}: {', '.join(f'[{m}]' for m in marks)}." if marks else ""


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def text(text: str) -> str:
    """Escape external text: no Markdown or HTML markup, and no line breaks, which would end a table row."""
    return _SPECIAL.sub(
        lambda m: m[0] if m["mark"] or m["inside"] or m["code"] else f"\\{m[0]}", html.escape(" ".join(text.split()), quote=False)
    )
