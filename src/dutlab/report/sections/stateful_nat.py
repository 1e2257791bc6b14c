"""Stateful NAT (RFC 9693): tables of its section 6 with a row per mode and number of connections, every trial, and curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.figures import figure_of, value_of
from dutlab.report.model.groups import Group, by_size
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Row, Table, Value
from dutlab.report.model.words import grouped
from dutlab.report.sections.headline import NO_UPPER, bounds
from dutlab.report.sections.state_trials import Head, notes_of, rows_of, trials_table
from dutlab.spec.workloads.stateful_nat import LOADED, NatTest, StatefulNatSetting
from dutlab.stats.summary import percentile

_MAIN = ("establishment_lower_per_s", "capacity_connections")
_LOADED = (
    ("throughput", "throughput_pps"),
    ("on the wire", "throughput_bps_l1"),
    ("loss at the highest rate", "loss_at_max_ratio"),
    ("latency, mean", "latency_mean_ns"),
    ("median", "latency_p50_ns"),
    ("99.9 %", "latency_p999_ns"),
    ("PDV (RFC 8219 section 7.3.1)", "pdv_p999_ns"),
)
_TRIALS = {"establishment_trials": "Establishment rate: every trial", "capacity_trials": "Capacity: every trial"}
_OF_TRIAL: Sequence[Head] = (
    ("asked", "asked_connections"),
    ("at", "asked_per_s"),
    ("begun", "begun_connections"),
    ("arrived", "arrived_connections"),
    ("different", "different_connections"),
    ("validated", "validated_connections"),
)
LEAD = """First phase: the source begins connections of UDP, each with other ports, in an empty table; the sink keeps their addresses
and ports as the DUT translated them (RFC 9693 section 4.2). Second phase: the sink sends to these, and what comes through shows which
connections the DUT knows (section 4.6). The DUT's own counters decide nothing."""


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a table for each requested test, and tables of every trial."""
    groups = by_size(groups, labels)
    tables = (_establishment(groups, book), _loaded(groups, book), _tear_down(groups, book), _capacity(groups, book))
    return Section(
        slug="stateful-nat",
        workload="stateful-nat",
        title="Stateful NAT (RFC 9693)",
        lead=LEAD,
        tables=(
            *(table for table in tables if table.rows),
            *(
                of_test
                for name, title in _TRIALS.items()
                if (of_test := trials_table(name, title, groups, lambda _: _OF_TRIAL)) is not None
            ),
        ),
        curves=tuple(_curves(groups)),
        words=tuple(notes_of(groups)),
        answer=tuple(bounds(groups, _MAIN, book, lambda _: NO_UPPER)),
        deviations=tuple(_deviations(groups)),
    )


def _asked(groups: Sequence[Group], *tests: NatTest) -> list[Group]:
    return [g for g in groups if {*tests} & {*_setting(g).tests}]


def _setting(group: Group) -> StatefulNatSetting:
    return group.cell.setting_as(StatefulNatSetting)


_PLACE = (Column("link"), Column("frame size"), Column("connections", align="right"))
_PORTS = (Column("source ports", align="right"), Column("destination ports", align="right"))
_EXPERIMENTS = Column("experiments", align="right")


def _place(group: Group) -> tuple[str, ...]:
    return group.cell.link_label, group.cell.setting.size, grouped(str(_setting(group).connections))


def _ports(group: Group) -> tuple[str, ...]:
    return grouped(str(_setting(group).source_ports)), grouped(str(_setting(group).destination_ports))


def _spread(figure: str) -> tuple[Column, ...]:
    return Column("1st percentile", figure), Column("99th percentile", figure)


def _percentiles(group: Group, figure: str) -> tuple[Value | str, ...]:
    """Return the percentiles over all repeats that RFC 9693 section 6 asks for in addition to the median."""
    values = {r.trial: of for r in group.measured if (of := r.figures.get(group.cell.link_label, {}).get(figure)) is not None}
    if not values:
        return "–", "–"
    percentiles = (percentile(list(values.values()), share) for share in (0.01, 0.99))
    return tuple(figure_of({next(iter(values)): value}, 1) for value in percentiles)


def _table(slug: str, title: str, columns: Sequence[Column], rows: Sequence[Row], book: NoteBook) -> Table:
    return book.table(slug, title, columns, rows)


def _row(group: Group, *cells: Value | str) -> Row:
    link = group.cell.link_label
    return Row(group.label, cells, links=link, link=link, size=group.cell.setting.size)


def _establishment(groups: Sequence[Group], book: NoteBook) -> Table:
    figure = "establishment_lower_per_s"
    columns = (
        *_PLACE, *_PORTS, _EXPERIMENTS, Column("error of the search", align="right"), Column("established", figure), *_spread(figure),
        Column("upper bound", "establishment_upper_per_s"),
    )  # fmt: skip
    rows = [
        _row(
            g, *_place(g), *_ports(g), str(len(g.measured)), f"{_setting(g).width_ratio:.2g}", value_of(g, g.cell.link_label, figure, book),
            *_percentiles(g, figure), value_of(g, g.cell.link_label, "establishment_upper_per_s", book),
        )
        for g in _asked(groups, NatTest.ESTABLISHMENT)
    ]  # fmt: skip
    return _table("nat-establishment", "Maximum connection establishment rate (section 4.5)", columns, rows, book)


def _loaded(groups: Sequence[Group], book: NoteBook) -> Table:
    columns = (*_PLACE, Column("direction"), *(Column(head, figure) for head, figure in _LOADED))
    rows = [
        _row(g, *_place(g), _setting(g).directions.value, *(value_of(g, g.cell.link_label, figure, book) for _, figure in _LOADED))
        for g in _asked(groups, *LOADED)
    ]
    return _table(
        "nat-loaded", "Known connections (section 4.7): throughput, frame loss, latency, all directions together", columns, rows, book
    )


def _tear_down(groups: Sequence[Group], book: NoteBook) -> Table:
    columns = (
        *_PLACE, _EXPERIMENTS, Column("time", "tear_down_s"), *_spread("tear_down_s"), Column("deleted", "tear_down_per_s"),
        Column("without the command's own time", "tear_down_net_per_s"),
    )  # fmt: skip
    rows = [
        _row(
            g, *_place(g), str(len(g.measured)), value_of(g, g.cell.link_label, "tear_down_s", book), *_percentiles(g, "tear_down_s"),
            *(value_of(g, g.cell.link_label, figure, book) for figure in ("tear_down_per_s", "tear_down_net_per_s")),
        )
        for g in _asked(groups, NatTest.TEAR_DOWN)
    ]  # fmt: skip
    return _table("nat-tear-down", "Connection tear-down rate (section 4.8): all connections deleted at once", columns, rows, book)


def _capacity(groups: Sequence[Group], book: NoteBook) -> Table:
    figure = "capacity_connections"
    columns = (
        Column("link"), *_PORTS, _EXPERIMENTS, Column("C0", align="right"), Column("R0", "r0_per_s"), Column("RS", "rs_per_s"),
        Column("error", align="right"), Column("capacity", figure), *_spread(figure), Column("no longer", "capacity_upper_connections"),
    )  # fmt: skip
    rows = [
        _row(
            g, g.cell.link_label, *_ports(g), str(len(g.measured)), grouped(str(_setting(g).first_connections)), _of_search(g, "r0_per_s"),
            _of_search(g, "rs_per_s"), grouped(str(_setting(g).error_connections)), value_of(g, g.cell.link_label, figure, book),
            *_percentiles(g, figure), value_of(g, g.cell.link_label, "capacity_upper_connections", book),
        )
        for g in _asked(groups, NatTest.CAPACITY)
    ]  # fmt: skip
    return _table("nat-capacity", "Connection tracking table capacity (section 4.9)", columns, rows, book)


def _of_search(group: Group, name: str) -> Value | str:
    value_by_trial = {trial: float(row[name]) for trial, row in rows_of("capacity", group) if row.get(name) is not None}
    return figure_of(value_by_trial, len(group.planned)) if value_by_trial else "–"


def _curves(groups: Sequence[Group]) -> Iterator[Curve]:
    """Yield the establishment rate over the number of connections (section 5.1), if there are several numbers."""
    for link in dict.fromkeys(g.cell.link_label for g in groups):
        lines = []
        of_link = [g for g in _asked(groups, NatTest.ESTABLISHMENT) if g.cell.link_label == link]
        for label in dict.fromkeys(g.label for g in of_link):
            points: Mapping[float, float] = {
                float(_setting(g).connections): value
                for g in of_link if g.label == label
                for r in g.measured if (value := r.figures.get(link, {}).get(_MAIN[0])) is not None
            }  # fmt: skip
            lines += [Line(label, tuple(sorted(points.items())))] if len(points) > 1 else []
        if lines:
            yield Curve(
                slug=f"nat-{link}",
                title=f"Connections established a second, link {link}",
                x_title="connections in the table at the end",
                x="connections",
                y_title="connections a second",
                y="establishment_lower_per_s",
                lines=tuple(lines),
            )


def _deviations(groups: Sequence[Group]) -> Iterator[str]:
    """Yield the deviations from RFC 9693."""
    if repeats := {len(g.planned) for g in groups if len(g.planned) < 2}:  # noqa: PLR2004 -- section 6: multiple times
        yield f"stateful-nat: each trial was made {max(repeats)} time; RFC 9693 section 6 has measurements executed several times"
    scales = {_setting(g).scale for g in _asked(groups, *LOADED)} - {1.0}
    for scale in sorted(scales):
        yield f"stateful-nat: durations of throughput, latency and frame loss are {scale:g} of those of RFC 2544"
    yield "stateful-nat: addresses and ports of the second phase are read in the order in which they were learned (RFC 9693 section 4.10)"
