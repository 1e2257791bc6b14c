"""Pages of a site about several runs: the list of devices, a page for each device, and the claims to check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from dutlab.publish.compared_devices import DeviceEnds, compared_devices, ends_of
from dutlab.publish.corpus import Contradiction
from dutlab.publish.devices import DeviceSheet
from dutlab.publish.site_run import LARGEST_PAGE, SiteClaim, SiteRun
from dutlab.report.model.glossary import meaning
from dutlab.report.model.words import plural, unit_for, with_two_digits
from dutlab.report.pages.html import SitePlace, environment, style_sheet
from dutlab.store.replace import replace_file

RUNS_A_PAGE = 250
DEVICES_A_PAGE = 400
COMPARED = "compare.html"
_EXCERPTS = LARGEST_PAGE * 3 // 5
"""Most bytes of a device's page for runs with tables and plots; the rest is for its lists."""
_TERMS = ("throughput", "goodput", "mode", "ndr", "pdr", "backpressure", "doubt", "frame size", "imix", "iops", "trial", "repeat", "loss")


@dataclass(frozen=True)
class SiteContents:
    """Contents of the pages."""

    site: Path
    title: str
    url: str
    """Address of the site with a slash at its end; empty if unknown."""
    runs: Sequence[SiteRun]
    """Runs of the site, oldest first."""
    sheets: Mapping[str, DeviceSheet]
    pages: Mapping[str, str]
    """Device → file name in `devices/`."""
    contradictions: Sequence[Contradiction]
    origins: Mapping[str, Sequence[str]]
    """Folder of a run → titles of the sites that it came from."""
    left_out: Sequence[str]

    @cached_property
    def by_device(self) -> dict[str, list[SiteRun]]:
        """Device → its runs, newest first."""
        out: dict[str, list[SiteRun]] = {}
        for run in reversed(self.runs):
            out.setdefault(run.device, []).append(run)
        return dict(sorted(out.items()))

    def sheet_of(self, device: str) -> DeviceSheet:
        """Return the device's sheet. Missing facts are from the testbed file of the device's newest run that states them."""
        sheet = self.sheets.get(device, DeviceSheet())
        about = next((dict(run.about) for run in self.by_device.get(device, ()) if run.about), {})
        price = about.pop("price", "")
        return sheet.model_copy(update={"specification": {**about, **sheet.specification}, "price": sheet.price or price})

    def picture_of(self, device: str) -> str:
        """Return the file name of the device's picture in `devices/`."""
        return f"{self.pages[device].removesuffix('.html')}.png"


class ListedDevice(NamedTuple):
    """Entry of the first page about a device."""

    name: str
    page: str
    """File name in `devices/`."""
    sheet: DeviceSheet
    runs: Sequence[SiteRun]
    """Newest first."""
    ends: Sequence[DeviceEnds]


def write_device(of: SiteContents, device: str) -> None:
    """Write the pages of a device. Raises StoreError."""
    runs, page, sheet = of.by_device[device], of.pages[device], of.sheet_of(device)
    picture = next((run.picture for run in runs if run.picture), b"")
    if picture:
        replace_file(of.site / "devices" / of.picture_of(device), picture)
    excerpts, room = list[str](), _EXCERPTS
    for run in runs:
        size = len(run.excerpt.encode(errors="backslashreplace"))
        if 0 < size <= room:  # a larger one is only listed, so that others fit
            excerpts.append(run.excerpt)
            room -= size
    lists = [runs[n : n + RUNS_A_PAGE] for n in range(0, len(runs), RUNS_A_PAGE)]
    names = [page if n == 1 else page.replace(".html", f"-runs-{n}.html") for n in range(1, len(lists) + 1)]
    place = SitePlace(
        crumbs=((of.title, "../index.html"), ("Devices compared", f"../{COMPARED}"), ("Claims", "../claims.html"), ("Feed", "../feed.xml")),
        described=" ".join(runs[0].fast[:2])[:300] or f"Measurements of {sheet.title or device}.",
        picture=f"{of.url}devices/{of.picture_of(device)}" if of.url and picture else "",
    )
    newest = {mode: run for run in reversed(runs) for mode in run.modes}
    conflicts = [c for c in of.contradictions if c.device == device]
    for n, (name, listed) in enumerate(zip(names, lists, strict=True), 1):
        _write(
            of.site / "devices" / name, "site_device.html.j2", site=place, device=device, sheet=sheet, runs=listed,
            excerpts=excerpts if n == 1 else [], number=n, pages=names, contradictions=conflicts if n == 1 else [],
            modes={mode: (sheet.modes.get(mode, ""), run) for mode, run in newest.items() if mode in sheet.modes or not run.imported},
            terms={t: explanation for t in _TERMS if (explanation := meaning(t))}, claimed=_claimed, ends=ends_of(runs),
        )  # fmt: skip


