"""Tables as in articles about home networks: every pair of hosts with goodput and retries, before and after a change, and a heat map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import ReadRun, RunReport
from dutlab.report.model.table import Cell, Column, Figure, Row, Table
from dutlab.report.model.words import COUNT, Unit, chosen_rate
from dutlab.report.pages.publication import Contents, label_words, run_words
from dutlab.report.sections.matrix import hosts_of, pair_of, variant_of
from dutlab.report.sections.pairs import PAIRS
from dutlab.store.read import hosts_along

_GOODPUT = Unit("Gb/s", 1e9, 2)
IN_TIME = True
"""The oldest run is the first, in any order of the arguments."""
Pair = tuple[str, str]
BEFORE_AND_AFTER = 2


def contents(reads: Sequence[ReadRun], reports: Sequence[RunReport]) -> Contents:
    """Return a table of pairs with columns for each run and mode, the oldest run first, a heat map of each, and what limits each pair."""
    variants = [(name, read, of_pair) for read in reads for label in read.labels for name, of_pair in _variants(read, label, reads)]
    if not variants:
        return Contents((), (), {})
    words = tuple(f"{label_words(r, reports)}{line}" for r in reports for s in r.sections if s.workload == "matrix" for line in s.words)
    if len(variants) == BEFORE_AND_AFTER:
        words = (*_change_words(variants), *words)
    every = (_value(g, read, "goodput_bps") for _, read, of_pair in variants for g in of_pair.values())
    darkest = max((v.median for v in every if isinstance(v, Figure)), default=None)
    maps = (_map(name, read, of_pair, darkest) for name, read, of_pair in variants)
    return Contents(words, (_list(variants), *maps, *_verdicts(reports)), {})


def _verdicts(reports: Sequence[RunReport]) -> Iterator[Table]:
    """Yield the table of each run that measured the largest packet of each pair too."""
    for number, report in enumerate(reports, start=1):
        for table in (t for s in report.sections if s.slug == PAIRS for t in s.tables):
            title = f"{run_words(report, reports)}{table.title[0].lower()}{table.title[1:]}" if len(reports) > 1 else table.title
            yield replace(table, slug=f"packets-{number}" if len(reports) > 1 else "packets", title=title)


def _list(matrices: Sequence[tuple[str, ReadRun, dict[Pair, Group]]]) -> Table:
    several = len(matrices) > 1
    heads = [Column("client"), Column("server")]
    for name, _, _ in matrices:
        before, slug = (name, f"{name}_") if several else ("", "")
        unit = chosen_rate() or _GOODPUT
        heads += [
            Column(before, "goodput_bps", unit, f"{slug}{_in_name(unit)}"),
            Column(f"{before}: retries".removeprefix(": "), "retransmits", COUNT, f"{slug}retries"),
        ]
    ratios = _ratios(matrices)
    heads += [Column("change", name="ratio", align="right")] if ratios is not None else []
    rows = []
    for pair in _in_order(matrices):
        cells: list[Cell] = []
        for _, read, of_pair in matrices:
            cells += [_value(of_pair.get(pair), read, "goodput_bps"), _value(of_pair.get(pair), read, "retransmits")]
        if ratios is not None:
            cells.append(f"{ratios[pair]:.2f} ×" if pair in ratios else "")
        rows.append(Row("", (*pair, *cells)))
    return Table("pairs", "Goodput between every two hosts, one pair at a time", tuple(heads), tuple(rows), first="")


def _in_order(matrices: Sequence[tuple[str, ReadRun, dict[Pair, Group]]]) -> list[Pair]:
    """Return the pairs in the order of the testbed's hosts, not of the trials; those of imported runs in the order of their file."""
    ways = [hosts_along(read.resolved) for _, read, _ in matrices]
    place = {host: n for n, host in enumerate(dict.fromkeys(host for way in ways for host in way))}
    pairs = dict.fromkeys(pair for _, _, of_pair in matrices for pair in of_pair)
    return sorted(pairs, key=lambda pair: [place.get(host, len(place)) for host in pair])


def _ratios(matrices: Sequence[tuple[str, ReadRun, dict[Pair, Group]]]) -> dict[Pair, float] | None:
    """Return goodput after ÷ before of each pair that has both; None unless there are exactly two variants."""
    if len(matrices) != BEFORE_AND_AFTER:
        return None
    (_, old, before), (_, new, after) = matrices
    out: dict[Pair, float] = {}
    for pair in before.keys() & after.keys():
        first, last = _value(before[pair], old, "goodput_bps"), _value(after[pair], new, "goodput_bps")
        if isinstance(first, Figure) and isinstance(last, Figure) and first.median:
            out[pair] = last.median / first.median
    return out


def _change_words(matrices: Sequence[tuple[str, ReadRun, dict[Pair, Group]]]) -> Sequence[str]:
    """Return a sentence with the smallest and the largest change between two variants; nothing without a pair that has both."""
    ratios = _ratios(matrices)
    if not ratios:
        return ()
    least, most = min(ratios, key=lambda pair: ratios[pair]), max(ratios, key=lambda pair: ratios[pair])
    ends = " to ".join(f"{ratios[pair]:.2f} × ({pair[0]} to {pair[1]})" for pair in dict.fromkeys((least, most)))
    return (f"goodput of {matrices[1][0]} ÷ {matrices[0][0]}: {ends}",)


def _map(name: str, read: ReadRun, of_pair: dict[Pair, Group], darkest: float | None) -> Table:
    hosts = hosts_of(of_pair, hosts_along(read.resolved))
    rows = [
        Row("", (client, *("" if client == server else _value(of_pair.get((client, server)), read, "goodput_bps") for server in hosts)))
        for client in hosts
    ]
    unit = chosen_rate() or _GOODPUT
    heads = (Column("client"), *(Column(f"to {host}", "goodput_bps", unit, f"{host}_{_in_name(unit)}") for host in hosts))
    title = f"{name}: from the host of the row to the host of the column"
    return Table(f"map-{name}", title, heads, tuple(rows), first="", shaded=True, darkest=darkest)


def _variants(read: ReadRun, label: str, reads: Sequence[ReadRun]) -> list[tuple[str, dict[Pair, Group]]]:
    """Return (name, pairs) of a run and mode for each set of iperf3 settings; if there are several, the name includes the settings."""
    of: dict[str, dict[Pair, Group]] = {}
    for g in read.groups:
        if g.label == label and g.cell.workload == "matrix":
            of.setdefault(variant_of(g), {})[pair_of(g)] = g
    name = _name(read, label, reads)
    return [(f"{name}, {variant}" if len(of) > 1 else name, pairs) for variant, pairs in of.items()]


def _in_name(unit: Unit) -> str:
    """Return the unit as in names of columns: `gbps`."""
    return unit.name.replace("/s", "ps").lower() if unit.name.endswith("b/s") else unit.name.replace("/", "p").lower()


def _value(group: Group | None, read: ReadRun, figure: str) -> Cell:
    """Return a figure's cell; missing retries become an empty cell."""
    value = value_of(group, group.main[1] if group else "", figure, read.book)
    return value if isinstance(value, Figure) or figure == "goodput_bps" else ""


def _name(read: ReadRun, label: str, reads: Sequence[ReadRun]) -> str:
    """Return the mode, if only one run has it; else the run's experiment, if only one run has that, else its folder."""
    if label and sum(label in other.labels for other in reads) == 1:
        return label
    names = [str(other.experiment.get("name") or "") for other in reads]
    own = names[reads.index(read)]
    name = own if own and names.count(own) == 1 else read.run.name
    return f"{name}, {label}" if len(read.labels) > 1 else name
