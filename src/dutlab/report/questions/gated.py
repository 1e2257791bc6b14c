"""Result of a gate: the measurements of two versions, and the verdict in one sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from dutlab.analysis.comparison import Pair
from dutlab.analysis.gate import CellName, GateCell, overall, seen
from dutlab.analysis.verdict import CheckKind
from dutlab.errors import InputError
from dutlab.measures import is_exact
from dutlab.report.model.contests import CompareRequest
from dutlab.report.model.words import plural
from dutlab.report.questions.compared import ComparedPair, compare_runs, keys_by_label
from dutlab.report.questions.outcome import CheckOutcome, OutcomeCase
from dutlab.report.questions.sides import ComparedRun
from dutlab.stats.functions import FunctionChange, words_of
from dutlab.store.cell_figures import CellKey

_WHOLE_PERCENT = 10
_HEADS = ("result", "older", "newer", "worse by", "at most", "rounds", "verdict")


@dataclass(frozen=True)
class GatePart:
    """One kind of measurement of both versions."""

    what: str
    """Kind: `instructions` or `time`."""
    cells: tuple[GateCell, ...]
    allowed: float
    failures: tuple[tuple[str, str], ...] = ()
    """Trials without a result: place and reason."""
    runs: tuple[str, ...] = ()
    """Run folders, oldest first."""
    functions: tuple[tuple[str, tuple[FunctionChange, ...]], ...] = ()
    """Label of a worse cell → functions that take more instructions."""

    @property
    def kind(self) -> CheckKind:
        """Verdict of its cells together."""
        return overall(self.cells)

    @property
    def seen(self) -> float | None:
        """Smallest change that would have been detected in each cell."""
        return seen(self.cells, self.allowed)

    def grown(self, c: GateCell) -> tuple[FunctionChange, ...]:
        """Return the functions that take more instructions in a cell."""
        return dict(self.functions).get(c.label, ())


@dataclass(frozen=True)
class GateResult:
    """Two versions, and the verdict on the newer one."""

    first: str
    second: str
    parts: tuple[GatePart, ...]

    @property
    def kind(self) -> CheckKind:
        """Verdict of its parts together."""
        kinds = {part.kind for part in self.parts}
        return next((kind for kind in (CheckKind.FAIL, CheckKind.CANNOT_TELL) if kind in kinds), CheckKind.PASS)

    @property
    def sentence(self) -> str:
        """Verdict, as `FAIL: 1 of 3 results is worse, at worst …`, with the smallest detectable change."""
        return f"{self.kind.value}: {'; '.join(self._clauses())}"

    def _clauses(self) -> Iterator[str]:
        for part in self.parts:
            worse = [c for c in part.cells if c.kind is CheckKind.FAIL]
            if worse:
                worst = max(worse, key=lambda c: c.worse or 0.0)
                of = f"{len(worse)} of {plural(len(part.cells), 'result')} {'is' if len(worse) == 1 else 'are'} worse by {part.what}"
                yield f"{of}, at worst {worst.label}: {_words(worst, part.grown(worst))}"
            elif part.kind is CheckKind.CANNOT_TELL:
                where, why = next(
                    ((c.label, c.why) for c in part.cells if c.kind is CheckKind.CANNOT_TELL),
                    next(iter(part.failures), ("", "there is no result")),
                )
                yield f"{f'{where}: ' if where else ''}{why}"
            else:
                yield f"none of {plural(len(part.cells), 'result')} is worse by more than {_percent(part.allowed)} by {part.what}"
            if part.cells:
                yield _seen_words(part)

    def outcome(self, *, suite: str) -> CheckOutcome:
        """Return the outcome for the CI formats."""
        return CheckOutcome(
            command="dutlab gate",
            kind=self.kind,
            sentence=self.sentence,
            first=self.first,
            second=self.second,
            cases=tuple(_case(c, part.grown(c)) for part in self.parts for c in part.cells),
            warnings=tuple(of for part in self.parts for of in part.failures),
            suite=suite,
            testbed="guest" if all(is_exact(c.figure) for part in self.parts for c in part.cells) else "",
        )

    def plain(self) -> dict[str, object]:
        """Return the result as data for JSON."""
        return {
            "first": self.first, "second": self.second, "kind": self.kind.name, "exit_status": self.kind.exit_status,
            "verdict": self.sentence,
            "parts": [
                {
                    "what": part.what, "kind": part.kind.name, "allowed": part.allowed, "seen": part.seen, "runs": list(part.runs),
                    "cells": [{**asdict(c), "kind": c.kind.name} for c in part.cells],
                    "failures": [{"where": where, "why": why} for where, why in part.failures],
                    "functions": [
                        {"where": where, "functions": [asdict(of) for of in changes]} for where, changes in part.functions
                    ],
                }
                for part in self.parts
            ],
        }  # fmt: skip


def gate_rows(part: GatePart) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return heads and rows of a part's table; columns 1 to 5 have figures."""
    rows: list[tuple[str, ...]] = [
        (c.label, _level(c.first), _level(c.second), _change(c.worse), _change(c.at_most), _rounds(c), _verdict(c)) for c in part.cells
    ]
    return _HEADS, rows


