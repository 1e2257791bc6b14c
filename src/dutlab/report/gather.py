"""Report model of a run folder. This module reads the run's files; the writers do not."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from dutlab import bounds, outside
from dutlab.by_path import named
from dutlab.doubts import DoubtKind
from dutlab.errors import StoreError
from dutlab.plan.cell import Cell
from dutlab.report.model.course import Conditions, RunCourse, RunWatch
from dutlab.report.model.groups import Group, group, labels_of
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.packets import mtus_of
from dutlab.report.model.run_report import LimitRow, ReadRun, RunReport, Section, TrialLine
from dutlab.report.model.table import Column, Figure, Links, Missing, Table, Value, number_text, without_empty
from dutlab.report.model.watched_means import WatchedKey, means_by_key
from dutlab.report.model.words import Unit, duration_words, unit_for
from dutlab.report.sections.additions import shown_additions
from dutlab.report.sections.answer import answer_of
from dutlab.report.sections.cpu_cost import cpu_cost, speed_sentence
from dutlab.report.sections.device import device_section
from dutlab.report.sections.disturbed import reason_without_rates, repeated, too_busy
from dutlab.report.sections.factors import with_factors
from dutlab.report.sections.facts import fact_rows, tools
from dutlab.report.sections.headline import spread_sentence, with_limits
from dutlab.report.sections.imported import imported_section
from dutlab.report.sections.instructions import instructions_section
from dutlab.report.sections.limits import LimitContext, limits
from dutlab.report.sections.lost_hosts import hosts_lost
from dutlab.report.sections.optics import optics_section
from dutlab.report.sections.pairs import pairs_section
from dutlab.report.sections.power import power_section
from dutlab.report.sections.power_course import power_course
from dutlab.report.sections.profile import profile_section
from dutlab.report.sections.sweep import RATE
from dutlab.report.sections.watched import CoreMeans, checks, core_means, counters, cpus, losses, sample_means, samples_section
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.store.attempts import AttemptReason
from dutlab.store.cell_figures import has_bounds, is_bound
from dutlab.store.manifest import MANIFEST
from dutlab.store.needed import needed_cells, repeat_rule
from dutlab.store.read import dut_of, reading
from dutlab.store.record import TrialRecord
from dutlab.store.record_files import NewerRun
from dutlab.store.record_reader import with_parts
from dutlab.store.run_folder import RunFolder
from dutlab.subject import Way, subject_of
from dutlab.workload_plug import ANY_FIGURES, DRIVE, WorkloadPlug
from dutlab.workloads import WORKLOADS, plug_of

if TYPE_CHECKING:
    from dutlab.analysis.doctor import Finding

T = TypeVar("T")
RFC2544_TRIAL_S = 60
RFC2544_SIZES = {"64", "128", "256", "512", "1024", "1280", "1518"}


def read_run(path: Path, *, first_note: int = 1) -> ReadRun:
    """Read a run folder; a damaged record becomes a fault. Raises InputError if `path` is not a run, NewerRun, StoreError."""
    with reading(path):
        return _read_run(RunFolder.open(path), first_note)


def _read_run(run: RunFolder, first_note: int) -> ReadRun:
    faults: list[str] = []
    resolved, plan = run.resolved, run.plan
    means: dict[int, dict[WatchedKey, float]] = {}

    def keep(record: TrialRecord) -> TrialRecord:
        means[record.trial] = means_by_key(record.watched)
        return with_parts(record, watched={}, interference={host: replace(of, threads={}) for host, of in record.interference.items()})

    records = list(run.readable_records(faults, keep=keep))
    experiment, testbed = _mapping(resolved.get("experiment")), _mapping(resolved.get("testbed"))
    attempts = _or_fault(run.set_aside_records, faults) or []
    facts = _or_fault(run.hosts, faults) or {}
    planned = needed_cells(plan, records)
    labels = labels_of([*planned.values(), *(r.cell for r in records)], _mapping(experiment.get("factors")))
    groups = group(planned, records, labels)
    order, book = tuple(dict.fromkeys(labels.values())), NoteBook(groups, first=first_note)
    return ReadRun(
        run, resolved, experiment, testbed, {name: of for name, of in plan.items() if name != "trials"}, planned, records, means,
        [record for _, record in attempts], [record for reason, record in attempts if reason is AttemptReason.HOST_LOST],
        facts, findings_of(run, faults), groups, order, book, faults,
    )  # fmt: skip


def gather(path: Path, base: Path, *, first_note: int = 1) -> RunReport:
    """Return the report of the run at `path`; links are relative to the folder `base`. Raises the errors of `read_run`."""
    return report_of(read_run(path, first_note=first_note), base)


def report_of(read: ReadRun, base: Path) -> RunReport:
    """Return the report of a run; links are relative to the folder `base`. Raises StoreError."""
    with reading(read.run.path):
        return _report_of(read, base)


def _report_of(read: ReadRun, base: Path) -> RunReport:
    run, experiment, testbed, groups, order, book = read.run, read.experiment, read.testbed, read.groups, read.labels, read.book
    folder = _link(run.path, base)
    records, planned, faults = read.records, read.planned, list(read.faults)
    modes = {cell.mode for cell in (*planned.values(), *(r.cell for r in records))}
    found_sections = (*with_factors(read, sections(read)), *pairs_section(read))
    aside, facts, watched = read.aside, read.facts, sample_means(read)
    means = core_means(watched)
    lab, dut = _lab(testbed, records), dut_of(read.resolved)
    busy = reason_without_rates(records, aside)
    one_bed = experiment.get("bed") != "unknown"
    bed = LimitContext(means, facts, book, dut, mtus_of(testbed), lab=lab is not None, one=one_bed, busy=busy)
    of_drives, ladder, drives = _of_drives(groups, testbed, facts, means)
    found_limits = (*limits(groups, bed), *of_drives)
    of_trial = {r.trial: r for r in records}
    of_row = {(row.label, trial): row for row in found_limits for trial in row.trials}
    cells = [*planned.values()] or [r.cell for r in records]
    slowed = speed_sentence(records)
    run_report = RunReport(
        name=run.name,
        experiment=str(experiment.get("name") or experiment.get("experiment") or run.name),
        testbed=str(testbed.get("name") or testbed.get("testbed") or "not named"),
        lab=lab,
        folder=folder,
        course=_course(read, cells),
        manifest=_manifest(run),
        labels=order,
        modes={g.label: g.cell.mode for g in groups},
        headlines=() if busy else tuple(with_limits(h, of_row) for s in found_sections for h in s.headlines),
        sections=(
            *(_judged(s, of_row) for s in found_sections),
            *ladder,
            *power_section(
                watched, groups, testbed, power_course(read) if any(w.unit == "W" for of in watched.values() for w in of) else ()
            ),
            *profile_section(run, groups, order),
            *instructions_section(run, groups, order),
            *samples_section(watched, groups, testbed),
            *optics_section(facts),
            *imported_section(groups),
            *drives,
            *device_section(testbed, facts, dut),
        ),
        findings=_findings(read),
        limits=found_limits,
        watched=RunWatch(losses(groups), cpus(means, groups, order, dut), counters(groups, order)),
        conditions=Conditions(
            checks(groups),
            tuple(facts),
            fact_rows({host: {k: v for k, v in of.items() if k != "drives"} for host, of in facts.items()}),
            tools(records),
        ),
        trials=tuple(
            _line(of_trial[n], g, run, folder, book) if n in of_trial else _undone(n, planned[n], g) for g in groups for n in g.planned
        ),
        notes=book.notes,
        additions=tuple(shown_additions(run.path, folder, faults)),
        deviations=(
            *_deviations(list({id(cell.setting): cell for cell in cells}.values())),
            *(d for s in found_sections for d in s.deviations),
        ),
        busy=too_busy(records, aside),
        repeated=" ".join(filter(None, (repeated(records, aside), hosts_lost(read.lost)))),
        cpu_cost=cpu_cost(records, aside, modes) if slowed or any(r.doubted(DoubtKind.DISTURBED) for r in (*records, *aside)) else None,
        spread=" ".join(filter(None, (spread_sentence(_rates(found_sections)) if records else "", slowed))),
        faults=tuple(faults),
        simulated=_simulated(records),
    )
    return replace(run_report, answer=answer_of(run_report, groups, book))


def _course(read: ReadRun, cells: Sequence[Cell]) -> RunCourse:
    started = min((r.started for r in read.records), default=None)
    ended = max((r.ended for r in read.records), default=None)
    return RunCourse(
        started=_moment(started),
        ended=_moment(ended),
        seconds=(ended - started).total_seconds() if started and ended else 0.0,
        seed=str(read.plan.get("seed", "not recorded")),
        order=str(read.experiment.get("order") or read.plan.get("order") or "not recorded"),
        repeats=max((c.repeat for c in cells), default=0),
        repeat_rule=rule.words if (rule := repeat_rule(read.plan)) else "",
        command=_command(read),
    )


def _judged(section: Section, of_row: Mapping[tuple[str, int], LimitRow]) -> Section:
    """Return the section with a column `limited by` in its judged tables."""
    return replace(section, tables=tuple(without_empty(_with_limits(t, of_row) if t.judged else t) for t in section.tables))


def _with_limits(table: Table, of_row: Mapping[tuple[str, int], LimitRow]) -> Table:
    rows = []
    for row in table.rows:
        limit = next((of_row[row.label, t] for t in row.trials if (row.label, t) in of_row), None)
        words = "" if limit is None else limit.cause if limit.confidence else "not known"
        ceilings = (*row.ceilings, None) if row.ceilings else ()
        rows.append(replace(row, cells=(*row.cells, Links.of([(words, "#limits")]) if words else ""), ceilings=ceilings))
    return replace(table, columns=(*table.columns, Column("limited by")), rows=tuple(rows))


def _rates(sections: Sequence[Section]) -> list[Value]:
    """Return the main figures of the drawings: all figures by link, the received rate by frame size."""
    drawn = {(t.slug, d.kind): t for s in sections for d in s.drawings for t in s.tables if t.slug == d.table}
    return [
        cell
        for (_, kind), table in drawn.items()
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if isinstance(cell, Figure | Missing) and (kind == "links" or column.figure == RATE)
    ]


def _or_fault(read: Callable[[], T], faults: list[str]) -> T | None:
    """Return the result of `read`; damage becomes a fault and None. Raises NewerRun."""
    try:
        return read()
    except NewerRun:
        raise
    except StoreError as error:
        faults.append(str(error))
    return None


def _of_drives(
    groups: Sequence[Group], testbed: Mapping[str, Any], facts: Mapping[str, Mapping[str, Any]], means: CoreMeans
) -> tuple[tuple[LimitRow, ...], tuple[Section, ...], tuple[Section, ...]]:
    """Return limits of cells on drives, ladder sections and drive sections; empty if no drive is reported or tested."""
    if not (any("drives" in of for of in facts.values()) or any(":" in link for group in groups for link in group.cell.links)):
        return (), (), ()
    from dutlab.report.sections.drive_facts import drives_section  # noqa: PLC0415 -- most runs have no drives
    from dutlab.report.sections.drive_ladder import DriveLadders, ladder_section  # noqa: PLC0415 -- as above
    from dutlab.report.sections.drive_limits import drive_limits  # noqa: PLC0415 -- as above

    ladders = DriveLadders(testbed, facts)
    return drive_limits(groups, ladders, means), ladder_section(groups, ladders), drives_section(facts)


def findings_of(run: RunFolder, faults: list[str]) -> tuple[Finding, ...]:
    """Return the findings of each examination of the testbed, each once. Runs of other tools, and older ones, have none."""
    if not (saved := _or_fault(run.findings, faults)):
        return ()
    from dutlab.analysis.doctor import Finding, by_price  # noqa: PLC0415 -- many rules, and most runs of steps have no finding

    try:
        return tuple(by_price([Finding.from_json(data) for data in saved]))
    except (KeyError, TypeError, ValueError) as error:
        faults.append(f"{run.path / 'doctor.json'}: has an entry that is not a finding: {error!r}")
    return ()


def _findings(read: ReadRun) -> tuple[Finding, ...]:
    """Return the findings about the testbed. If the run measured both directions, its own result replaces the finding about them."""
    if not any(group.main[1] and subject_of(group.main[1]).way is Way.BOTH for group in read.groups):
        return read.findings
    from dutlab.report.sections.both_directions import KIND, both_directions_slower  # noqa: PLC0415 -- most runs have one direction

    measured = both_directions_slower(read.groups)
    return (*measured, *(of for of in read.findings if not measured or of.kind != KIND))


def _line(record: TrialRecord, of: Group, run: RunFolder, linked: str, book: NoteBook) -> TrialLine:
    folder, link = f"{run.path}/trials/{record.trial:04d}", f"{linked}/trials/{record.trial:04d}"
    files = [*record.raw, "samples.parquet"]
    return TrialLine(
        number=record.trial,
        group=of.planned[0],
        status=record.status,
        why=record.why,
        label=of.label,
        workload=record.cell.workload,
        links=record.cell.link_label,
        asked=of.asked,
        repeat=record.cell.repeat,
        started=_moment(record.started),
        seconds=(record.ended - record.started).total_seconds(),
        marks=book.of_trial(record.trial),
        files=(
            ("record.json", f"{link}/record.json"),
            *[
                (name.removeprefix("raw/"), f"{link}/{quoted}")
                for name in files
                if (quoted := _quoted(name)) and os.path.isfile(f"{folder}/{name}")  # noqa: PTH113 - for every file of a run
            ],
        ),
        result=_result(record, of),
    )


def _result(record: TrialRecord, of: Group) -> str:
    """Return the main figure of a trial in the unit of its cell's median; empty without one."""
    figure, link = of.main
    value = record.figures.get(link, {}).get(figure) if figure and record.status == "measured" else None
    if value is None:
        return ""
    middle = of.median(link, figure)
    unit = _unit(figure, value if middle is None else middle)
    return f"{'≥ ' if has_bounds(of.cell) and is_bound(record, link, figure) else ''}{number_text(value, unit)} {unit.name}".strip()


