"""Static site of runs and devices, in a folder that any web server or browser can show.

    index.html               the devices
    devices/NAME.html        a device: specification, modes, tables, plots, claims, runs
    compare.html             results of all devices by workload and mode
    claims.html              claims that hold or differ from raw files, contradictions, runs on several sites
    runs/NAME/               the run folder without its journal; its pages and cards are in report/
    runs.parquet index.json  every figure, and the contents of the site, for programs
    feed.xml                 the newest runs (Atom, RFC 4287)

Each call makes all pages again from the runs. To remove a run, remove its folder and publish again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dutlab.bounds import SITE_INDEX
from dutlab.errors import DutlabError, InputError, StoreError
from dutlab.publish.copied_run import copy_run, insist_on_text
from dutlab.publish.corpus import SITE_SCHEMA_VERSION, Contradiction, contradictions, index_of, write_parquet
from dutlab.publish.devices import DeviceSheet, device_of
from dutlab.publish.feed import atom
from dutlab.publish.site_pages import SiteContents, write_claims, write_compared, write_device, write_index
from dutlab.publish.site_run import RunToShow, SiteRun, show_run
from dutlab.report.questions.claims import manifest_hash
from dutlab.store.beneath import Beneath
from dutlab.store.read import read_json
from dutlab.store.replace import file_names, replace_file
from dutlab.store.run_folder import RunFolder
from dutlab.store.write import DiskFull, as_json, stored_at, sweep

INDEX = "index.json"
UNNAMED = "Measurements"
RUNS = "runs"
SHOWN_WHOLE = 3
"""Number of newest runs that a device's page shows with tables and plots; older runs are only listed."""
_AT_ONCE = 8
"""Runs that a process gets at a time."""


@dataclass(frozen=True)
class SiteRequest:
    """Settings of a site."""

    out: Path
    title: str = ""
    """Title; empty to keep the title of the existing site."""
    url: str = ""
    """Address of the site; if empty, links of the feed are relative, and pages name no picture."""
    sheets: Mapping[str, DeviceSheet] | None = None


@dataclass(frozen=True)
class Published:
    """Result of publishing: the site's runs, and notes about them."""

    runs: tuple[SiteRun, ...]
    contradictions: tuple[Contradiction, ...]
    taken_twice: int
    """Number of runs that the site already had, or that came from several sites. Each is shown once."""
    left_out: tuple[str, ...]
    """Runs that could not be added, and the reasons, in sentences."""
    covered: tuple[str, ...] = ()
    """Runs in whose copies secrets were covered, and the kinds of secrets, in sentences."""

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len({r.device for r in self.runs})


def publish(runs: Sequence[Path], asked: SiteRequest) -> Published:
    """Add runs to the site in `asked.out`, which is made if needed. Raises InputError with all faults at once, StoreError."""
    known = _known(asked.out)
    folders, faults = list[RunFolder](), list[str]()
    for path in dict.fromkeys(p.resolve() for p in runs):
        try:
            folders.append(run := RunFolder.open(path))
            manifest_hash(run)
        except DutlabError as error:
            faults.append(f"{error}; only finished runs are published" if isinstance(error, StoreError) else str(error))
    if faults:
        raise InputError("\n".join(faults))
    if not folders and not (asked.out / RUNS).is_dir():
        raise InputError("no run is named", remedy="name at least one run folder, and last the folder of the site")
    with _alone(asked, known):
        folder_by_hash = _held(asked.out)
        covered = list[str]()
        twice = sum(_take(run, asked.out, folder_by_hash, covered, cards=False) is False for run in folders)
        return replace(_build(asked, known, twice, ()), covered=tuple(covered))


