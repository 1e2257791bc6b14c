"""Write reports and plots as files. They are derived from the run, so they replace existing files."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dutlab.by_path import named
from dutlab.choices import FORMATS
from dutlab.errors import InputError
from dutlab.printable import printable
from dutlab.report.gather import gather, read_run, report_of
from dutlab.report.model.run_report import ReadRun, RunReport
from dutlab.report.model.run_tables import check_tables, fact_tables, limit_tables, unsuccessful_tables
from dutlab.report.model.words import plural
from dutlab.report.pages.csv_table import table_csv
from dutlab.report.pages.publication import Publication, publication
from dutlab.report.pages.publication_page import publication_html, publication_json, publication_markdown
from dutlab.report.pages.terminal import terminal_answer, terminal_table
from dutlab.report.plots.curve_plot import curve_plot
from dutlab.report.plots.of_report import plots_of
from dutlab.report.plots.plot import Plot
from dutlab.report.sections.watched import sample_curves, sample_means
from dutlab.store.manifest import DERIVED
from dutlab.store.read import reading
from dutlab.store.replace import file_names, folder_in, replace_file

IMAGES = ("svg", "png")


def write_report(runs: Sequence[Path], *, formats: Sequence[str], out: Path | None) -> list[Path]:
    """Write report.FORMAT for each of `formats` and return the paths. Arguments and exceptions as write_and_gather()."""
    return write_and_gather(runs, formats=formats, out=out)[0]


def write_and_gather(runs: Sequence[Path], *, formats: Sequence[str], out: Path | None) -> tuple[list[Path], list[RunReport]]:
    """Write report.FORMAT for each of `formats`; return the paths and the reports.

    `out` is a folder, or a file if there is one format and the suffix matches; the default is the folder `report` in the first run.
    Raises InputError for an unknown format or a path that is not a run, StoreError if a file cannot be written.
    """
    _insist(formats, FORMATS)
    single = len(formats) == 1 and out is not None and out.suffix == f".{formats[0]}"
    folder = out.parent if single and out else _folder(runs, out)
    reports = _gather(runs, folder)
    data_by_format = _made(reports, formats, runs[0])
    return [replace_file(out if single and out else folder / f"report.{f}", data) for f, data in data_by_format.items()], reports


def report_text(runs: Sequence[Path], format: str) -> bytes:  # noqa: A002 - the word that users write
    """Return the report in one format; links are relative to the first run. Writes nothing. Raises InputError, StoreError."""
    _insist([format], FORMATS)
    return _made(_gather(runs, _folder(runs, None)), [format], runs[0])[format]


def report_finished(runs: Sequence[Path]) -> list[RunReport]:
    """Write the report of each run in every format into its folder, as after every measurement, and return the reports."""
    out = []
    for run in runs:
        (run_report,) = _gather([run], folder := _folder([run], None))
        for f, data in _made([run_report], tuple(FORMATS), run).items():
            replace_file(folder / f"report.{f}", data)
        out.append(run_report)
    return out


def _made(reports: Sequence[RunReport], formats: Sequence[str], run: Path) -> dict[str, bytes]:
    with reading(run):
        return {f: _bytes(named(FORMATS[f])(reports)) for f in dict.fromkeys(formats)}


def print_report(runs: Sequence[Path], *, width: int, colour: bool, verbose: bool = False) -> Iterator[str]:
    """Yield the answer with its tables; with `verbose` every table and note. Writes nothing. Raises InputError, StoreError."""
    for r in _gather(runs, runs[0]):
        yield from _wrapped(r.experiment, width)
        answer = replace(r.answer, tables=() if verbose else r.answer.tables, next=r.answer.next[:-1])  # the last step is this command
        yield from terminal_answer(answer, name=r.name, folder=shlex.quote(str(runs[0].parent / r.name)), width=width, colour=colour)
        if r.busy:
            yield from _wrapped(r.repeated, width)
        if not verbose:
            yield "--verbose prints every table, finding and note"
            continue
        for words in (w for s in r.sections for w in (s.lead, *s.words)):
            yield from _wrapped(words, width)
        of_sections = (table for section in r.sections for table in section.tables)
        of_run = (
            *limit_tables(r.limits, r.trials),
            *unsuccessful_tables(r.unsuccessful),
            *check_tables(r.conditions.checks),
            *fact_tables(r.conditions.facts, r.conditions.hosts),
        )
        for table in (*of_sections, *r.watched.losses, *(cpu.table for cpu in r.watched.cpus), *of_run):
            if not table.folded:
                yield from ("", *terminal_table(table, width=width, colour=colour))
        yield from ("", *_notes(r, width))


def _notes(r: RunReport, width: int) -> Iterator[str]:
    for note in r.notes:
        yield from _wrapped(f"[{note.number}] {note.grade}: {note.text} ({plural(len(note.trials), 'trial')})", width)


def _wrapped(words: str, width: int) -> list[str]:
    return textwrap.wrap(printable(words), width, break_on_hyphens=False)


def print_publication(runs: Sequence[Path], *, style: str, width: int, colour: bool, names: Sequence[str] = ()) -> Iterator[str]:
    """Yield a publication of the runs as lines for a terminal, without plots. Writes nothing. Exceptions as write_publication()."""
    document = _publication(runs, style, runs[0], names)
    for words in (*document.contents.answers, *document.certainty, *document.limits):
        yield from _wrapped(words, width)
    for table in document.contents.tables:
        yield ""
        yield from terminal_table(table, width=width, colour=colour)
    for r in document.runs:
        yield from ("", *_notes(r, width))


def write_publication(
    runs: Sequence[Path], *, style: str, formats: Sequence[str], out: Path | None, names: Sequence[str] = ()
) -> list[Path]:
    """Write the runs as a publication: STYLE.html, .md, .json, and a CSV file per table. Returns the paths.

    `names` replace the names of the runs' experiments, in the order of `runs`; empty for none.

    Raises InputError if the runs have nothing that the style shows, StoreError.
    """
    _insist(formats, FORMATS)
    folder = out or _folder(runs, None)
    document = _publication(runs, style, folder, names)
    makers = {"html": publication_html, "md": publication_markdown, "json": publication_json}
    written = [replace_file(folder / f"{style}.{f}", _bytes(makers[f](document))) for f in dict.fromkeys(formats) if f in makers]
    tables = document.contents.tables if "csv" in formats else ()
    names = file_names(f"{style}-{t.slug}" for t in tables)
    return [*written, *(replace_file(folder / f"{name}.csv", _bytes(table_csv(t))) for name, t in zip(names, tables, strict=True))]


def _publication(runs: Sequence[Path], style: str, folder: Path, names: Sequence[str]) -> Publication:
    paths = list(dict.fromkeys(p.resolve() for p in runs))
    if names and len(names) != len(paths):
        raise InputError(f"{plural(len(names), 'name')} for {plural(len(paths), 'run')}", remedy="give each run one --as, in their order")
    if twice := sorted({name for name in names if list(names).count(name) > 1}):
        raise InputError(f"--as {twice[0]}: names two runs", remedy="give each run its own name")
    reads: list[ReadRun] = []
    for path in paths:
        reads.append(read_run(path, first_note=1 + sum(len(read.book.notes) for read in reads)))
    for n, name in enumerate(names):
        reads[n] = replace(reads[n], experiment={**reads[n].experiment, "name": name})
    with reading(runs[0]):
        return publication(style, reads, [report_of(read, folder.resolve()) for read in reads])


def write_style_plots(runs: Sequence[Path], style: str, *, format: str, out: Path | None, names: Sequence[str] = ()) -> list[Path]:  # noqa: A002 - as below
    """Write every plot of a style as a separate picture, as write_plots() does. Raises the errors of write_publication()."""
    _insist([format], IMAGES)
    document = _publication(runs, style, runs[0], names)
    source = f"{', '.join(r.name for r in document.runs)} · dutlab"
    plots = [replace(plot, source=source) for of in document.contents.plots.values() for plot in of]
    return _write_plots([(plot.name, plot) for plot in plots], out or _folder(runs, None, "plots"), format)


def write_plots(runs: Sequence[Path], *, format: str, out: Path | None) -> list[Path]:  # noqa: A002 - the word that users write
    """Write every plot of the report as a separate picture and return their paths; without `out` into `report/plots` of the first run.

    Raises InputError for an unknown format, StoreError.
    """
    _insist([format], IMAGES)
    folder = out or _folder(runs, None, "plots")
    reports = _gather(runs, folder)
    with reading(runs[0]):
        named = [(f"{r.name}-{plot.name}" if len(reports) > 1 else plot.name, plot) for r in reports for plot in plots_of(r)]
    return _write_plots(named, folder, format)


def write_sample_plots(runs: Sequence[Path], names: Sequence[str], *, format: str, out: Path | None) -> list[Path]:  # noqa: A002 - as above
    """Write plots of samples over the time of their trials, as write_plots() does. Raises InputError for an unknown sample, StoreError."""
    _insist([format], IMAGES)
    folder, named = out or _folder(runs, None, "plots"), list[tuple[str, Plot]]()
    with reading(runs[0]):
        reads = [read_run(path) for path in dict.fromkeys(p.resolve() for p in runs)]
        for name in names:
            curves = [(read, curve) for read in reads for curve in sample_curves(read.run, read.groups, name)]
            if not curves:
                known = sorted({w.name for read in reads for of in sample_means(read).values() for w in of})
                raise InputError(f"{name}: no such sample", remedy=f"these were read: {', '.join(known) or 'none'}")
            plots = [(f"{read.run.name}-" if len(reads) > 1 else "", curve_plot(curve, read.labels)) for read, curve in curves]
            source = f"{', '.join(read.run.name for read in reads)} · dutlab"
            named += [(f"{prefix}{plot.name}", replace(plot, source=source)) for prefix, plot in plots if plot is not None]
    return _write_plots(named, folder, format)


def write_images(plots: Sequence[Plot], folder: Path, *, format: str = "svg") -> list[Path]:  # noqa: A002 - as above
    """Write each plot as NAME.FORMAT into `folder` and return the paths. Raises InputError, StoreError."""
    _insist([format], IMAGES)
    return _write_plots([(plot.name, plot) for plot in plots], folder, format)


def write_image(plot: Plot, path: Path) -> Path:
    """Write a plot in the format of the file's suffix. Raises InputError, StoreError."""
    _insist([path.suffix.removeprefix(".")], IMAGES)
    return replace_file(path, _image(plot, path.suffix.removeprefix(".")))


