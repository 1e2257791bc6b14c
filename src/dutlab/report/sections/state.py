"""New flows a second and concurrent flows: a row per mode, the DUT's counters in every trial, and a curve of the flows it keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dutlab.methods.dut_tables import counter_of
from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Row, Table, Value
from dutlab.report.sections.headline import NO_UPPER, bounds
from dutlab.report.sections.state_trials import Head, notes_of, rows_of, trials_table
from dutlab.spec.workloads.state import StateSetting

_RESULTS = (
    ("new flows, lower bound", "setup_lower_per_s"),
    ("upper bound", "setup_upper_per_s"),
    ("concurrent flows", "concurrent_flows"),
    ("no longer", "concurrent_upper_flows"),
)
_TRIALS = {
    "setup_trials": ("New flows a second", (("asked", "asked_per_s"), ("begun", "begun_flows"), ("taken", "taken_flows"))),
    "concurrent_trials": (
        "Concurrent flows",
        (
            ("asked", "asked_flows"),
            ("at", "fill_per_s"),
            ("begun", "begun_flows"),
            ("taken", "set_up_flows"),
            ("answered", "answered_flows"),
        ),
    ),
}
LEAD = """Flows of UDP, each with its own ports. New flows a second (RFC 9411 section 7.2): every frame of a trial begins a flow, in
an empty table; a flow counts when its frame arrives. Concurrent flows (RFC 9411 section 7.5): flows are begun, then each is answered;
a flow counts if its answer comes through too. Next to them is what the DUT itself counts."""


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: a table of results, one of each test's trials, and a curve."""
    groups = sorted(groups, key=lambda g: labels.index(g.label))
    rows = [_row(g, book) for g in groups]
    columns = (Column("frames"), Column("link"), *(Column(head, figure) for head, figure in _RESULTS))
    return Section(
        slug="state",
        workload="state",
        title="State table",
        lead=LEAD,
        tables=(
            book.table("state", "What the DUT takes and keeps", columns, rows),
            *(of_test for name in _TRIALS if (of_test := _trials(name, groups)) is not None),
        ),
        curves=tuple(_curves(groups)),
        words=tuple(notes_of(groups)),
        answer=tuple(bounds(groups, ("setup_lower_per_s", "concurrent_flows"), book, lambda _: NO_UPPER)),
        deviations=(
            "state: flows are of UDP and carry one frame each way; RFC 9411 measures with whole TCP and HTTP connections",
            *_short(groups),
        ),
    )


def _row(group: Group, book: NoteBook) -> Row:
    size, link = group.cell.setting.size, group.cell.link_label
    values: list[Value] = [value_of(group, link, figure, book) for _, figure in _RESULTS]
    return Row(group.label, (size, link, *values), links=link, link=link, size=size)


def _trials(name: str, groups: Sequence[Group]) -> Table | None:
    """Return a table of a test's trials with the DUT's counters, without those that stayed 0 in all trials."""
    title, own = _TRIALS[name]

    def heads(risen: Mapping[str, None]) -> Sequence[Head]:
        counters = [(counter, name) for name in risen if (counter := counter_of(name))]
        return *own, ("tracked by the DUT", "tracked_flows"), *counters

    return trials_table(name, f"{title}: every trial", groups, heads)


def _curves(groups: Sequence[Group]) -> Iterator[Curve]:
    """Yield curves of known flows over begun flows, from every trial of the concurrent test."""
    for link in dict.fromkeys(g.cell.link_label for g in groups):
        lines = []
        for group in (g for g in groups if g.cell.link_label == link):
            points = sorted({(float(row["asked_flows"]), float(_known(row))) for _, row in rows_of("concurrent_trials", group)})
            lines += [Line(group.label, tuple(points))] if len(points) > 1 else []
        if lines:
            reach = max(x for line in lines for x, _ in line.points)
            yield Curve(
                slug=f"state-{link}",
                title=f"Flows that the DUT keeps, link {link}",
                x_title="flows begun",
                x="asked_flows",
                y_title="flows known at once",
                y="known_flows",
                lines=(*lines, Line("all", ((0.0, 0.0), (reach, reach)), role="asked")),
            )


def _known(row: Mapping[str, Any]) -> int:
    answered = row["answered_flows"]
    return int(row["set_up_flows"] if answered is None else min(answered, row["set_up_flows"]))


def _short(groups: Sequence[Group]) -> Iterator[str]:
    longest = max(g.cell.setting_as(StateSetting).trial_s for g in groups)
    yield f"state: a trial of new flows lasts {longest:g} s, as the table has room for; RFC 9411 section 7.2 sustains the rate for 300 s"