def merge(sites: Sequence[Path], asked: SiteRequest) -> Published:
    """Merge several sites into one. Their claim cards do not change. Raises InputError for folders that are not sites, StoreError."""
    known = _known(asked.out)
    read = [(site, _known(site)) for site in sites]
    if wrong := [str(site) for site, of in read if not of.title]:
        raise InputError(f"{', '.join(wrong)}: not a site", remedy=f"name folders that `dutlab publish` wrote: they have {INDEX}")
    with _alone(asked, known):
        twice, left_out, folder_by_hash, covered = 0, list[str](), _held(asked.out), list[str]()
        origins: dict[str, list[str]] = {f: list(of) for f, of in known.origins.items()}
        sheets = dict(known.sheets)
        for site, of in read:
            for name, sheet in of.sheets.items():
                sheets[name] = _joined(sheets[name], sheet, of.title) if name in sheets else sheet
            for path in _run_folders(site):
                try:
                    run = RunFolder.open(path)
                    twice += not _take(run, asked.out, folder_by_hash, covered, cards=True)
                except DutlabError as error:
                    left_out.append(str(error))
                    continue
                titles = origins.setdefault(folder_by_hash[manifest_hash(run)], [])
                titles += [title for title in of.origins.get(path.relative_to(site).as_posix(), [of.title]) if title not in titles]
        built = _build(asked, replace(known, origins=origins, sheets=sheets), twice, tuple(left_out))
        return replace(built, covered=tuple(covered))


