"""Tables of ramps as in the APU6 review: peak of all directions together, share of line rate, and saturation, by product and load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dutlab.physics.ceilings.share import share_needed
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import ReadRun, RunReport
from dutlab.report.model.table import Cell, Column, Figure, Missing, Row, Table, figure_text
from dutlab.report.model.words import MBPS, PERCENT, Unit
from dutlab.report.pages.publication import Contents, label_words
from dutlab.report.plots.curve_plot import curve_plot
from dutlab.report.plots.row_plots import Bar, bar_plot
from dutlab.report.sections.loadtest import profiles
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.store.read import dut_of
from dutlab.subject import subject_of

_FRAMES = Unit("kpps", 1e3, 2)
_BITS = Unit("Mb/s L1", 1e6, 2)
_LINE = Unit("% L1", PERCENT.scale, PERCENT.digits)
_TIMES = Unit("×", 1.0, 3)
_CORES = Unit("", 1.0, 1)
_MOST = "max_received_pps"
_RATIO = "max_line_ratio"
_SATURATED = "saturation_pps"
_COLUMNS = (
    Column("frames", _MOST, _FRAMES, "kpps"),
    Column("on the wire", "max_received_bps_l1", _BITS, "mbps_l1"),
    Column("of line rate", _RATIO, _LINE, "percent_of_linerate_l1"),
    Column("saturated at", _SATURATED, _FRAMES, "saturation_kpps"),
)
_NEEDED = Column("share needed for line rate, ×", unit=_TIMES, name="needed_ratio")
_NEEDED_CORES = Column("cores needed for it", unit=_CORES, name="needed_cores")
_CAPTION = (
    "The highest rate received in a second of the ramp, all directions together; for two directions that is up to 200 % of the line rate "
    "of one. Saturation is where the loss begins to stay above the threshold"
)
_NEEDED_WORDS = "The share needed is the line rate of all directions ÷ the highest rate received."
_CORES_WORDS = "The cores needed are that share × the DUT's cores, if each core forwards as much as now."


@dataclass(frozen=True)
class _Ramp:
    """A cell of a run, with the names of its row."""

    read: ReadRun
    group: Group
    product: str

    @property
    def load(self) -> str:
        return self.group.cell.setting.size

    @property
    def together(self) -> str:
        """Return the records' name of the sum of all directions; imported tables have their own name for it."""
        return self.group.main[1]

    def value(self, figure: str) -> Cell:
        value = value_of(self.group, self.together, figure, self.read.book)
        return "not reached" if isinstance(value, Missing) and figure == _SATURATED and self.group.measured else value


def contents(reads: Sequence[ReadRun], reports: Sequence[RunReport]) -> Contents:
    """Return one table of all runs, a bar plot per load, and each ramp. Loads and products keep their order."""
    ramps = [_Ramp(read, g, _product(read, g, reads)) for read in reads for g in read.groups if g.cell.workload == "loadtest"]
    if not ramps:
        return Contents((), (), {})
    products, loads = (list(dict.fromkeys(of)) for of in ([r.product for r in ramps], _loads(ramps)))
    ramps = sorted(ramps, key=lambda r: (loads.index(r.load), products.index(r.product), r.group.planned[0]))
    table = _table(ramps)
    bars = []
    for load in loads:
        of_load = [(r, v) for r in ramps if r.load == load and isinstance(v := r.value("max_received_bps_l1"), Figure)]
        if of_load:
            names = _names([r for r, _ in of_load])
            rows = [Bar(name, products.index(r.product), v) for name, (r, v) in zip(names, of_load, strict=True)]
            bars.append(bar_plot(f"loadtest-{load}", f"Load {load}: the most on the wire, L1", rows, MBPS))
    curves = [curve_plot(c, r.labels) for r in reports for s in r.sections if s.workload == "loadtest" for c in s.curves]
    words = [f"{label_words(r, reports)}{line}" for r in reports for s in r.sections if s.workload == "loadtest" for line in s.words]
    return Contents(tuple(words or _ranges(ramps, loads)), (table,), {"loadtest": tuple(p for p in [*bars, *curves] if p is not None)})


def _ranges(ramps: Sequence[_Ramp], loads: Sequence[str]) -> Iterable[str]:
    """Yield the least and the most of each load, as `imix: from 145.52 kpps (openbsd) to 655.53 kpps (danos)`."""
    for load in loads:
        of_load = [r for r in ramps if r.load == load and isinstance(r.value(_MOST), Figure)]
        named = [
            (v, name)
            for name, r in zip(_names(of_load) if of_load else (), of_load, strict=True)
            if isinstance(v := r.value(_MOST), Figure)
        ]
        if len(named) > 1:
            low, high = (
                f"{figure_text(v, _FRAMES)} ({name})" for v, name in (pick(named, key=lambda of: of[0].median) for pick in (min, max))
            )
            yield f"{load}: from {low} to {high}."


