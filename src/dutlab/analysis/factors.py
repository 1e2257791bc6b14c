"""Effects of factors, from the cells of any design: full, fractional or made by hand, also with cells missing.

An effect is a ratio. The weights of dutlab.stats.contrasts over the values of one block give one ratio per block. The level of the block
cancels in it. Cells are in random order inside a block, so the ratios of blocks are independent. The effect is their geometric mean, and
its interval is from t over blocks. With fewer than three whole blocks the weights are over the medians of the cells. The interval then
comes from the residuals of main effects and two-factor interactions (least squares on the logarithms). Holm's correction covers every
effect and interaction. Only a proven interaction becomes a clause in a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import exp, inf, isfinite, log, sqrt
from statistics import fmean, stdev

from dutlab.analysis.comparison import Comparison
from dutlab.analysis.together import Together, together
from dutlab.analysis.verdict import Reason, Verdict
from dutlab.stats import student
from dutlab.stats.contrasts import CellDesign, Group, Levels, Weights, changes, groups_of
from dutlab.stats.rank import holm
from dutlab.stats.summary import CONFIDENCE, Interval, median

_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,15})?")
LEVEL = 0.05
FEWEST_BLOCKS = 3
_ROUNDING = 1e-12
_NEAR_ONE = 0.02


@dataclass(frozen=True)
class FactorCell:
    """One combination of levels with its repeats, and the block of each repeat."""

    levels: Mapping[str, str]
    values: tuple[float, ...]
    blocks: tuple[int, ...] = ()
    """Empty: 1, 2, 3 and so on."""


@dataclass(frozen=True)
class Sureness:
    """Confidence in a ratio."""

    interval: Interval | None
    """95 % interval of this ratio alone; None without an estimate of the error."""
    p: float | None
    """Two-sided, adjusted (Holm) for all tests of the analysis; where `verdict` is known, for all pairs of the run."""
    verdict: Verdict | None = None
    """Verdict of the rule for answers (dutlab.analysis.answers), for cells that it compares."""

    @property
    def proven(self) -> bool:
        """True if the verdict is better or worse; without a verdict, if p is at most LEVEL."""
        if self.verdict is not None:
            return self.verdict in {Verdict.BETTER, Verdict.WORSE}
        return self.p is not None and self.p <= LEVEL


@dataclass(frozen=True)
class Effect:
    """Effect of a change of level of one factor, or of several factors that always changed together."""

    factors: Group
    before: Levels
    after: Levels
    """`before` and `after` have one level for each factor."""
    ratio: float
    sure: Sureness
    pairs: int
    """Number of pairs of cells that differ in nothing else; 0 for an estimate by least squares."""
    only_at: tuple[str, ...] = ()
    """Levels of other factors at which all pairs are, although the design has further levels: `mtu 9000`."""
    mixed_with: tuple[str, ...] = ()
    """Interactions that it cannot be separated from: `a × b`."""

    @property
    def name(self) -> str:
        """Names of the factors: `cpb + pcie_power_mgmt`."""
        return " + ".join(self.factors)


@dataclass(frozen=True)
class Interaction:
    """Dependence of one effect on another factor. `ratio`: the effect after a change of the other factor ÷ the effect before it."""

    effect: str
    change: tuple[Levels, Levels]
    by: str
    at: tuple[Levels, Levels]
    """Levels of the other factor, before and after its change."""
    ratio: float
    sure: Sureness


@dataclass(frozen=True)
class Analysis:
    """Result of the analysis: effects, interactions, and questions that the cells cannot answer."""

    effects: tuple[Effect, ...]
    interactions: tuple[Interaction, ...]
    together: tuple[Group, ...]
    """Groups of factors that always changed together."""
    unseparated: tuple[str, ...]
    """Sentences on effects and interactions that cannot be separated."""
    constant: tuple[str, ...]
    """Factors with one level only."""
    left_out: tuple[str, ...]
    """Sentences on cells without a ratio, because values are missing, not above zero or not finite."""
    rests_on: str
    """Source of intervals and p, in words, or the reason why they are missing."""

    @property
    def tests(self) -> int:
        """Number of effects and interactions with a p."""
        return sum(sure.p is not None for sure in (*(e.sure for e in self.effects), *(i.sure for i in self.interactions)))

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences on each effect, then on inseparable effects, then on cells that were left out."""
        out = [
            _sentence(e, [i for i in self.interactions if i.effect == e.name and i.change == (e.before, e.after)], self.tests)
            for e in self.effects
        ]
        out += [f"{' and '.join(group)} were only changed together: their effects cannot be separated" for group in self.together]
        return (*out, *self.unseparated, *self.left_out)


_Between = Callable[[FactorCell, FactorCell], Comparison | None]