def _write_plots(named: Sequence[tuple[str, Plot]], folder: Path, format: str) -> list[Path]:  # noqa: A002 - as above
    """Write each plot; names are from records, so they are made safe for files."""
    names = file_names(name for name, _ in named)
    return [replace_file(folder / f"{name}.{format}", _image(plot, format)) for name, (_, plot) in zip(names, named, strict=True)]


def _image(plot: Plot, format: str) -> bytes:  # noqa: A002 - as above
    return plot.svg() if format == "svg" else plot.png()


def _bytes(text: str) -> bytes:
    """Encode text as UTF-8; characters that it cannot hold, such as undecodable bytes of a file name, become escapes."""
    return text.encode(errors="backslashreplace")


def _gather(runs: Sequence[Path], base: Path) -> list[RunReport]:
    """Return the reports, each run once; the numbers of doubts are unique on the whole page."""
    out: list[RunReport] = []
    for path in dict.fromkeys(p.resolve() for p in runs):
        out.append(gather(path, base.resolve(), first_note=1 + sum(len(r.notes) for r in out)))
    return out


def _folder(runs: Sequence[Path], out: Path | None, *below: str) -> Path:
    if not runs:
        raise InputError("no run is named", remedy="name at least one run folder")
    return out or folder_in(runs[0], DERIVED, *below)


def _insist(asked: Sequence[str], known: Collection[str]) -> None:
    if wrong := [f for f in asked if f not in known] or ([] if asked else ["nothing"]):
        raise InputError(f"{', '.join(wrong)}: no such format", remedy=f"choose from {', '.join(known)}")