def write_index(of: SiteContents) -> None:
    """Write the first page, the list of devices. Raises StoreError."""
    devices = [ListedDevice(name, of.pages[name], of.sheet_of(name), runs, ends_of(runs)) for name, runs in of.by_device.items()]
    parts = [devices[n : n + DEVICES_A_PAGE] for n in range(0, len(devices), DEVICES_A_PAGE)] or [[]]
    names = ["index.html" if n == 1 else f"index-{n}.html" for n in range(1, len(parts) + 1)]
    crumbs = (
        ("Devices compared", COMPARED), ("Claims", "claims.html"), ("Feed", "feed.xml"), ("index.json", "index.json"),
        ("runs.parquet", "runs.parquet"),
    )  # fmt: skip
    place = SitePlace(crumbs, described=f"{plural(len(devices), 'device')}, {plural(len(of.runs), 'run')}")
    states = Counter(claim.state for run in of.runs for claim in run.claims)
    for n, (name, part) in enumerate(zip(names, parts, strict=True), 1):
        _write(of.site / name, "site_index.html.j2", site=place, title=of.title, devices=part, states=states,
               any_price=any(d.sheet.price for d in part), any_specification=any(d.sheet.specification for d in part),
               contradictions=of.contradictions, number=n, pages=names)  # fmt: skip


def write_compared(of: SiteContents) -> None:
    """Write the page with every device's results by workload and mode. Raises StoreError."""
    tables = compared_devices(of.by_device, of.sheets)
    place = SitePlace(((of.title, "index.html"), ("Claims", "claims.html"), ("Feed", "feed.xml")), "Devices compared by workload and mode")
    titles = {name: of.sheets[name].title or name if name in of.sheets else name for name in of.by_device}
    _write(of.site / COMPARED, "site_compare.html.j2", site=place, title=of.title, tables=tables, titles=titles, devices=of.pages)


def write_claims(of: SiteContents) -> None:
    """Write the page of claims that differ, contradictions and damaged runs. Raises StoreError."""
    claims = [(run, claim) for run in of.runs for claim in run.claims]
    place = SitePlace(
        ((of.title, "index.html"), ("Devices compared", COMPARED), ("Feed", "feed.xml")), f"{len(claims)} claims, checked against raw files"
    )
    several = [(run, of.origins[run.folder]) for run in of.runs if len(of.origins.get(run.folder, ())) > 1]
    _write(of.site / "claims.html", "site_claims.html.j2", site=place, title=of.title, states=Counter(c.state for _, c in claims),
           differing=[(r, c) for r, c in claims if c.state == "differs"][:RUNS_A_PAGE],
           holding=[(r, c) for r, c in claims if c.state == "holds"][:RUNS_A_PAGE],
           unknown=[(r, c) for r, c in claims if c.state == "not recomputed"][:RUNS_A_PAGE], contradictions=of.contradictions[:RUNS_A_PAGE],
           several=several[:RUNS_A_PAGE], damaged=[r for r in of.runs if r.faults][:RUNS_A_PAGE], left_out=of.left_out[:RUNS_A_PAGE],
           claimed=_claimed)  # fmt: skip


def _claimed(claimed: tuple[SiteRun, SiteClaim, Any]) -> str:
    """Return the median and range of a claim, as `8.77 (8.71 to 8.80) Gb/s`."""
    cell = claimed[2]
    unit = unit_for(cell.figure, [cell.median])
    median, low, high = (with_two_digits(unit, value).number(value) for value in (cell.median, cell.low, cell.high))
    return f"{median} ({low} to {high}) {unit.name}"


def _write(path: Path, template: str, **what: object) -> None:
    text = environment().get_template(template).render(style=style_sheet(), **what)
    replace_file(path, text.encode(errors="backslashreplace"))