@lru_cache
def _unit(figure: str, value: float) -> Unit:
    """Return the unit of a value; cached, since all trials of a cell have that of its median."""
    return unit_for(figure, [value])


@lru_cache
def _quoted(name: str) -> str:
    """Quote a file name for a link; empty for a path out of the folder, since records are untrusted. Every trial has the same names."""
    return "" if name.startswith("/") or ".." in name.split("/") else quote(os.fsencode(name))


def _undone(number: int, cell: Cell, of: Group) -> TrialLine:
    return TrialLine(
        number=number, group=of.planned[0], status="not done", why="the run ended before it",
        label=of.label, workload=cell.workload, links=cell.link_label,
        asked=of.asked, repeat=cell.repeat, started="", seconds=0.0, marks=(), files=(),
    )  # fmt: skip


def _deviations(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Return deviations from RFC 2544, which its section 3 asks a report to state. It does not cover drives."""
    cells, out = [cell for cell in cells if plug_of(cell.workload).place != DRIVE], []
    short: dict[str, set[float]] = {}
    for cell in cells:
        duration = getattr(cell.setting, "duration_s", None)
        if duration is not None and duration < RFC2544_TRIAL_S:
            short.setdefault(cell.workload, set()).add(float(duration))
    for workload, durations in sorted(short.items()):
        lasted = " or ".join(duration_words(d) for d in sorted(durations))
        out.append(f"{workload}: trials last {lasted}, RFC 2544 section 24 asks for at least {RFC2544_TRIAL_S} s")
    sizes = {c.setting.size for c in cells if not isinstance(c.setting, ImportedSetting)} - {""}  # their sources chose the sizes of imports
    if sizes and (absent := sorted(RFC2544_SIZES - sizes, key=int)):
        out.append(f"frame sizes {', '.join(absent)} of RFC 2544 section 9.1 were not measured")
    departs = {name: named(plug.departs) for name, plug in WORKLOADS.items() if plug.departs and any(c.workload == name for c in cells)}
    sentences = dict.fromkeys(departs[c.workload](c) for c in cells if c.workload in departs)
    return (*out, *filter(None, sentences))


def _lab(testbed: Mapping[str, Any], records: Sequence[TrialRecord]) -> str | None:
    if lab := testbed.get("lab"):
        return str(lab)
    marked = any(r.doubted(DoubtKind.EMBEDDED_LAB) for r in records)
    return str(testbed.get("name") or "embedded") if marked else None


def _simulated(records: Sequence[TrialRecord]) -> tuple[str, ...]:
    """Return the names of simulated sensors, from the doubts of the trials."""
    return tuple(dict.fromkeys(d.detail for r in records for d in r.doubts if d.kind == DoubtKind.SIMULATED_READINGS.name))


def _command(read: ReadRun) -> str:
    """Return the recorded command; for runs without one, a command that reads this folder's files."""
    run, seed, command = read.run, read.plan.get("seed"), read.resolved.get("command")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return shlex.join(command)
    words = ["dutlab", "run", f"{run.name}/experiment.yaml", *(["--set", f"seed={seed}"] if isinstance(seed, int) else [])]
    if (run.path / "testbed.yaml").exists():
        words += ["--testbed", f"{run.name}/testbed.yaml"]
    return shlex.join(words)


def _manifest(run: RunFolder) -> str | None:
    path = run.path / MANIFEST
    return hashlib.sha256(outside.read(path, bounds.MANIFEST)).hexdigest() if path.exists() else None


def _moment(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment else "never"


def _mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON may be any type
    return value if isinstance(value, Mapping) else {}


def _link(path: Path, base: Path) -> str:
    """Return `path` relative to `base`, quoted so that no name becomes a scheme or attribute; bytes that are not UTF-8 are kept."""
    return quote(os.fsencode(os.path.relpath(path, base).replace(os.sep, "/")))


Builder = Callable[[ReadRun, Sequence[Group], Sequence[str], NoteBook], Section]
"""(run, cells of the workload, ordered labels, doubts) → section."""


def sections(read: ReadRun) -> tuple[Section, ...]:
    """Return a section per workload, in the order of WORKLOADS; workloads known only from other tools' files come last."""
    of: dict[str, list[Group]] = {}
    for one in read.groups:
        of.setdefault(one.cell.workload, []).append(one)
    names = (*(name for name in WORKLOADS if name in of), *sorted(of.keys() - WORKLOADS.keys()))
    return tuple(_builder(plug_of(name), of[name])(read, of[name], read.labels, read.book) for name in names)


def _builder(plug: WorkloadPlug, groups: Sequence[Group]) -> Builder:
    """Return the workload's section builder, or the generic one for imported figures that it cannot show."""
    imported = any(isinstance(group.cell.setting, ImportedSetting) for group in groups)
    builder: Builder = named(ANY_FIGURES if plug.settings and imported and not plug.shows_imports else plug.section)
    return builder
