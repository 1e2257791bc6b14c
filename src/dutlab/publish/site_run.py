"""One run of a site: its pages, its checked claims, and its entry for the device's page and the indexes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from dutlab import bounds, outside
from dutlab.errors import DutlabError, InputError
from dutlab.publish.verified import verified
from dutlab.report.gather import read_run, report_of
from dutlab.report.model.run_report import ReadRun, RunReport
from dutlab.report.pages.html import SitePlace, environment, html, page_words, style_sheet
from dutlab.report.plots.of_report import plots_of
from dutlab.report.plots.plot import Plot
from dutlab.report.questions.claims import ClaimCard, as_text, cards_of, read_card
from dutlab.report.sections.device import stated_rows
from dutlab.report.sections.power import WATTS
from dutlab.report.sections.watched import sample_means
from dutlab.stats.summary import median
from dutlab.store.cell_figures import cells_of, counts
from dutlab.store.manifest import ADDITIONS, DERIVED, MANIFEST, hashes_of, redacted_files
from dutlab.store.names import trial_folder
from dutlab.store.read import dut_of, reading
from dutlab.store.record import TrialRecord
from dutlab.store.record_files import details_in
from dutlab.store.replace import file_name, file_names, folder_in, replace_file
from dutlab.store.results import CellResult, place_name, results_of
from dutlab.store.run_folder import RunFolder

LARGEST_PAGE = 400_000
"""Size limit of a page in bytes. A larger page has its trials and pictures in files next to it."""
TRIALS_A_PAGE = 400
FILES_A_PAGE = 1_500
_CUT = 4_000
"""Longest command that is shown, in characters."""

FigureRow = tuple[str, str, str, str, int, str, str, str, str, str, int, str, str, float]


@dataclass(frozen=True)
class SiteClaim:
    """Claim card of a run, and the result of its check."""

    file: str
    """Path of the card, relative to the site."""
    card: ClaimCard
    state: Literal["holds", "differs", "not recomputed"]
    differences: tuple[str, ...]


@dataclass(frozen=True)
class SiteRun:
    """Entry of a site about a run."""

    folder: str
    """Folder of the run, relative to the site."""
    name: str
    device: str
    faults: tuple[str, ...] = ()
    experiment: str = ""
    testbed: str = ""
    relative: bool = False
    """True if measured in an embedded lab, so that figures are not those of hardware."""
    imported: bool = False
    started: str = ""
    ended: str = ""
    trials: int = 0
    unsuccessful: int = 0
    manifest: str = ""
    fast: tuple[str, ...] = ()
    sure: tuple[str, ...] = ()
    limited: str = ""
    severe: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    """Specification of the device, as its testbed file states it."""
    claims: tuple[SiteClaim, ...] = ()
    figures: tuple[FigureRow, ...] = field(default=(), repr=False)
    results: tuple[CellResult, ...] = field(default=(), repr=False)
    """Main figures of each cell."""
    watts: Mapping[tuple[str, str], float] = field(default_factory=dict, repr=False)
    """Place and label of a cell → mean power of the DUT in its trials, in W, where a meter was read."""
    excerpt: str = field(default="", repr=False)
    """HTML for the page of its device; empty if the run is only listed there."""
    picture: bytes = field(default=b"", repr=False)
    """PNG of the first plot of the device's newest run; empty for other runs."""

    @property
    def page(self) -> str:
        """Path of the run's page, relative to the site."""
        return f"{self.folder}/{DERIVED}/index.html"


@dataclass(frozen=True)
class RunToShow:
    """Run whose pages are to be written."""

    folder: str
    device: str
    device_page: str
    """File name of the device's page in `devices/`."""
    number: int
    """Number of the run on the page of its device, from 1; 0 if it is only listed there."""
    picture: str
    """Address of the device's picture; empty if the site's address is unknown."""


def show_run(site: Path, wanted: RunToShow) -> SiteRun:
    """Write the pages and cards of a run in `site`. If the run cannot be read, return it with the fault."""
    path = site / wanted.folder
    try:
        with reading(path):
            return _show(site, path, wanted)
    except DutlabError as error:
        return SiteRun(wanted.folder, path.name, wanted.device, faults=(str(error).replace(f"{site}/", ""),))


