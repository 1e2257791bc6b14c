"""Verdict of runs against their baselines, in one sentence; a baseline may be claim cards instead of runs.

A check that could not have detected a change as small as the user allows neither passes nor fails: it cannot tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Comparison, Pair
from dutlab.analysis.design import RunOrder
from dutlab.analysis.differences import differences
from dutlab.analysis.together import together
from dutlab.analysis.verdict import CheckKind, Reason, Verdict, side_words
from dutlab.errors import InputError
from dutlab.measures import is_exact, is_speed
from dutlab.report.gather import gather
from dutlab.report.model.contests import CompareRequest, cell_label, insist_on_directions
from dutlab.report.model.words import plural
from dutlab.report.questions.claims import ClaimCard, ClaimedCell, conditions_of
from dutlab.report.questions.compared import ComparedPair
from dutlab.report.questions.sides import ComparedRun, side_names
from dutlab.stats.rank import p_words
from dutlab.store.cell_figures import cells_of, name_words

_WHOLE_PERCENT = 10
ALLOWED: Final = 3.0
"""Largest change that may stay undetected without a threshold, as a multiple of the least effect."""


@dataclass(frozen=True)
class Checked:
    """A comparison for CI: it passes, fails for stated results, or cannot tell."""

    pair: ComparedPair
    threshold: float | None
    """Share beyond which a worse result fails, proven or not."""
    again: Mapping[tuple[str, str], CheckKind] | None = None
    """Label and figure → verdict of a second measurement of a failed result; None without one. A missing entry means: cannot tell."""

    @property
    def kind(self) -> CheckKind:
        """Verdict for CI."""
        if self.failed:
            return CheckKind.FAIL
        if self.unconfirmed:
            return CheckKind.CANNOT_TELL
        return CheckKind.PASS if self.seen is not None and self.seen <= self.allowed else CheckKind.CANNOT_TELL

    @property
    def allowed(self) -> float:
        """Largest change that may stay undetected, as a share."""
        return ALLOWED * max(c.least for c in self.pair.comparisons) if self.threshold is None else self.threshold

    @cached_property
    def seen(self) -> float | None:
        """Smallest change that would have been detected in every result, as a share; None if a result could hide any change.

        Without a threshold, it is the change proven with a power of 80 %; with one, the reach of the ratio's 95 % interval. A result
        that is equivalent within a margin hides no change beyond it. Results without a ratio have no such share.
        """
        shares = [self._seen(c) for c in self.pair.comparisons if c.ratio is not None or (c.p is not None and not c.could_prove)]
        known = [share for share in shares if share is not None]
        return max(known, default=None) if len(known) == len(shares) else None

    def _seen(self, c: Comparison) -> float | None:
        if c.reason is Reason.BOUND:
            return None
        if is_exact(c.pair.figure):
            return c.least
        inside = None if c.ratio is None else c.ratio.interval
        reach = None if c.ratio is None or inside is None else max(inside.high / c.ratio.ratio, c.ratio.ratio / inside.low) - 1
        if c.verdict is Verdict.EQUIVALENT and inside is not None:
            return max(inside.high, 1 / inside.low) - 1
        if self.threshold is not None:
            return reach
        if c.pair.design is RunOrder.ROUNDS and reach is not None and c.could_prove:
            return (1 + reach) * (1 + c.least) - 1
        return c.provable

    @cached_property
    def worse(self) -> tuple[Comparison, ...]:
        """Results that fail the check."""
        return tuple(c for c in self.pair.comparisons if self.fails(c))

    @cached_property
    def unconfirmed(self) -> tuple[Comparison, ...]:
        """Results that seem worse, but on which the second measurement cannot tell."""
        return tuple(c for c in self.pair.comparisons if self._seems_worse(c) and self._second(c) is CheckKind.CANNOT_TELL)

    @property
    def failed(self) -> bool:
        """True if the check fails."""
        return bool(self.worse or self.pair.only_first or self.all_worse)

    @property
    def all_worse(self) -> bool:
        """True if the overall comparison is worse; after a second measurement only confirmed results count."""
        return self.again is None and self.pair.together is not None and self.pair.together.verdict is Verdict.WORSE

    @property
    def overall(self) -> str:
        """Overall comparison, as `30 % slower overall (p = 0.005)`; empty if there is only one cell."""
        of = self.pair.together
        return "" if of is None else f"{_percent(abs(1 - of.ratio))} {of.words} overall ({p_words(of.p)})"

    @property
    def sentence(self) -> str:
        """Verdict, as `FAIL: 30 % slower overall (p = 0.005)`, with the smallest detectable change."""
        if self.kind is CheckKind.CANNOT_TELL:
            return f"{self.kind.value}: {self._cannot_tell()}"
        detail = "; ".join(self._failures()) if self.failed else self._passes()
        unknown = "".join(f"; not known: {of.value}" for of in self.pair.not_known if self.failed)
        return f"{self.kind.value}: {detail}; {self.seen_words}{unknown}"

    @property
    def seen_words(self) -> str:
        """Smallest detectable change, as `a change of 4.8 % in any result would have been seen`."""
        if self.seen is None:
            return "no change in a single result could have been proven"
        return f"a change of {_percent(self.seen)} in any result would have been seen"

    def _cannot_tell(self) -> str:
        if self.unconfirmed:
            named = ", ".join(c.pair.label for c in self.unconfirmed)
            return f"{named}: seems to be worse, and the second measurement cannot tell; give it more time"
        if self.seen is not None:
            return (
                f"only a change of {_percent(self.seen)} or more would have been seen in every result, and {_percent(self.allowed)} "
                "is allowed; repeat more often on a machine without other work, check several runs, or allow more with --threshold"
            )
        why = next((c.why for c in self.pair.comparisons if self._seen(c) is None), "no result is in both")
        medians = ", or have medians judged by --threshold" if self.threshold is None else ""
        return f"{self.seen_words}: {why}; repeat more often, check several runs{medians}"

    def fails(self, c: Comparison) -> bool:
        """Return whether this result alone fails the check."""
        return (c.verdict is Verdict.MISSING and c.second is None) or (self._seems_worse(c) and self._second(c) is CheckKind.FAIL)

    def _seems_worse(self, c: Comparison) -> bool:
        return c.verdict is Verdict.WORSE or self._is_beyond(c)

    def _second(self, c: Comparison) -> CheckKind:
        """Return the verdict of the second measurement; without one, that of the first."""
        return CheckKind.FAIL if self.again is None else self.again.get((c.pair.label, c.pair.figure), CheckKind.CANNOT_TELL)

    def words(self, c: Comparison) -> str:
        """Return a result in words, as `31 % slower (p = 0.002)`; without a ratio, its verdict."""
        change = worse_by(c)
        if change is None or not self.fails(c):
            return f"{c.words}: {c.why}"
        _, word = side_words(better=False, speed=is_speed(c.pair.figure))
        beyond = "" if c.verdict is Verdict.WORSE or self.threshold is None else f", beyond the threshold of {_percent(self.threshold)}"
        return f"{_percent(change)} {word}{beyond} ({p_words(c.p) if c.p is not None else c.words})"

    def _is_beyond(self, c: Comparison) -> bool:
        if self.threshold is None or c.first is None or c.second is None:
            return False
        change = c.second.value - c.first.value
        return (change if c.pair.better == "lower" else -change) > self.threshold * abs(c.first.value)

    def _failures(self) -> Iterator[str]:
        if self.all_worse:
            yield self.overall
        if self.worse:
            of = f"{len(self.worse)} of {plural(len(self.pair.comparisons), 'result')}"
            worst = max(self.worse, key=lambda c: worse_by(c) or 0.0)
            yield f"{of} {'is' if len(self.worse) == 1 else 'are'} worse, at worst {worst.pair.label}: {self.words(worst)}"
        if missing := self.pair.only_first:
            more = "" if len(missing) == 1 else f" and {len(missing) - 1} more"
            yield f"{plural(len(missing), 'result')} missing: {missing[0]}{more}"

    def _passes(self) -> str:
        comparisons, overall = self.pair.comparisons, self.pair.together
        if all(c.verdict is Verdict.EQUIVALENT for c in comparisons):
            words = ", ".join(dict.fromkeys(c.words for c in comparisons))
            return f"{plural(len(comparisons), 'result')} equivalent to the baseline ({words})"
        better = f"{self.overall}; " if overall is not None and overall.verdict is Verdict.BETTER else ""
        least = " or ".join(dict.fromkeys(f"{c.least * 100:g} %" for c in comparisons))
        return f"{better}none of {plural(len(comparisons), 'result')} is worse (only proven changes beyond {least} count)"


def compare_with_cards(cards: Sequence[tuple[Path, ClaimCard]], path: Path, run: ComparedRun, asked: CompareRequest) -> ComparedPair:
    """Compare the figures of claim cards with those of the same cells in the run at `path`.

    Raises InputError if the run has none of them, StoreError.
    """
    if asked.figures:
        raise InputError("--figure and a claim card exclude one another", remedy="the card names its figures; compare with a run instead")
    cells, pairs, absent = cells_of(run.records), dict[tuple[object, ...], Pair](), list[str]()
    for cell in (cell for _, card in cards for cell in card.cells):
        key = cell.key
        now = cells[key].readings(cell.link, cell.figure) if key in cells else ()
        label = _label(cell)
        if not now:
            absent.append(label)
            continue
        pairs[key, cell.link, cell.figure] = Pair(
            label,
            cell.figure,
            cell.values,
            tuple(r.value for r in now),
            RunOrder.ONE_AFTER_THE_OTHER,
            cell.repeats,
            tuple(r.repeat for r in now),
            whole=cell.link == cells[key].names[0],
            better=asked.side_of(cell.figure),
        )
    if not pairs:
        raise InputError(f"{run.name} has no result of {', '.join(str(file) for file, _ in cards)}", remedy=f"the card is of {absent[0]}")
    insist_on_directions(pairs.values())
    comparisons = compare(list(pairs.values()), margin=asked.margin, least=asked.least)
    newest = cards[-1][1]
    return ComparedPair(
        first=" and ".join(str(file) for file, _ in cards),
        second=side_names([[run]])[0],
        design=RunOrder.ONE_AFTER_THE_OTHER,
        comparisons=comparisons,
        together=together(comparisons),
        only_first=tuple(dict.fromkeys(absent)),
        only_second=(),
        differences=differences({"hosts": newest.conditions}, {"hosts": conditions_of(gather(path, path))}),
        faults=run.faults,
        runs=(tuple(dict.fromkeys(card.run for _, card in cards)), (run.name,)),
    )


def _label(cell: ClaimedCell) -> str:
    return cell_label(cell.mode, cell.factors, cell.workload, cell.size, name_words(cell.link, cell.links, cell.workload))


def worse_by(c: Comparison) -> float | None:
    """Return how much worse the second is, as a share of the first; None without a ratio."""
    if c.ratio is None:
        return None
    return c.ratio.ratio - 1 if c.pair.better == "lower" else 1 - c.ratio.ratio


def _percent(share: float) -> str:
    number = share * 100
    return f"{number:.0f} %" if number >= _WHOLE_PERCENT else f"{number:.2g} %"