def with_rule_verdicts(
    analysis: Analysis, cells: Sequence[FactorCell], between: _Between, modes: Mapping[tuple[str, str], Together]
) -> Analysis:  # fmt: skip
    """Return the analysis with the verdicts of the rule for answers, for effects between cells that the rule compares.

    `between` returns the comparison of the second of two cells against the first. `modes` has the statement of all cells on two modes. An
    effect from one pair of cells takes the result of that comparison, and an effect from several pairs takes their statement together.
    """
    return replace(analysis, effects=tuple(_ruled(effect, cells, between, modes) for effect in analysis.effects))


def _ruled(effect: Effect, cells: Sequence[FactorCell], between: _Between, modes: Mapping[tuple[str, str], Together]) -> Effect:
    comparisons = [between(a, b) for a, b in _pairs_of(effect, cells)] if effect.pairs else []
    known = [replace(c, pair=replace(c.pair, label=str(n))) for n, c in enumerate(comparisons) if c is not None and c.ratio is not None]
    if not known or len(known) < len(comparisons):
        return effect
    if len(known) > 1 and all(c.reason is Reason.ONE_REPEAT for c in known):
        return effect  # without repeats the evidence is the pairs themselves, as in the model of the analysis
    if len(known) == 1 and (ratio := known[0].ratio) is not None:
        return replace(effect, ratio=ratio.ratio, sure=Sureness(ratio.interval, known[0].p, known[0].verdict))
    all_of = modes.get((effect.before[0], effect.after[0])) if effect.factors == ("mode",) else None
    if all_of is None or all_of.cells != len(known):
        all_of = together(known)
    if all_of is None:
        return effect
    ratio_of_all, interval = all_of.ratio, all_of.interval
    if known[0].pair.better == "lower":  # the ratio of together() is above 1 for better
        ratio_of_all = 1 / ratio_of_all
        interval = None if interval is None else Interval(1 / interval.high, 1 / interval.low, interval.confidence)
    return replace(effect, ratio=ratio_of_all, sure=Sureness(interval, all_of.p, all_of.verdict))


def _pairs_of(effect: Effect, cells: Sequence[FactorCell]) -> Iterator[tuple[FactorCell, FactorCell]]:
    """Yield pairs of cells before and after the change that differ in nothing else."""

    def rest(cell: FactorCell) -> dict[str, str]:
        return {name: level for name, level in cell.levels.items() if name not in effect.factors}

    def at(cell: FactorCell) -> Levels:
        return tuple(cell.levels[name] for name in effect.factors)

    for a in cells:
        if at(a) == effect.before:
            yield from ((a, b) for b in cells if at(b) == effect.after and rest(a) == rest(b))


def analyse(cells: Sequence[FactorCell]) -> Analysis:
    """Return the effects of every factor over `cells`.

    Raises ValueError for fewer than two usable cells, for two cells with the same levels, and for a cell without a level of some factor.
    """
    usable, left_out = _usable(cells)
    if len(usable) < 2:  # noqa: PLR2004 - one cell has nothing to be compared with
        raise ValueError("; ".join(["effects need at least two cells with values above zero", *left_out]))
    factors = list(dict.fromkeys(name for c in usable for name in c.levels))
    if ragged := [f for f in factors if any(f not in c.levels for c in usable)]:
        raise ValueError(f"every cell needs a level of each factor; some cells lack {', '.join(ragged)}")
    varied = [f for f in factors if len({c.levels[f] for c in usable}) > 1]
    groups = groups_of([c.levels for c in usable], varied)
    design = CellDesign(groups, tuple(tuple(tuple(c.levels[f] for f in g) for g in groups) for c in usable))
    if len(set(design.cells)) < len(usable):
        raise ValueError("two cells have the same levels; put their values together as repeats")
    data = _Data(usable, design)
    effects, unseparated = _effects(data)
    interactions = list(_interactions(data))
    tested: list[Effect | Interaction] = [*effects, *interactions]
    adjusted = iter(holm([of.sure.p for of in tested if of.sure.p is not None]))
    return Analysis(
        effects=tuple(replace(e, sure=_adjusted(e.sure, adjusted)) for e in effects),
        interactions=tuple(replace(i, sure=_adjusted(i.sure, adjusted)) for i in interactions),
        together=tuple(g for g in groups if len(g) > 1),
        unseparated=(
            *unseparated,
            *(f"{_product(design, a)} cannot be separated from {_product(design, b)}" for a, b in design.confounded()),
        ),
        constant=tuple(f for f in factors if f not in varied),
        left_out=left_out,
        rests_on=data.rests_on,
    )


