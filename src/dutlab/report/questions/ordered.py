"""Orders of modes by their figures in one or more runs, and sentences on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.analysis.answers import ContestResult, RankedPair
from dutlab.analysis.verdict import Procedure
from dutlab.errors import InputError
from dutlab.printable import printable
from dutlab.report.model.contests import CompareRequest, contests_of, decided
from dutlab.report.model.words import plural, unit_for, with_two_digits
from dutlab.report.questions.compared import insist_on_figures
from dutlab.report.questions.sides import ComparedRun
from dutlab.store.cell_figures import cells_of

_MOST_NAMED = 8
"""Largest number of ties of an order that are named one by one."""


def ordered(runs: Sequence[ComparedRun], asked: CompareRequest | None = None) -> tuple[ContestResult, ...]:
    """Return an order for each place at which several modes, or levels of factors, were measured in any of `runs`.

    Raises InputError if there is no such place or no run has a figure, DirectionUnknown, and ValueError for an invalid least change.
    """
    asked = asked or CompareRequest()
    insist_on_figures(asked.figures, runs)
    answer = decided(contests_of([cells_of(run.records) for run in runs], asked), asked)
    if not answer:
        raise InputError(f"{', '.join(run.name for run in runs)}: no two modes or levels were measured alike", remedy="an order needs two")
    return tuple(standing for _, standing in answer)


def order_rows(order: ContestResult) -> tuple[list[str], list[list[str]]]:
    """Return heads and rows of an order's table: place, cell, and the median in each run."""
    unit = unit_for(order.contest.figure, [v for p in order.places for v in p.medians if v is not None])
    heads = ["place", "cell", *(f"run {n}" for n in range(1, len(order.places[0].medians) + 1))]
    rows = [
        [
            f"{p.first}" if p.first == p.last else f"{p.first}–{p.last}",
            printable(p.label),
            *("none" if v is None else with_two_digits(unit, v).text(v).strip() for v in p.medians),
        ]
        for p in order.places
    ]  # fmt: skip
    return heads, rows


def order_words(order: ContestResult) -> Iterator[str]:
    """Yield sentences on the order; the first is the answer."""
    runs = len(order.places[0].medians)
    proven_count, pairs = len(order.proven), len(order.pairs)
    where = {1: "in this run", 2: "in both runs"}.get(runs, f"in all {runs} runs")
    if not proven_count:
        yield "No two of them are proven to differ, so they have no order."
    elif order.exceptions:
        turned = f"of {proven_count} pairs that differ, {len(order.exceptions)} have the other order in a run"
        yield f"The order is not the same {where}: {turned}."
    elif runs == 1:
        yield f"The order of one run: {_pair_count(proven_count, pairs)}. More runs show whether it stays."
    else:
        beyond = "" if proven_count == pairs else ", ties aside"
        yield f"The order is the same {where}{beyond}: {_pair_count(proven_count, pairs)}."
    for pair in order.exceptions:
        yield f"{pair.better} comes before {pair.worse} over all runs, but after it in {_numbers(pair.against)}."
    if order.could_prove:
        yield from _ties(order, runs)
    else:
        few = "repeats" if runs == 1 else "runs that have both"
        yield f"Too few {few} to prove an order of {len(order.places)} cells: repeat more often, or add runs."
    unseen = [c.provable for pair in order.ties if (c := pair.comparison).provable is not None]
    if runs > 1 and unseen:
        yield f"These runs prove a difference of {max(unseen) * 100:.2g} % four times in five; for smaller ones add runs, not repeats."


def method_words(orders: Sequence[ContestResult]) -> str:
    """Return sentences on how the orders of one question were found; empty where nothing was compared."""
    sentences, kinds = list[str](), dict[Procedure, list[ContestResult]]()
    for order in orders:
        for kind in dict.fromkeys(pair.comparison.kind for pair in order.pairs):
            kinds.setdefault(kind, []).append(order)
    for kind, of in kinds.items():
        beyond = f"differences beyond {max(order.least for order in of) * 100:g} % count"
        if kind is Procedure.NONE:
            sentences.append(f"Counts are the same each time and need no test: {beyond}.")
        else:
            unit = "Each run counts once" if len(of[0].places[0].medians) > 1 else "Repeats are compared"
            tests = sum(pair.comparison.kind is not Procedure.NONE for order in orders for pair in order.pairs)
            sentences.append(f"{unit}: {kind.value} over {plural(tests, 'pair')}; {beyond}.")
    return " ".join(sentences)


def _ties(order: ContestResult, runs: int) -> Iterator[str]:
    for pair in order.ties[:_MOST_NAMED]:
        yield f"{pair.better} and {pair.worse} share a place: no difference is proven{_tie_order(pair) if runs > 1 else ''}."
    if (more := len(order.ties) - _MOST_NAMED) > 0:
        yield f"{more} more pairs share a place (--json has all)."


def _tie_order(pair: RankedPair) -> str:
    if pair.against:
        return f", and {_numbers(pair.against)} {'has' if len(pair.against) == 1 else 'have'} them the other way round"
    return ", though their medians have the same order in every run"


def _pair_count(different: int, pairs: int) -> str:
    if pairs == different == 1:
        return "the pair differs"
    return f"all {pairs} pairs differ" if different == pairs else f"{different} of {pairs} pairs differ"


def _numbers(runs: Sequence[int]) -> str:
    return f"{'run' if len(runs) == 1 else 'runs'} {' and '.join(str(n + 1) for n in runs)}"