@contextmanager
def _alone(asked: SiteRequest, known: _Site) -> Iterator[None]:
    """Lock the site for the block. The folder is a valid site from the beginning, so it is one even after a kill.

    Raises InputError if another process writes there, StoreError.
    """
    with stored_at(asked.out):
        asked.out.mkdir(parents=True, exist_ok=True)
        handle = os.open(asked.out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{asked.out}: another process publishes there", remedy="wait until it has ended") from None
        if not known.title:
            replace_file(asked.out / INDEX, as_json(index_of(asked.title or UNNAMED, [], {}, {}, [])))
        for group in asked.out.glob(f"{RUNS}*"):
            if not group.is_symlink():
                sweep(group)
        yield
    except DiskFull as error:
        raise StoreError(error.what, remedy="free some space and publish again: runs that were taken stay, pages are made again") from error
    finally:
        os.close(handle)


@dataclass(frozen=True)
class _Site:
    """Contents of a site's index.json; empty for a folder that is not a site yet."""

    title: str
    sheets: Mapping[str, DeviceSheet]
    origins: Mapping[str, Sequence[str]]
    """Folder of a run → titles of the sites that it came from."""


def _known(site: Path) -> _Site:
    """Read a site's index. Raises InputError for a folder with other files, and for a site of a newer dutlab."""
    path = site / INDEX
    if not path.exists():
        if site.exists() and (not site.is_dir() or any(site.iterdir())):
            raise InputError(f"{site}: is not empty and not a site", remedy="name a new folder, or one that `dutlab publish` wrote")
        return _Site("", {}, {})
    data: dict[str, Any] = document if isinstance(document := read_json(path, SITE_INDEX), dict) else {}
    if data.get("generator") != "dutlab" or data.get("schema_version") != SITE_SCHEMA_VERSION:
        raise InputError(f"{path}: is not the index of a site that this dutlab can read", remedy="name another folder, or a newer dutlab")
    try:
        sheets = {str(name): DeviceSheet.model_validate(sheet) for name, sheet in data["devices"].items() if sheet}
        origins = {str(run["folder"]): tuple(map(str, run["sites"])) for run in data["runs"] if run["sites"]}
        return _Site(str(data["title"]), sheets, origins)
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise InputError(
            f"{path}: was changed: {str(error).splitlines()[0]}", remedy="publish its runs again into another folder"
        ) from None


def _joined(ours: DeviceSheet, theirs: DeviceSheet, title: str) -> DeviceSheet:
    """Merge two sheets of a device. The first text stays; a different one becomes a caveat, so that readers see both."""
    differences = [f"{title} says of the {key}: {value}" for key in ("price", "status", "author")
            if (value := getattr(theirs, key)) and getattr(ours, key) not in ("", value)]  # fmt: skip
    differences += [f"{title} says of the {k}: {v}" for k, v in theirs.specification.items() if ours.specification.get(k, v) != v]
    filled = {key: value for key, value in theirs.model_dump().items() if not getattr(ours, key)}
    both = {
        "specification": theirs.specification | ours.specification,
        "modes": theirs.modes | ours.modes,
        "runs": tuple(dict.fromkeys((*ours.runs, *theirs.runs))),
        "caveats": tuple(dict.fromkeys((*ours.caveats, *theirs.caveats, *differences))),
    }
    return ours.model_copy(update=filled | both)


def _run_folders(site: Path) -> Iterator[Path]:
    """Yield every folder that may be a run: in `runs`, and for duplicate names in `runs-2` and so on."""
    for group in sorted(site.glob(f"{RUNS}*")):
        if group.is_dir() and not group.is_symlink():
            yield from sorted(p for p in group.iterdir() if p.is_dir() and not p.is_symlink() and not p.name.startswith("."))


def _held(site: Path) -> dict[str, str]:
    """Return hash of the manifest → folder, for each run of the site."""
    folder_by_hash = {}
    for path in _run_folders(site):
        try:
            folder_by_hash[manifest_hash(RunFolder(path))] = path.relative_to(site).as_posix()
        except StoreError:
            continue  # its page reports the fault
    return folder_by_hash


def _take(run: RunFolder, out: Path, held: dict[str, str], covered: list[str], *, cards: bool) -> bool:
    """Copy a run into the site; return False if the site has the run. A sentence about covered secrets is added to `covered`.

    Raises InputError if the folder's name is not UTF-8, and StoreError as copy_run().
    """
    insist_on_text(run)
    known = manifest_hash(run)
    if known in held:
        return False
    groups = (RUNS if n == 1 else f"{RUNS}-{n}" for n in range(1, len(held) + 2))
    goal = next(path for group in groups if not (path := out / group / run.name).exists())
    with stored_at(goal), Beneath.opened(out) as site:
        site.make_folder(goal.parent.name)
    note = copy_run(run, goal, cards=cards)
    held[known] = goal.relative_to(out).as_posix()
    if note:
        covered.append(note)
    return True


def _build(asked: SiteRequest, known: _Site, twice: int, left_out: tuple[str, ...]) -> Published:
    out = asked.out
    sheets = {**known.sheets, **(asked.sheets or {})}
    title = asked.title or known.title or UNNAMED
    wanted = _wanted(asked, sheets)
    shown = _shown(out, wanted)
    conflicts = contradictions(shown)
    url = f"{asked.url.rstrip('/')}/" if asked.url else ""
    contents = SiteContents(out, title, url, shown, sheets, {w.device: w.device_page for w in wanted}, conflicts, known.origins, left_out)
    for device in contents.by_device:
        write_device(contents, device)
    write_claims(contents)
    write_compared(contents)
    write_index(contents)
    replace_file(out / "feed.xml", atom(title, url, shown))
    write_parquet(out / "runs.parquet", [row for run in shown for row in run.figures])
    replace_file(out / INDEX, as_json(index_of(title, shown, sheets, known.origins, conflicts)))
    return Published(tuple(shown), tuple(conflicts), twice, left_out)


def _wanted(asked: SiteRequest, sheets: Mapping[str, DeviceSheet]) -> list[RunToShow]:
    """Return every run with its device, oldest first."""
    folders = sorted(_run_folders(asked.out), key=lambda p: (p.name, p.parent.name))
    devices = []
    for path in folders:
        try:
            resolved = RunFolder(path).resolved
        except DutlabError:
            resolved = {}
        devices.append(device_of(path.name, resolved, sheets))
    names = sorted(set(devices))
    pages = dict(zip(names, (f"{name}.html" for name in file_names(names)), strict=True))
    newest: dict[str, int] = {}
    out = []
    for path, device in zip(reversed(folders), reversed(devices), strict=True):
        newest[device] = number = newest.get(device, 0) + 1
        picture = f"{asked.url.rstrip('/')}/devices/{pages[device].replace('.html', '.png')}" if asked.url else ""
        place = path.relative_to(asked.out).as_posix()
        out.append(RunToShow(place, device, pages[device], number if number <= SHOWN_WHOLE else 0, picture))
    return out[::-1]


def _shown(site: Path, wanted: Sequence[RunToShow]) -> list[SiteRun]:
    """Write the pages of every run, in one process per core if there are enough runs."""
    cores = len(os.sched_getaffinity(0))
    if len(wanted) < 2 * _AT_ONCE or cores == 1:
        return [show_run(site, w) for w in wanted]
    with ProcessPoolExecutor(cores) as pool:
        return list(pool.map(partial(show_run, site), wanted, chunksize=_AT_ONCE))