@dataclass(frozen=True)
class _Data:
    """The cells with their design, and estimates of the ratio for any weights."""

    cells: Sequence[FactorCell]
    design: CellDesign

    @cached_property
    def logs(self) -> list[float]:
        return [log(median(c.values)) for c in self.cells]

    @cached_property
    def by_block(self) -> dict[int, dict[int, float]]:
        """Block → place of the cell → logarithm of its value there."""
        out: dict[int, dict[int, float]] = {}
        for n, cell in enumerate(self.cells):
            for block, value in zip(cell.blocks or range(1, len(cell.values) + 1), cell.values, strict=True):
                out.setdefault(block, {})[n] = log(value)
        return out

    @cached_property
    def residual(self) -> tuple[float, int, str]:
        """Residual variance of a cell's logarithm under the model, its degrees of freedom, and the model in words."""
        import numpy as np  # noqa: PLC0415 - 80 ms that only some commands need

        both = (self.design.model, "main effects and interactions"), (self.design.mains, "main effects, interactions treated as noise,")
        for model, words in both:
            freedom = len(self.cells) - int(np.linalg.matrix_rank(model))
            if freedom >= 2:  # noqa: PLR2004 - one degree of freedom is too few
                left = np.array(self.logs) - model @ (np.linalg.pinv(model) @ np.array(self.logs))
                return float(left @ left) / freedom, freedom, words
        return 0.0, 0, ""

    @cached_property
    def whole_blocks(self) -> list[int]:
        return [block for block, of in self.by_block.items() if len(of) == len(self.cells)]

    @property
    def rests_on(self) -> str:
        if len(self.by_block) >= FEWEST_BLOCKS and len(self.whole_blocks) >= FEWEST_BLOCKS:
            return f"intervals: t over {len(self.whole_blocks)} blocks of repeats; p: Holm over all effects and interactions"
        _, freedom, words = self.residual
        if freedom:
            left = f"intervals: t with the {freedom} degrees of freedom that least squares of {words} on the logarithms leaves"
            return f"{left}; p: Holm over all effects and interactions"
        return f"no intervals: they need {FEWEST_BLOCKS} repeats of each cell, or at least two cells more than there are effects"

    def ratio(self, weights: Weights) -> tuple[float, Sureness]:
        """Return the ratio for `weights` over the cells, with its interval and p; p is not adjusted yet."""
        value, error, freedom = self._estimate(weights)
        if not freedom:
            return exp(value), Sureness(None, None)
        half = student.quantile((1 + CONFIDENCE) / 2, freedom) * error
        certain = abs(value) / error if error > 0 else (inf if abs(value) >= _ROUNDING else 0.0)
        return exp(value), Sureness(Interval(exp(value - half), exp(value + half), CONFIDENCE), student.two_sided(certain, freedom))

    def _answers(self, weights: Weights) -> list[float]:
        """Return the logarithm of the ratio in each block that has all used cells; empty for fewer than FEWEST_BLOCKS such blocks."""
        whole = [of for of in self.by_block.values() if all(n in of for n in weights.used)]
        return [sum(weights.of[n] * of[n] for n in weights.used) for of in whole] if len(whole) >= FEWEST_BLOCKS else []

    def _estimate(self, weights: Weights) -> tuple[float, float, int]:
        """Return the logarithm of the ratio, its standard error, and degrees of freedom; these are 0 where the error is not known."""
        if answers := self._answers(weights):
            return fmean(answers), stdev(answers) / sqrt(len(answers)), len(answers) - 1
        variance, freedom, _ = self.residual
        value = sum(w * y for w, y in zip(weights.of, self.logs, strict=True))
        return value, sqrt(variance * sum(w * w for w in weights.of)), freedom


def _usable(cells: Sequence[FactorCell]) -> tuple[list[FactorCell], tuple[str, ...]]:
    """Return the cells whose values have logarithms, and a sentence on each other cell, since a zero is a result too."""
    usable, left_out = [], []
    for cell in cells:
        zeros, bad = sum(v <= 0 for v in cell.values), sum(not isfinite(v) for v in cell.values)
        if cell.values and not zeros and not bad:
            usable.append(cell)
            continue
        name = ", ".join(f"{factor} {level}" for factor, level in cell.levels.items())
        why = (
            f"{zeros} of {len(cell.values)} values are not above zero" if zeros else f"{bad} of {len(cell.values)} values are not a number"
        )
        left_out.append(f"left out, since it has no ratio: {name} ({why if cell.values else 'no values'})")
    return usable, tuple(left_out)


