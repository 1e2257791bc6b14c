"""Drives in a known state: each test's verdict, its tables and its curves. Tables and charts never mix two states."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Headline, ReadRun, Section
from dutlab.report.sections.headline import compared
from dutlab.report.sections.pts_curves import curves
from dutlab.report.sections.pts_tables import setting_of, state_of, tables


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: verdicts, the determination of steady state, tables of each test and state, and curves of first trials."""
    groups = sorted(groups, key=lambda g: (setting_of(g).test, labels.index(g.label), len(g.cell.links), g.cell.link_label))
    return Section(
        slug="pts",
        workload="pts",
        title="Drives in a known state",
        lead="Rounds are repeated until five of them are steady: the range of each tracked variable is at most 20 % of its mean, the slope "
        "at most 10 %. Figures are means over that window. A test that did not get there is marked, and two states are never in one table.",
        tables=tables(groups, book),
        curves=tuple(curve for g in groups for curve in curves(read.run, g)),
        words=tuple(
            dict.fromkeys(
                f"{g.label}, {setting_of(g).test}, {g.cell.link_label}: {note}." for g in groups for r in g.measured for note in r.notes
            )
        ),
        headlines=tuple(h for h in [_headline(groups, labels, book)] if h is not None),
    )


def _headline(groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Headline | None:
    """Return the comparison of modes, or of drives if there is one mode, in the first test that all brought to steady state."""
    for test in dict.fromkeys(setting_of(g).test for g in groups):
        same = [g for g in groups if setting_of(g).test == test and state_of(g) == "steady"]
        one_mode = len({g.label for g in same}) == 1
        named = [(g.cell.link_label if one_mode else g.label, value_of(g, g.cell.link_label, "steady/iops", book)) for g in same]
        if (
            len({name for name, _ in named}) == len(named)
            and (headline := compared(f"pts {test}, steady", named, "steady/iops", book)) is not None
        ):
            return headline
    return None