def _table(ramps: Sequence[_Ramp]) -> Table:
    shown = [c for c in _COLUMNS if any(isinstance(r.value(c.figure), Figure) for r in ramps)]
    factors, others = _factors(ramps), _told_apart(ramps)
    heads = [
        Column("product"),
        *(Column(f.replace("_", " "), name=f) for f in factors),
        Column("load", name="loadtest"),
        *map(Column, others),
    ]
    needed, cores = [_needed(r) for r in ramps], [_cores(r) for r in ramps]
    has_needed = any(of is not None for of in needed)
    has_cores = has_needed and any(of is not None for of in cores)
    rows = []
    for n, r in enumerate(ramps):
        levels = (r.group.cell.factors.get(f, "") for f in factors)
        cells: list[Cell] = [r.product, *levels, r.load, *(of[n] for of in others.values()), *(r.value(c.figure) for c in shown)]
        share, count = needed[n], cores[n]
        cells += ["" if share is None else share] if has_needed else []
        cells += ["" if share is None or count is None else share * count] if has_cores else []
        rows.append(Row("", tuple(cells)))
    columns = (*heads, *shown, *([_NEEDED] if has_needed else []), *([_NEEDED_CORES] if has_cores else []))
    notes = (*([_NEEDED_WORDS] if has_needed else []), *([_CORES_WORDS] if has_cores else []))
    return Table("loadtest", _CAPTION, columns, tuple(rows), first="", notes=notes)


def _needed(ramp: _Ramp) -> float | None:
    """Return line rate ÷ measured rate; None without a share of line rate, or if the ramp ended below line rate without saturation."""
    measured = ramp.value(_RATIO)
    if not isinstance(measured, Figure) or measured.median <= 0:
        return None
    flows = max(1, len(subject_of(ramp.together).flows))
    imported = isinstance(ramp.group.cell.setting, ImportedSetting)
    full = (getattr(ramp.group.cell.setting, "target_percent", None) or 100.0) >= 100  # noqa: PLR2004 -- per cent of line rate
    saturated = any("saturation_pps" in r.figures.get(ramp.together, {}) for r in ramp.group.measured)
    return share_needed(flows, measured.median) if imported or saturated or full else None


def _cores(ramp: _Ramp) -> float | None:
    """Return the DUT's number of cores: of an imported table its column `cores`, else from its facts; None for an embedded lab."""
    if isinstance(given := ramp.group.cell.params.get("cores"), int | float):
        return float(given)
    if isinstance(ramp.group.cell.setting, ImportedSetting) or ramp.read.testbed.get("lab"):
        return None
    cpu = ramp.read.facts.get(dut_of(ramp.read.resolved), {}).get("cpu")
    known = cpu.get("cores") if isinstance(cpu, dict) else None
    return float(known) if isinstance(known, int | float) and known > 0 else None


def _loads(ramps: Iterable[_Ramp]) -> list[str]:
    """Return the loads in the order of the experiment file, else of the trials; a run of shuffled trials has the former."""
    out: list[str] = []
    for r in ramps:
        if not out:
            out += [size for workload in _workloads(r.read.experiment) for size in workload]
    return [load for load in dict.fromkeys([*out, *(r.load for r in sorted(ramps, key=lambda r: r.group.planned[0]))]) if load]


def _workloads(experiment: Any) -> Iterable[list[str]]:  # noqa: ANN401 -- of a file
    """Yield the frame sizes of each workload `loadtest` in the resolved experiment."""
    for entry in experiment.get("workloads") or ():
        sizes = (entry.get("loadtest") or {}).get("frame_sizes") if isinstance(entry, dict) else None
        if isinstance(sizes, list):
            yield [str(size.get("name", "")) if isinstance(size, dict) else str(size) for size in sizes]


def _factors(ramps: Sequence[_Ramp]) -> list[str]:
    """Return the factors, without the mode, in whose levels the rows differ."""
    names = dict.fromkeys(name for r in ramps for name in r.group.cell.factors if name != "mode")
    return [name for name in names if len({r.group.cell.factors.get(name) for r in ramps}) > 1]


def _told_apart(ramps: Sequence[_Ramp]) -> dict[str, list[str]]:
    """Return head → a cell for each row, for links and settings that distinguish rows that are otherwise the same."""
    out: dict[str, list[str]] = {}
    if len({r.group.cell.links for r in ramps}) > 1:
        out["link"] = [r.group.cell.link_label for r in ramps]
    keys = [(r.product, r.load, tuple(sorted(r.group.cell.factors.items())), r.group.cell.links) for r in ramps]
    if max(Counter(keys).values()) > 1:
        out["settings"] = [
            words.removeprefix(r.load).removeprefix(", ") for r, words in zip(ramps, profiles([r.group for r in ramps]), strict=True)
        ]
    return out


def _names(ramps: Sequence[_Ramp]) -> list[str]:
    """Return names of bars that differ: the product, with levels and other values that distinguish rows."""
    factors, others = _factors(ramps), _told_apart(ramps)
    return [
        ", ".join(filter(None, (r.product, *(r.group.cell.factors.get(f, "") for f in factors), *(of[n] for of in others.values()))))
        for n, r in enumerate(ramps)
    ]


def _product(read: ReadRun, group: Group, reads: Sequence[ReadRun]) -> str:
    """Return the mode; if several runs have it, the name that distinguishes the runs: of experiment, testbed or folder."""
    mode = group.cell.mode
    having = [other for other in reads if any(g.cell.mode == mode for g in other.groups)]
    if len(having) < 2:  # noqa: PLR2004 -- a mode of one run is a name already
        return mode
    name = next(names[having.index(read)] for names in _names_of_runs(having) if len(set(names)) == len(having) and all(names))
    modes = {g.cell.mode for g in read.groups if g.cell.workload == "loadtest"}
    return name if len(modes) == 1 else f"{name}, {mode}"


def _names_of_runs(reads: Sequence[ReadRun]) -> Iterable[list[str]]:
    yield [str(read.experiment.get("name") or "") for read in reads]
    yield [str(read.testbed.get("name") or read.testbed.get("testbed") or "") for read in reads]
    yield [read.run.name for read in reads]