def _show(site: Path, path: Path, wanted: RunToShow) -> SiteRun:
    read = read_run(path)
    folder = folder_in(path, DERIVED)
    run_report = linked_pictures(report_of(read, folder))
    if run_report.manifest is None:
        raise InputError(f"{path}: has no manifest", remedy="`dutlab resume` finishes it")
    claims, faults = _claims(site, RunFolder(path), run_report, folder)
    plots = plots_of(run_report)
    crumbs = (("All devices", "../../../index.html"), (wanted.device, f"../../../devices/{wanted.device_page}"),
              ("Commands of each mode", "commands.html"), ("Files with their hashes", "files.html"))  # fmt: skip
    place = SitePlace(crumbs, described=_described(run_report), picture=wanted.picture)
    place = _write_run_page(folder, run_report, plots, place)
    _write_commands(folder, run_report, read, place)
    _write_files(path, folder, run_report, place)
    severe = tuple(dict.fromkeys(note.text for note in run_report.severe))
    return SiteRun(
        wanted.folder, run_report.name, wanted.device, faults=(*run_report.faults, *faults),
        experiment=run_report.experiment, testbed=run_report.testbed, relative=run_report.lab is not None,
        imported=any(n.kind == "IMPORTED" for n in run_report.notes), started=run_report.course.started, ended=run_report.course.ended,
        trials=len(run_report.trials), unsuccessful=len(run_report.unsuccessful), manifest=run_report.manifest,
        fast=run_report.answer.fast, sure=run_report.answer.sure,
        limited=run_report.answer.limited, severe=severe, modes=run_report.labels, about=_about(read), claims=claims,
        figures=tuple(_figures(wanted, run_report, read.records)), results=results_of(read.records), watts=_watts(read),
        excerpt=_excerpt(run_report, plots, wanted, place) if wanted.number else "",
        picture=plots[0].png() if plots and wanted.number == 1 else b"",
    )  # fmt: skip


def _about(read: ReadRun) -> dict[str, str]:
    hosts = read.testbed.get("hosts")
    return stated_rows(hosts.get(dut_of(read.resolved))) if isinstance(hosts, Mapping) else {}


def linked_pictures(report: RunReport) -> RunReport:
    """Return the report with added pictures as links to files, not as embedded data."""
    return replace(report, additions=tuple(replace(a, picture=a.href if a.picture else "") for a in report.additions))


def _claims(site: Path, run: RunFolder, report: RunReport, folder: Path) -> tuple[tuple[SiteClaim, ...], list[str]]:
    """Return the checked cards of a run, and faults. Cards of its author are kept; without any, cards are made from its headlines."""
    fresh, faults = cards_of(run, report, folder), list[str]()
    paths = sorted(folder.glob("claim-*.json"))
    if not paths:
        for name, card in fresh.items():
            replace_file(folder / f"{file_name(name.removesuffix('.json'))}.json", as_text(card).encode())
        paths = sorted(folder.glob("claim-*.json"))
    changed = run.verify_manifest()
    if not changed.none_but_redacted:
        faults.append(f"files are not as the manifest says: {changed}"[:500])
    out = []
    for path in paths:
        try:
            card = read_card(path)
            result = verified(card, run, fresh=fresh, changed=changed)
        except DutlabError as error:
            faults.append(str(error).replace(f"{site}/", ""))
            continue
        out.append(SiteClaim(path.relative_to(site).as_posix(), card, result.state, result.differences))
    return tuple(out), faults


def _write_run_page(folder: Path, report: RunReport, plots: Sequence[Plot], place: SitePlace) -> SitePlace:
    """Write the run's page; return `place` with the pages of the trials."""
    page = html([report], {report.name: plots}, place)
    if len(report.listed) < len(report.trials) or len(page.encode(errors="backslashreplace")) > LARGEST_PAGE:
        names = file_names(plot.name for plot in plots)
        for name, plot in zip(names, plots, strict=True):
            _write(folder / f"{name}.svg", plot.svg().decode())
        linked_plots = [
            _LinkedPlot(**{**plot.__dict__, "address": f"{name}.svg", "explored": None}) for name, plot in zip(names, plots, strict=True)
        ]
        pages = [report.trials[n : n + TRIALS_A_PAGE] for n in range(0, len(report.trials), TRIALS_A_PAGE)]
        where = {t.number: f"trials-{n}.html" for n, of_page in enumerate(pages, 1) for t in of_page if t.number == t.group}
        place = replace(place, trials=where)
        context = {**page_words([report], place), "doubts_at": "index.html", "style": style_sheet(), "site": place}
        for n, of_page in enumerate(pages, 1):
            template = environment().get_template("site_trials.html.j2")
            text = template.render(r=report, trials=of_page, number=n, pages=len(pages), **context)
            _write(folder / f"trials-{n}.html", text)
        page = html([report], {report.name: linked_plots}, place)
    _write(folder / "index.html", page)
    return place


@dataclass(frozen=True)
class _LinkedPlot(Plot):
    """Plot that a page shows from a file next to it."""

    address: str = ""

    def inline(self) -> str:
        from markupsafe import escape  # noqa: PLC0415 - comes with jinja2

        return f'<img src="{escape(self.address)}" alt="{escape(self.described)}" loading="lazy">'


