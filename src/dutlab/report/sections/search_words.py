"""Results of searches in sentences: limits, agreement of repeats and its causes, and deviations from RFC 2544."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dutlab.report.model.figures import rate_unit, value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.table import Figure, figure_text
from dutlab.report.model.words import Unit, duration_words, plural, pps_text
from dutlab.report.sections.headline import NO_UPPER
from dutlab.spec.workloads.search import SearchSetting
from dutlab.stats.summary import median, summarise
from dutlab.subject import part_figure

REPEATS_WITHIN = 0.03
"""Spread of a cell's searches above which their trials are searched for a reason."""
FEW = 6
"""Largest number of limits with a sentence each."""


def findings(groups: Sequence[Group], names: Sequence[str], book: NoteBook) -> Iterator[str]:
    """Yield the limits if they are few, and the spread of any cell's repeats if it is too large."""
    measured = [g for g in groups if g.measured]
    for group in measured:
        for name in names:
            if len(measured) * len(names) <= FEW:
                yield _limit(name, group, book, rate_unit(groups, part_figure(name, "lower_pps")))
            yield from _repeats(name, group)


def _limit(name: str, group: Group, book: NoteBook, unit: Unit) -> str:
    link = group.cell.link_label
    low, high = (value_of(group, link, part_figure(name, f"{bound}_pps"), book) for bound in ("lower", "upper"))
    what = f"{group.label}, frame size {group.cell.setting.size}, link {link}: {name}"
    if isinstance(low, Figure) and isinstance(high, Figure):
        return f"{what} is between {figure_text(low, unit)} and {figure_text(high, unit)}."
    if isinstance(low, Figure):
        return f"{what} is {figure_text(low, unit)}: {no_upper(group)}."
    if isinstance(high, Figure):
        return f"{what} is below {figure_text(high, unit)}: no lower bound was found."
    return f"{what} was not found."


def no_upper(group: Group) -> str:
    """Return `no upper bound was found in 15 s`, with the time for which the cell's searches sent."""
    sent = [of["search_sent_s"] for r in group.measured for of in r.figures.values() if "search_sent_s" in of]
    return f"{NO_UPPER} in {duration_words(median(sent))}" if sent else NO_UPPER


def _repeats(name: str, group: Group) -> Iterator[str]:
    """Yield the spread of repeats if it is too large, with the reasons."""
    link, figure = group.cell.link_label, part_figure(name, "lower_pps")
    have = [r for r in group.measured if figure in r.figures.get(link, {})]
    if len(have) < 2:  # noqa: PLR2004 -- one search repeats nothing
        return
    apart = summarise([r.figures[link][figure] for r in have]).relative_range
    if apart <= REPEATS_WITHIN:
        return
    what = f"{group.label}, frame size {group.cell.setting.size}, link {link}"
    spread = f"{what}: spread of {name} over {len(have)} searches {apart:.1%}, above {REPEATS_WITHIN:.0%}"
    yield f"{spread}: {'; '.join(_reasons(name, group))}."


def _reasons(name: str, group: Group) -> list[str]:
    goals: list[dict[str, Any]] = [row for r in group.measured for row in r.tables.get("goals", ()) if row["name"] == name]
    irregular = list(dict.fromkeys(str(row["irregular"]) for row in goals if row["irregular"]))
    met_above = sum(bool(row["inversions"]) for row in goals)
    below = [t for r in group.measured for t in _trials_below(name, r.tables)]
    bad = [t for t in below if t["known_loss_ratio"] > goals[0]["loss_ratio"]]
    held_back = sum(float(t["backpressure_frames"]) > 0 for t in bad)
    reasons = irregular
    missed = [float(row["upper_pps"]) for row in goals if row["upper_pps"] is not None]
    met = [float(row["lower_pps"]) for row in goals if row["lower_pps"] is not None]
    if missed and met and min(missed) < max(met):
        at = f"missed the goal at {pps_text(min(missed))} and another met it at {pps_text(max(met))}"
        reasons.append(f"one search {at}: the state of the DUT changed")
    if met_above:
        reasons.append(f"in {met_above} of {plural(len(goals), 'search', 'searches')} the goal was met above the upper bound too")
    if bad:
        reasons.append(
            f"{len(bad)} of {plural(len(below), 'trial')} at or below the lower bound lost more than the goal allows, so the limit moves"
        )
    if held_back:
        reasons.append(f"in {held_back} of these the ring of the DUT's port ran full: its core was too slow to empty it")
    return reasons or ["no trial shows why"]


def _trials_below(name: str, tables: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    lower = next((row["lower_pps"] for row in tables.get("goals", ()) if row["name"] == name), None)
    return [t for t in tables.get("trials", ()) if t["counts"] == "yes" and lower is not None and t["load_pps"] <= lower]


def deviations(groups: Sequence[Group]) -> Iterator[str]:
    """Yield the deviations of the searches from a throughput test of RFC 2544."""
    drains = sorted({g.cell.setting_as(SearchSetting).drain_s for g in groups})
    if drains[0] < 2 + 5:
        waited = " or ".join(f"{d:g} s" for d in drains)
        yield f"search: {waited} between trials, RFC 2544 section 23 waits 2 s for residual frames and 5 s for the DUT to settle"
    goals: dict[str, dict[str, Any]] = {}
    for row in (row for g in groups for r in g.measured for row in r.tables.get("goals", ())):
        goals[str(row["name"])] = row
    for name, goal in goals.items():
        if goal["exceed_ratio"]:
            share = 100 * float(goal["exceed_ratio"])
            yield f"search: {name} lets {share:g} % of the trials' seconds be bad, RFC 2544 section 26.1 none"
        if float(goal["final_s"] or 0) < 60:  # noqa: PLR2004 -- RFC 2544 section 24
            yield f"search: trials of {name} last {goal['final_s']:g} s, RFC 2544 section 24 asks for at least 60 s"