@dataclass(frozen=True)
class MeasuredSides:
    """Two runs for a gate: pairs of their common cells, cells that one run lacks, and trials without a result."""

    pairs: tuple[Pair, ...]
    absent: tuple[GateCell, ...]
    failures: tuple[tuple[str, str], ...]
    keys: Mapping[str, tuple[CellKey, str]]
    """Label → (cell, subject of its figures)."""

    def keys_of(self, names: Collection[CellName]) -> set[CellKey]:
        """Return the cells of these names."""
        return {self.keys[label][0] for label, _ in names}


def measured_sides(older: ComparedRun, newer: ComparedRun, asked: CompareRequest) -> MeasuredSides:
    """Match the cells of two runs. Raises InputError if they have results, but no cell in common."""
    failures = tuple(
        (f"{'older' if run is older else 'newer'}: {r.cell.mode} {r.cell.setting.size}".strip(), r.why or r.status)
        for run in (older, newer)
        for r in run.records
        if r.status != "measured"
    )
    keys = keys_by_label([older, newer])
    try:
        pair: ComparedPair | None = compare_runs([older], [newer], asked)
    except InputError:
        if not failures:
            raise
        pair = None
    if pair is None:
        return MeasuredSides((), (), failures, keys)
    absent = tuple(
        GateCell(label, "", CheckKind.CANNOT_TELL, None, None, None, None, 0, why=f"the {side} version has no result")
        for side, labels in (("newer", pair.only_first), ("older", pair.only_second))
        for label in labels
    )
    return MeasuredSides(tuple(c.pair for c in pair.comparisons), absent, failures, keys)


def called_as(pairs: Sequence[Pair], labels: Mapping[str, str]) -> list[Pair]:
    """Return the pairs of a second measurement with the labels of the first."""
    return [replace(pair, label=labels.get(pair.label, pair.label)) for pair in pairs]


def _case(c: GateCell, functions: tuple[FunctionChange, ...]) -> OutcomeCase:
    name = f"{c.label} · {c.figure}" if c.figure else c.label
    return OutcomeCase(name, c.kind, "" if c.kind is CheckKind.PASS else _words(c, functions), c.first, c.second, c.worse, functions)


def _words(c: GateCell, functions: Sequence[FunctionChange] = ()) -> str:
    """Return a result in words, as `1.7 % worse (5,000.0 to 5,085.0), measured twice (functions: nft_do_chain +84)`."""
    if c.kind is CheckKind.CANNOT_TELL or c.worse is None:
        return c.why
    sentence = f"{_percent(c.worse)} worse ({_level(c.first)} to {_level(c.second)}){', measured twice' if c.again else ''}"
    return f"{sentence} (functions: {words_of(functions)})" if functions else sentence


def _verdict(c: GateCell) -> str:
    return {CheckKind.PASS: "passes", CheckKind.FAIL: "worse"}.get(c.kind, f"cannot tell: {c.why}")


def _seen_words(part: GatePart) -> str:
    if part.seen is None:
        return "no change could have been seen in every result"
    return f"a change of {_percent(part.seen)} in any result would have been seen"


def _rounds(c: GateCell) -> str:
    return f"{c.rounds} + {c.again}" if c.again else str(c.rounds)


def _level(value: float | None) -> str:
    return "none" if value is None else f"{value:,.1f}"


def _change(share: float | None) -> str:
    return "" if share is None else f"{share * 100:+.2g} %"


def _percent(share: float) -> str:
    number = share * 100
    return f"{number:.0f} %" if number >= _WHOLE_PERCENT else f"{number:.2g} %"