def _write_commands(folder: Path, report: RunReport, read: ReadRun, place: SitePlace) -> None:
    """Write every command of each mode once, in the order of their first use."""
    by_mode: dict[str, dict[tuple[str, str], None]] = {}
    aside = zip(read.aside, (attempt.folder for attempt in read.run.attempts()), strict=False)
    folders = [*aside, *((r, trial_folder(read.run.path, r.trial)) for r in read.records)]
    for record, folder_of in sorted(folders, key=lambda of: of[0].started):
        of_mode = by_mode.setdefault(record.cell.mode, {})
        of_mode |= dict.fromkeys((c.host, shlex.join(c.argv)[:_CUT]) for c in details_in(folder_of).commands)
    room = LARGEST_PAGE
    shown: list[tuple[str, list[tuple[str, str]], int]] = []
    for mode, commands in by_mode.items():
        lines = []
        for host, command in commands:
            room -= len(command.encode(errors="replace")) + len(host) + 120
            if room > 0:
                lines.append((host, command))
        shown.append((mode, lines, len(commands) - len(lines)))
    text = environment().get_template("site_commands.html.j2").render(r=report, modes=shown, style=style_sheet(), site=_back(place))
    _write(folder / "commands.html", text)


def _write_files(path: Path, folder: Path, report: RunReport, place: SitePlace) -> None:
    text = outside.read(path / MANIFEST, bounds.MANIFEST).decode(errors="surrogateescape")
    covered = redacted_files(path)
    files = [(name, covered[name]["sha256"] if name in covered else digest) for name, digest in hashes_of(text, path / MANIFEST).items()]
    files += [(f"{ADDITIONS}/{a.file}", a.sha256) for a in report.additions if a.file]
    pages = [files[n : n + FILES_A_PAGE] for n in range(0, len(files), FILES_A_PAGE)] or [[]]
    template = environment().get_template("site_files.html.j2")
    for n, of_page in enumerate(pages, 1):
        name = "files.html" if n == 1 else f"files-{n}.html"
        _write(
            folder / name,
            template.render(r=report, files=of_page, covered=covered, number=n, pages=len(pages), style=style_sheet(), site=_back(place)),
        )


def _back(place: SitePlace) -> SitePlace:
    return replace(place, crumbs=(*place.crumbs[:2], ("The run", "index.html")))


def _excerpt(report: RunReport, plots: Sequence[Plot], wanted: RunToShow, shown: SitePlace) -> str:
    """Return the HTML of a run for its device's page. Links of figures and doubts lead to the pages of the run and its trials."""
    template = environment().get_template("site_excerpt.html.j2")
    text = template.render(r=report, plots=plots, number=wanted.number, **page_words([report], shown))
    place = quote(wanted.folder)
    text = text.replace(f'href="{report.folder}/', f'href="../{place}/')
    text = text.replace('href="trials-', f'href="../{place}/{DERIVED}/trials-')
    return text.replace('href="#', f'href="../{place}/{DERIVED}/index.html#')


def _described(report: RunReport) -> str:
    return " ".join(report.answer.fast[:2])[:300] or f"Measurements of {report.experiment}."


def _figures(wanted: RunToShow, report: RunReport, records: Sequence[TrialRecord]) -> list[FigureRow]:
    out = []
    for r in records:
        if not counts(r):
            continue
        cell = (
            wanted.device, report.name, report.experiment, str(report.manifest), r.trial, r.cell.mode, _factors(r.cell.factors),
            r.cell.workload, r.cell.link_label, r.cell.setting.size, r.cell.repeat,
        )  # fmt: skip
        out += [(*cell, link, figure, value) for link, of_link in r.figures.items() for figure, value in of_link.items()]
    return out


def _watts(read: ReadRun) -> dict[tuple[str, str], float]:
    """Return SiteRun.watts. Of several meters of the DUT it is the one that reads most, which has all that is plugged into it."""
    dut, watched, out = dut_of(read.run.resolved), sample_means(read), dict[tuple[str, str], float]()
    for of in cells_of(read.records).values():
        means = []
        for record in of.records:
            readings = [value for key, value in watched.get(record.trial, {}).items() if key.where == dut and key.unit == WATTS.name]
            means += [max(readings)] if readings else []
        if means:
            levels = {name: level for name, level in of.cell.factors.items() if name != "mode"}
            label = " · ".join([of.cell.mode, *(f"{name} {levels[name]}" for name in sorted(levels))])
            out[place_name(of.cell), label] = median(means)
    return out


def _factors(factors: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={level}" for name, level in sorted(factors.items()) if name != "mode")


def _write(path: Path, text: str) -> None:
    replace_file(path, text.encode(errors="backslashreplace"))
