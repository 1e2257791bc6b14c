"""Sensor readings: load of the DUT's cores, counters that increased, and the verification of each mode."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from dutlab.report.model.course import CheckLine
from dutlab.report.model.cpu import Cpu, CpuRow
from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.figures import figure_of
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Missing, Row, Table, Value
from dutlab.report.model.watched_means import SampleMeans, WatchedKey
from dutlab.report.model.words import COUNT, Unit, name_words, plural, unit_of
from dutlab.stats.summary import median
from dutlab.store.run_folder import RunFolder
from dutlab.store.samples import query_samples
from dutlab.systems.sample_names import core_of

KINDS = ("softirq", "irq", "system", "user", "steal")
"""Kinds of work, in the order in which they are drawn; `nice` counts as user, all other time is idle."""
_OfCore = dict[tuple[str, int], list[Mapping[str, float]]]
"""(label, core) → kind of work → mean percentage, of each trial."""
_AS = {**{kind: kind for kind in KINDS}, "nice": "user", "guest": "user"}
_OVER_TIME = """
SELECT file, host, sensor, unit, floor(t_s), avg(value)
FROM samples WHERE name = getvariable('wanted') AND isfinite(value) GROUP BY ALL ORDER BY ALL
"""

_SUMS = """
SELECT file, floor(t_s), sum(value), count(*)
FROM samples WHERE name = getvariable('wanted') AND isfinite(value) GROUP BY ALL ORDER BY ALL
"""


_Seconds = dict[float, list[float]]
"""Second of the trial → its values."""
CoreMeans = Mapping[int, Mapping[tuple[str, int], Mapping[str, float]]]
"""Trial → (host, core) → kind of work → mean percentage."""
_SHARE = Unit("%", 1.0, 2)


def sample_means(read: ReadRun) -> SampleMeans:
    """Return the mean of every sample in each trial that counts."""
    return {r.trial: read.means[r.trial] for g in read.groups for r in g.measured if read.means.get(r.trial)}


def core_means(means: SampleMeans) -> CoreMeans:
    """Return the load of each core in each trial."""
    loads: dict[int, dict[tuple[str, int], dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    cores = {w: ((w.where, of_core[0]), _AS.get(of_core[1])) for w in _names(means) if (of_core := core_of(w.name)) is not None}
    for trial, of in means.items():
        for watched, mean in of.items():
            if (known := cores.get(watched)) is not None:
                place, kind = known
                shares = loads[trial][place]
                if kind:
                    shares[kind] = shares.get(kind, 0.0) + mean
    return loads


def _names(means: SampleMeans) -> dict[WatchedKey, None]:
    """Return the keys of all sensor readings in any trial."""
    return dict.fromkeys(chain.from_iterable(means.values()))


def samples_section(means: SampleMeans, groups: Sequence[Group], testbed: Mapping[str, Any]) -> tuple[Section, ...]:
    """Return the section of all sensor readings: a table per sensor and place, a column per name, without cores, which are drawn."""
    names = [w for w in _names(means) if core_of(w.name) is None]
    tables = []
    for sensor, where in sorted({(w.sensor, w.where) for w in names}):
        shown = sorted(w for w in names if (w.sensor, w.where) == (sensor, where))
        columns = (Column("workload"), Column("link"), *(Column(name_words(w.name), w.name, _unit(w)) for w in shown))
        rows = [
            g.row((g.cell.workload, g.cell.link_label, *(_mean(g, w, means) for w in shown)))
            for g in groups
            if any(w in means.get(r.trial, {}) for r in g.measured for w in shown)
        ]
        tables.append(Table(f"watched-{sensor}-{where}", f"{sensor}, {where}{made_up(sensor, testbed)}", columns, tuple(rows), folded=True))
    lead = "The mean of each trial, the median over repeats. `dutlab plot RUN --sample NAME` draws one over time."
    return (Section("watched", "", "Sensor readings", lead.replace("`", ""), tuple(tables)),) if tables else ()


def made_up(sensor: str, testbed: Mapping[str, Any]) -> str:
    """Return ` (simulated)` for a sensor that the testbed marks as simulated, else an empty string."""
    of = testbed.get("sensors")
    spec = of.get(sensor) if isinstance(of, Mapping) else None
    return " (simulated)" if isinstance(spec, Mapping) and spec.get("simulated") else ""


def sample_curves(run: RunFolder, groups: Sequence[Group], name: str) -> list[Curve]:
    """Return curves of a sample over the time of its trials: a curve per workload, sensor and place, a line per mode."""
    of_file = _files(run, groups)
    group_of = {r.trial: g for g in groups for r in g.measured}
    samples: dict[tuple[str, ...], dict[str, _Seconds]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for file, where, sensor, unit, second, value in query_samples([path for _, path in of_file], _OVER_TIME, wanted=name):
        group = group_of[of_file[file][0]]
        samples[group.cell.workload, sensor, where, unit][group.label][second].append(value)
    return [
        Curve(
            slug=f"sample-{name}-{workload}-{sensor}-{where}",
            title=f"{name.replace('_', ' ')}, {where} ({sensor}), {workload}",
            x_title="time",
            x="time_s",
            y_title=name.replace("_", " "),
            y=name,
            lines=tuple(Line(label, tuple((t, median(of[t])) for t in sorted(of))) for label, of in of_label.items()),
            y_unit=_unit(WatchedKey(sensor, where, name, unit)),
        )
        for (workload, sensor, where, unit), of_label in samples.items()
    ]


def sums_over_time(run: RunFolder, trials: Sequence[int], name: str) -> dict[int, tuple[tuple[float, float], ...]]:
    """Return trial → (second, sum of a sample over all places); seconds that lack a place are left out."""
    of_file = [(trial, path) for trial in trials if (path := run.samples_path(trial))]
    points_by_trial: dict[int, list[tuple[float, float, int]]] = defaultdict(list)
    for file, *point in query_samples([path for _, path in of_file], _SUMS, wanted=name):
        points_by_trial[of_file[file][0]].append((point[0], point[1], point[2]))
    most = {trial: max(places for *_, places in points) for trial, points in points_by_trial.items()}
    return {trial: tuple((second, value) for second, value, n in points if n == most[trial]) for trial, points in points_by_trial.items()}


def _unit(watched: WatchedKey) -> Unit | None:
    """Return the unit of the sample; None if pages print it in a special way."""
    return Unit(watched.unit, 1.0, 1) if unit_of(watched.name) is COUNT else None


def _mean(group: Group, watched: WatchedKey, means: SampleMeans) -> Value:
    values = {r.trial: mean for r in group.measured if (mean := means.get(r.trial, {}).get(watched)) is not None}
    return figure_of(values, len(group.planned)) if values else Missing("not watched", tuple(group.planned))


def _files(run: RunFolder, groups: Sequence[Group]) -> list[tuple[int, Path]]:
    return [(r.trial, path) for g in groups for r in g.measured if (path := run.samples_path(r.trial))]


def cpus(means: CoreMeans, groups: Sequence[Group], labels: Sequence[str], dut: str) -> tuple[Cpu, ...]:
    """Return the load of each core by workload and mode: of the host `dut`, or of every host if nothing was watched there."""
    loads: dict[tuple[str, str], _OfCore] = defaultdict(lambda: defaultdict(list))
    for group in groups:
        for record in group.measured:
            for (host, core), shares in means.get(record.trial, {}).items():
                loads[group.cell.workload, host][group.label, core].append(shares)
    hosts = {host for _, host in loads}
    shown = [dut] if dut in hosts else sorted(hosts)
    return tuple(
        Cpu(workload=workload, host=host, rows=_rows(loads[workload, host], labels))
        for workload, host in sorted(k for k in loads if k[1] in shown)
    )


def _rows(kinds: _OfCore, labels: Sequence[str]) -> tuple[CpuRow, ...]:
    out = []
    for label, core in sorted(kinds, key=lambda k: (labels.index(k[0]), k[1])):
        trials = kinds[label, core]
        shares = {kind: fmean([t.get(kind, 0.0) for t in trials]) for kind in KINDS}  # means, because medians of parts do not add up
        out.append(CpuRow(label, core, {kind: share for kind, share in shares.items() if any(kind in t for t in trials)}, len(trials)))
    return tuple(out)


def counters(groups: Sequence[Group], labels: Sequence[str]) -> tuple[Table, ...]:
    """Return a table of counters that increased in any trial, by mode: the median increase over trials."""
    growths: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    trials = Counter[tuple[str, str]]()
    for group in groups:
        for record in group.measured:
            for host, of_host in record.counters.items():
                trials[host, group.label] += 1
                growths_here = growths[host, group.label]
                for counter, growth in of_host.items():
                    if growth:
                        growths_here[counter].append(growth)
    rows = [
        Row("", (host, counter, *(_growth(growths[host, label][counter], n) if (n := trials[host, label]) else "" for label in labels)))
        for host, counter in sorted({(host, counter) for (host, _), of in growths.items() for counter in of})
    ]
    columns = (Column("host"), Column("counter"), *(Column(label, unit=COUNT) for label in labels))
    title = f"{plural(len(rows), 'counter')} that grew over a trial, median over all trials of a mode"
    return (Table("counters", title, columns, tuple(rows), first="", folded=True),) if rows else ()


def _growth(grown: Sequence[float], trials: int) -> float:
    """Return the median increase over all trials, with 0 for trials in which the counter did not change."""
    return median([*grown, *[0.0] * (trials - len(grown))])


def losses(groups: Sequence[Group]) -> tuple[Table, ...]:
    """Return a table of losses with a known place, as shares of the sent frames, by cell and link; medians over trials."""
    entries: list[tuple[Group, str, dict[str, float]]] = []
    for group in groups:
        for link in group.cell.links:
            flows = [f for r in group.measured for f in r.flows if f.link == link and f.sent_frames and f.places]
            places = dict.fromkeys(place for f in flows for place in f.places)
            shares = {place: median([100 * f.places.get(place, 0) / f.sent_frames for f in flows]) for place in places}
            if any(shares.values()):
                entries.append((group, link, shares))
    lossy = [place for place in dict.fromkeys(p for _, _, of in entries for p in of) if any(of.get(place) for _, _, of in entries)]
    rows = [
        Row(group.label, (f"{_frames_words(group)}link {link}", *(of.get(place, "") for place in lossy)), link=link)
        for group, link, of in entries
    ]
    columns = (Column("what"), *(Column(place, unit=_SHARE) for place in lossy))
    return (Table("lost", "Lost, % of the frames sent", columns, tuple(rows)),) if rows else ()


def _frames_words(group: Group) -> str:
    """Return the frames in words, as `64 bytes, ` or the name of a mix; empty without frames."""
    size = group.cell.setting.size
    return f"{size}{' bytes' if size.isdigit() else ''}, " if size else ""


def checks(groups: Sequence[Group]) -> tuple[CheckLine, ...]:
    """Return each check of a mode with how often it held; the text is that of the first failure, or of the last check."""
    outcomes_by_check: dict[tuple[str, str, bool], list[tuple[bool, str]]] = defaultdict(list)
    for group in groups:
        known = dict[int, list[tuple[list[tuple[bool, str]], tuple[bool, str]]]]()  # most records share one list
        for record in group.records:
            if (entries := known.get(id(record.checks))) is None:
                entries = known[id(record.checks)] = [
                    (
                        outcomes_by_check[group.cell.mode, str(check.get("what", "")), bool(check.get("by_ping"))],
                        (bool(check.get("passed")), str(check.get("found", ""))),
                    )
                    for check in record.checks
                ]
            for outcomes, outcome in entries:
                outcomes.append(outcome)
    out = []
    for (mode, what, by_ping), outcomes in outcomes_by_check.items():
        words = next((words for passed, words in outcomes if not passed), outcomes[-1][1])
        out.append(CheckLine(mode, what, sum(passed for passed, _ in outcomes), len(outcomes), words, by_ping))
    return tuple(out)