def _effects(data: _Data) -> tuple[list[Effect], list[str]]:
    effects, unseparated = [], []
    for g, group in enumerate(data.design.groups):
        group_effects, missing = [], []
        for before, after in _changes(data.design, g):
            weights, mixed = data.design.pairs(g, before, after), list[tuple[int, int]]()
            weights = weights or data.design.clear(g, before, after)
            if weights is None and (weights := data.design.alone(g, before, after)) is not None:
                mixed = data.design.mixed_with(g, before, after)
            if weights is None:
                missing.append((before, after))
                continue
            only = _only_at(data.design, g, weights) if weights.pairs else ()
            group_effects.append(
                Effect(group, before, after, *data.ratio(weights), weights.pairs, only, tuple(_product(data.design, m) for m in mixed))
            )
        effects += group_effects
        if missing and not group_effects:
            unseparated.append(_unseparated(data.design, g))
    return effects, unseparated


def _interactions(data: _Data) -> Iterator[Interaction]:
    """Yield the interaction of every change of one group with every change of another group, all else equal."""
    groups = data.design.groups
    for a, b in combinations(range(len(groups)), 2):
        for change_a in _changes(data.design, a):
            for change_b in _changes(data.design, b):
                if (weights := data.design.quadruples(a, b, change_a, change_b)) is not None:
                    yield Interaction(" + ".join(groups[a]), change_a, " + ".join(groups[b]), change_b, *data.ratio(weights))


def _changes(design: CellDesign, group: int) -> list[tuple[Levels, Levels]]:
    levels = list(dict.fromkeys(cell[group] for cell in design.cells))
    return changes(levels, numeric=all(_NUMBER.fullmatch(of[0]) for of in levels))


def _only_at(design: CellDesign, group: int, weights: Weights) -> tuple[str, ...]:
    out = []
    for g, factors in enumerate(design.groups):
        levels = {design.cells[n][g] for n in weights.used}
        if g != group and len(levels) == 1 and len({cell[g] for cell in design.cells}) > 1:
            out += [f"{f} {level}" for f, level in zip(factors, next(iter(levels)), strict=True)]
    return tuple(out)


def _unseparated(design: CellDesign, group: int) -> str:
    """Return the reason why a factor has no effect: other factors that always change with it."""
    changed = [
        {" + ".join(design.groups[g]) for g in range(len(design.groups)) if g != group and a[g] != b[g]}
        for a, b in combinations(design.cells, 2)
        if a[group] != b[group]
    ]
    always = sorted(set.intersection(*changed)) if changed else []
    with_ = f"{' and '.join(always)} changes too" if always else "something else changes too"
    return f"{' + '.join(design.groups[group])} cannot be separated: wherever it changes, {with_}"


def _product(design: CellDesign, pair: tuple[int, int]) -> str:
    return " × ".join(" + ".join(design.groups[g]) for g in pair)


def _adjusted(sure: Sureness, adjusted: Iterator[float]) -> Sureness:
    return sure if sure.p is None else replace(sure, p=next(adjusted))


def _sentence(effect: Effect, depends: Sequence[Interaction], tests: int) -> str:
    after, before = " + ".join(effect.after), " + ".join(effect.before)
    cells = f"{effect.pairs} pair{'' if effect.pairs == 1 else 's'} of cells" if effect.pairs else "least squares over all cells"
    interval = effect.sure.interval
    spread = f"95 % interval {_times(interval.low)} to {_times(interval.high)}, {cells}" if interval else f"{cells}, no interval"
    text = f"{effect.name} {after} instead of {before}: {_times(effect.ratio)} times ({spread})"
    if effect.sure.p is not None and not effect.sure.proven:
        text += ", no effect proven"
    text += f", seen only at {', '.join(effect.only_at)}" if effect.only_at else ""
    text += f", unless the cause is {' or '.join(effect.mixed_with)}" if effect.mixed_with else ""
    for i in (i for i in depends if i.sure.proven):
        times, word = (i.ratio, "more") if i.ratio > 1 else (1 / i.ratio, "less")
        text += f"; {_times(times)} times {word} with {i.by} {' + '.join(i.at[1])} than with {' + '.join(i.at[0])}"
    return text + _despite_interval(effect.sure, tests)


def _despite_interval(sure: Sureness, tests: int) -> str:
    """Return why an effect is not proven although its interval is beyond 1: its p counts all tests. Empty in all other cases."""
    inside = sure.interval
    if sure.proven or inside is None or sure.verdict is not None or sure.p is None or inside.low <= 1 <= inside.high:
        return ""
    return (
        f". The interval excludes 1, but it is that of this ratio alone; among {tests} tests one may exclude 1 by chance, "
        f"and p = {sure.p:.3f} counts them all (Holm)"
    )


def _times(ratio: float) -> str:
    """Return a ratio with two decimals; with three near 1, where two would hide a proven change."""
    return f"{ratio:.3f}" if abs(ratio - 1) < _NEAR_ONE else f"{ratio:.2f}"
