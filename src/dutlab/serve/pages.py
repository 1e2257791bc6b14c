"""Contents of each page: templates filled from the index, run folders and formulas. This module uses addresses, but no HTTP."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from pydantic import ValidationError

from dutlab.analysis.doctor import Finding
from dutlab.choices import STATUSES
from dutlab.errors import DutlabError, InputError
from dutlab.interop.metrics import RunMetrics
from dutlab.physics.ceilings.ceiling import Ceiling
from dutlab.physics.ceilings.ethernet import Ip, ethernet_ceilings, tcp_ceilings, udp_ceilings
from dutlab.physics.ceilings.storage import Array, DriveRating, raid_ceilings
from dutlab.physics.ceilings.tunnel import TUNNELS, tunnel_ceilings
from dutlab.publish.site_run import linked_pictures
from dutlab.report.gather import findings_of, read_run, report_of
from dutlab.report.model.contests import CompareRequest
from dutlab.report.model.ends import end_words
from dutlab.report.model.table import Table, word_table
from dutlab.report.model.words import plural
from dutlab.report.pages.html import SitePlace, environment, html
from dutlab.report.questions.compared import compare_modes, compare_runs
from dutlab.report.questions.compared_words import compared_rows, compared_words
from dutlab.report.questions.histories import HEADS, histories, history_plot, history_rows
from dutlab.report.questions.ratio_rows import compared_plot
from dutlab.report.questions.sides import open_run, require_different_runs, side_names
from dutlab.serve.live import RunStage, RunState
from dutlab.serve.served_runs import ServedRuns
from dutlab.spec.mixes import Mix
from dutlab.store.index import Wanted, choices, count_runs, doubted_trials, figures_of, list_runs, results_in
from dutlab.store.manifest import DERIVED, MANIFEST
from dutlab.store.results import best_and_worst
from dutlab.store.run_folder import RunFolder
from dutlab.units import RFC2544_FRAME_SIZES, BpsL1, UnitError, parse_amount, parse_bit_rate

A_PAGE = 50
_MOST_COMPARED, _MOST_SHOWN = 8, 60
_KEPT_BYTES = 64 << 20
"""Size limit of all cached reports together, in characters."""
_FILTERS = ("words", "experiment", "testbed", "mode", "workload", "status", "doubt", "since", "until")
_DOUBTS = ("severe", "warning", "note", "none")


@dataclass
class Pages:
    """All pages as HTML."""

    runs: ServedRuns
    root: str = ""
    """Path prefix of every address."""
    has_login: bool = False
    has_control: bool = False
    _reports: OrderedDict[tuple[str, object], str] = field(default_factory=OrderedDict)
    _metrics: dict[str, RunMetrics] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, name: str) -> Path:
        """Return the folder of a run. Raises FileNotFoundError, InputError."""
        return self.runs.folder(name)

    def page(self, template: str, **variables: Any) -> str:  # noqa: ANN401 - any variable of a template
        """Fill the template `serve_TEMPLATE.html.j2`."""
        shown = environment().get_template(f"serve_{template}.html.j2")
        return shown.render(root=self.root, has_login=self.has_login, has_control=self.has_control, doubts_at="", **variables)

    def run_list(self, asked: Mapping[str, str], **variables: Any) -> str:  # noqa: ANN401 - as above
        """Return the list of runs, newest first, filtered by the fields of `asked`."""
        filters = {name: asked.get(name, "").strip()[:200] for name in _FILTERS}
        wanted = Wanted(**filters)
        number = max(1, int(page)) if (page := asked.get("page", "1")).isascii() and page.isdigit() and len(page) < 7 else 1  # noqa: PLR2004
        with self.runs.index() as index:
            total = count_runs(index, wanted)
            number = min(number, max(1, -(-total // A_PAGE)))
            runs = list_runs(index, wanted, limit=A_PAGE, skip=(number - 1) * A_PAGE)
            offered, away = choices(index), self.runs.away(index, [line.name for line in runs])
            results = results_in(index, [line.name for line in runs])
        address = urlencode({name: value for name, value in filters.items() if value})
        return self.page(
            "runs", found=runs, away=away, results={name: [end_words(ends) for ends in best_and_worst(of)] for name, of in results.items()},
            of_fleet=self.runs.of_fleet, total=total,
            number=number, pages=max(1, -(-total // A_PAGE)), given=filters, narrowed=any(filters.values()),
            address=address, choices={**offered, "status": list(STATUSES), "doubt": list(_DOUBTS)}, **variables,
        )  # fmt: skip

    def report(self, name: str) -> str:
        """Return the report of a run, cached until the run changes. Raises DutlabError, FileNotFoundError."""
        path = self.run(name)
        key = (name, _signature(path))
        with self._lock:
            if (known_page := self._reports.get(key)) is not None:
                self._reports.move_to_end(key)
                return known_page
        read = read_run(path)
        run_report = linked_pictures(report_of(read, path / DERIVED))
        crumbs = [("All runs", f"{self.root}/"), ("Watch", f"{self.root}/runs/{name}/live"), ("Files", f"{self.root}/runs/{name}/")]
        crumbs.append(("Its modes compared", f"{self.root}/compare?{urlencode({'run': name})}"))
        place = SitePlace(tuple(crumbs), described=f"Measurements of {run_report.experiment}.")
        page = html([run_report], site=place)
        with self._lock:
            self._reports[key] = page
            while len(self._reports) > 1 and sum(map(len, self._reports.values())) > _KEPT_BYTES:
                self._reports.popitem(last=False)
        return page

    def live(self, name: str, form: str, now: str, stage: RunStage) -> str:
        """Return the page to watch a run; `now` is its changing part, from live_part()."""
        return self.page("live", name=name, stage=stage.value, form=form, now=now)

    def live_part(self, state: RunState, now: datetime, fault: str) -> str:
        """Return the changing part of the page to watch a run."""
        shown = environment().get_template("serve_now.html.j2")
        return shown.render(s=state, now=now, fault=fault, root=self.root, name=state.run.name)

    def compare(self, names: Sequence[str]) -> str:
        """Compare runs with the first one, or the modes of a single run. Raises InputError, StoreError, FileNotFoundError."""
        if not 0 < len(names) <= _MOST_COMPARED:
            raise InputError(f"{plural(len(names), 'run')} to compare", remedy=f"select 1 to {_MOST_COMPARED}: the first is the baseline")
        require_different_runs([self.run(name) for name in names])
        opened_runs = [open_run(self.run(name)) for name in names]
        asked = CompareRequest((), lambda _: None, None)
        try:
            if len(opened_runs) == 1:
                comparisons = list(compare_modes(opened_runs[0], baseline=None, asked=asked))
            else:
                of = side_names([[run] for run in opened_runs])
                comparisons = [
                    compare_runs(opened_runs[:1], [r], asked, names=(of[0], n)) for r, n in zip(opened_runs[1:], of[1:], strict=True)
                ]
        except ValueError as error:
            raise InputError(str(error)) from None
        pairs = [
            (p, _words(*compared_rows(p), right={1, 2, 3}), list(compared_words(p)),
             _words(("what", "first", "second"), [(d.path, d.first[:80], d.second[:80]) for d in p.differences[:_MOST_SHOWN]]))
            for p in comparisons
        ]  # fmt: skip
        try:
            drawn = compared_plot(comparisons, None)
        except InputError:  # no cell has a ratio
            drawn = None
        return self.page("compare", names=names, pairs=pairs, plot=drawn)

    def history(self, experiment: str, figure: str) -> str:
        """Return the figures of an experiment over all its runs, and their changes. Raises InputError."""
        with self.runs.index() as index:
            known = choices(index)["experiment"]
            rows = list(figures_of(index, experiment)) if experiment else []
        if experiment and not rows:
            raise InputError(f"no run of {experiment} has a result", remedy="choose another experiment")
        series = histories(rows, [figure] if figure else ()) if rows else ()
        drawn = [(p, h) for n, h in enumerate(series[:_MOST_SHOWN], 1) if (p := history_plot(h, n)) is not None]
        table = _words(HEADS, history_rows(series), right={2, 3})
        return self.page("history", experiment=experiment, known=known, lines=table, found=series, drawn=drawn, figure=figure)

    def testbeds(self) -> str:
        """Return the testbeds of all runs: newest run, running runs, and the findings of the newest run."""
        with self.runs.index() as index:
            names = choices(index)["testbed"]
            rows = [
                (name, count_runs(index, Wanted(testbed=name)), list_runs(index, Wanted(testbed=name), limit=1)[0],
                 list_runs(index, Wanted(testbed=name, status="running")))
                for name in names[:_MOST_SHOWN]
            ]  # fmt: skip
            doubted = [doubted_trials(index, newest.name) for _, _, newest, _ in rows]
        shown = [(*row, trials, self._findings(row[2].name)) for row, trials in zip(rows, doubted, strict=True)]
        return self.page("testbeds", rows=shown, of_fleet=self.runs.of_fleet)

    def _findings(self, run: str) -> Sequence[Finding] | None:
        """Return the findings of a run; None if they cannot be read."""
        try:
            return findings_of(RunFolder.open(self.run(run)), [])
        except (DutlabError, OSError):
            return None

    def limits(self, asked: Mapping[str, str]) -> str:
        """Return the ceilings of a link and of an array of drives, for the numbers in `asked`. Faults in these are shown on the page."""
        numbers = {name: (asked.get(name) or usual).strip()[:100] for name, usual in _LIMITS.items()}
        tables, faults = [], []
        for title, make in (("Ethernet", _ethernet), ("TCP and UDP", _goodput), ("Tunnels", _tunnels), ("Array of drives", _array)):
            try:
                if ceilings := list(make(numbers)):
                    rows = [(c.about, c.what, c.words, f"= {c.formula}") for c in ceilings]
                    sources = sorted({c.source for c in ceilings})
                    tables.append((title, _words(("of", "figure", "at most", "formula"), rows, right={2}), sources))
            except (ValueError, UnitError, KeyError) as error:
                reason = "; ".join(e["msg"] for e in error.errors()) if isinstance(error, ValidationError) else str(error)
                faults.append(f"{title}: {reason}")
        return self.page("limits", given=numbers, tables=tables, faults=faults)

    def metrics(self, *, openmetrics: bool) -> str:
        """Return the metrics of all running runs for Prometheus; if none is running, those of the newest run."""
        with self.runs.index() as index:
            lines = list_runs(index, Wanted(status="running"), limit=A_PAGE) or list_runs(index, Wanted(), limit=1)
            away = self.runs.away(index, [line.name for line in lines])
        folders = {line.name: self.run(line.name) for line in lines if line.name not in away}
        with self._lock:
            self._metrics = {name: self._metrics.get(name) or RunMetrics(folder) for name, folder in folders.items()}
            return together(self._metrics.values(), openmetrics=openmetrics)


_LIMITS = {
    "speed": "10G", "frames": " ".join(map(str, RFC2544_FRAME_SIZES)), "mtu": "1500", "ip": "4", "vlan": "0",
    "raid": "5", "drives": "8", "read_iops": "", "write_iops": "",
}  # fmt: skip


def _ethernet(given: Mapping[str, str]) -> Sequence[Ceiling]:
    sizes = given["frames"].replace(",", " ").split()[:32]
    return ethernet_ceilings(BpsL1(parse_bit_rate(given["speed"])), {s: Mix.model_validate(s).mean for s in sizes})


def _goodput(given: Mapping[str, str]) -> Sequence[Ceiling]:
    speed, mtu, ip, tags = BpsL1(parse_bit_rate(given["speed"])), int(given["mtu"]), Ip[f"V{given['ip']}"], int(given["vlan"])
    return (*tcp_ceilings(speed, mtu=mtu, ip=ip, vlan_tags=tags), *udp_ceilings(speed, mtu=mtu, ip=ip, vlan_tags=tags))


def _tunnels(given: Mapping[str, str]) -> Sequence[Ceiling]:
    speed, mtu, ip = BpsL1(parse_bit_rate(given["speed"])), int(given["mtu"]), Ip[f"V{given['ip']}"]
    return [c for tunnel in TUNNELS for c in tunnel_ceilings(speed, tunnel, outer=ip, mtu=mtu)]


def _array(given: Mapping[str, str]) -> Sequence[Ceiling]:
    if not (given["read_iops"] and given["write_iops"]):
        return ()
    rating = DriveRating(parse_amount(given["read_iops"]), parse_amount(given["write_iops"]))
    return raid_ceilings(Array(int(given["raid"]), int(given["drives"])), rating, degraded=True)


def together(of: Iterable[RunMetrics], *, openmetrics: bool) -> str:
    """Return the metrics of several runs, merged by family, because all lines of a family must be together."""
    families: dict[str, tuple[list[str], list[str]]] = {}
    for run in of:
        try:
            text = run.text()
        except DutlabError:
            continue  # the run is being deleted
        name = ""
        for line in text.splitlines():
            if line.startswith("# HELP "):
                name = line.split(" ", 3)[2]
            heads, values = families.setdefault(name, ([], []))
            if not line.startswith("#"):
                values.append(line)
            elif line not in heads:
                heads.append(line)
    lines = [line for heads, values in families.values() for line in (*heads, *values)]
    return "\n".join([*lines, *(["# EOF"] if openmetrics else [])]) + "\n"


def _words(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> Table:
    return word_table(head, rows, right=set(right))


def _signature(path: Path) -> object:
    """Return a value that changes with the run and its additions."""
    times = []
    for place in (path / MANIFEST, path / "trials", path / "additions", path / "journal.jsonl"):
        try:
            times.append(place.stat().st_mtime_ns)
        except OSError:
            times.append(0)
    return tuple(times)
