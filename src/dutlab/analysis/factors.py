"""What each factor does, from cells as they are: full, fractional or made by hand, with cells missing.

An effect is read off pairs of cells that differ in one factor alone, as the ratio of their values: everything else, also what is slow to
change and so was done in blocks, is the same on both sides. Of the ratios stand the geometric mean and, from six pairs on, the exact 95 %
interval of their median, below that their range. An interaction is the ratio of two such ratios. Factors that were only ever changed
together are one effect, and are named as such: no arithmetic can part them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import exp, fsum, isfinite, log

from dutlab.analysis.statistics import Summary, median, summarise

_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,15})?")
DEPENDS = 1.05
"""Interactions of at least this ratio, or its inverse, are put into words."""


@dataclass(frozen=True)
class Cell:
    """One combination of levels with its repeats."""

    levels: Mapping[str, str]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Effect:
    """A change of level of one factor, or of several that were only ever changed together."""

    factors: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    """Levels of each of the factors."""
    ratio: float
    """Geometric mean over pairs."""
    over: Summary
    """The ratios of single pairs."""
    only_at: tuple[str, ...]
    """`mtu 9000`: levels of other factors that all pairs share, although the design has others."""

    @property
    def name(self) -> str:
        """`cpb + pcie_power_mgmt`."""
        return " + ".join(self.factors)


@dataclass(frozen=True)
class Interaction:
    """How far one effect depends on another factor: its ratio at the other's second level over that at the first."""

    effect: str
    by: str
    ratio: float
    over: Summary


@dataclass(frozen=True)
class Analysis:
    """Everything that the cells tell, and what they cannot."""

    effects: tuple[Effect, ...]
    interactions: tuple[Interaction, ...]
    together: tuple[tuple[str, ...], ...]
    """Groups of factors that were only ever changed together."""
    unseparated: tuple[str, ...]
    """Sentences on factors without a pair of cells that differ in them alone."""
    constant: tuple[str, ...]
    """Factors with one level only."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """One for each effect, then what cannot be told."""
        out = [_sentence(e, [i for i in self.interactions if i.effect == e.name]) for e in self.effects]
        out += [f"{' and '.join(group)} were only changed together: which of them does it cannot be told" for group in self.together]
        return (*out, *self.unseparated)


def analyse(cells: Sequence[Cell]) -> Analysis:
    """Effects of every factor over `cells`. Raises ValueError without two usable cells, or where one stands twice."""
    usable = [Cell(c.levels, kept) for c in cells if (kept := tuple(v for v in c.values if isfinite(v) and v > 0))]
    if len(usable) < 2:  # noqa: PLR2004 - one cell has nothing beside it
        raise ValueError("effects need at least two cells with values above zero")
    factors = list(dict.fromkeys(name for c in usable for name in c.levels))
    if ragged := [f for f in factors if any(f not in c.levels for c in usable)]:
        raise ValueError(f"every cell needs a level of each factor; some have none of {', '.join(ragged)}")
    levels = {f: list(dict.fromkeys(c.levels[f] for c in usable)) for f in factors}
    varied = [f for f in factors if len(levels[f]) > 1]
    groups = _groups(usable, varied)
    value = {_key(c, varied): median(c.values) for c in usable}
    if len(value) < len(usable):
        raise ValueError("two cells have the same levels; put their values together as repeats")
    made = {group: _pairs(value, varied, group, levels) for group in groups}
    effects = [_effect(varied, group, *change, ratios, levels) for group in groups for change, ratios in made[group].items()]
    return Analysis(
        effects=tuple(effects),
        interactions=tuple(i for a, b in combinations(groups, 2) for i in _interactions(varied, made, a, b)),
        together=tuple(g for g in groups if len(g) > 1),
        unseparated=tuple(_unseparated(g, usable, varied) for g in groups if not made[g]),
        constant=tuple(f for f in factors if f not in varied),
    )


_Key = tuple[str, ...]
_Change = tuple[_Key, _Key]
_Ratios = dict[_Key, float]
"""Levels of all other factors → ratio."""


def _key(cell: Cell, factors: Sequence[str]) -> _Key:
    return tuple(cell.levels[f] for f in factors)


def _groups(cells: Sequence[Cell], factors: Sequence[str]) -> list[tuple[str, ...]]:
    """Factors whose levels always go together, as one."""
    groups: list[list[str]] = []
    for factor in factors:
        for group in groups:
            both = {(c.levels[group[0]], c.levels[factor]) for c in cells}
            if len(both) == len({a for a, _ in both}) == len({b for _, b in both}):
                group.append(factor)
                break
        else:
            groups.append([factor])
    return [tuple(g) for g in groups]


def _pairs(
    value: Mapping[_Key, float], factors: Sequence[str], group: tuple[str, ...], levels: Mapping[str, Sequence[str]]
) -> dict[_Change, _Ratios]:
    """(levels before, levels after) → ratios of all pairs of cells that differ in `group` alone.

    Numbers are set against the next smaller one, words against the first that was met.
    """
    places = [factors.index(f) for f in group]
    by_rest: dict[_Key, dict[_Key, float]] = {}
    for key, v in value.items():
        rest = tuple(level for n, level in enumerate(key) if n not in places)
        by_rest.setdefault(rest, {})[tuple(key[n] for n in places)] = v
    order = sorted({of for found in by_rest.values() for of in found}, key=lambda of: levels[group[0]].index(of[0]))
    if numeric := all(_NUMBER.fullmatch(of[0]) for of in order):
        order.sort(key=lambda of: float(of[0]))
    out: dict[_Change, _Ratios] = {}
    for before, after in pairwise(order) if numeric else ((order[0], of) for of in order[1:]):
        if ratios := {rest: found[after] / found[before] for rest, found in by_rest.items() if before in found and after in found}:
            out[before, after] = ratios
    return out


def _effect(  # noqa: PLR0917 - all of one change
    factors: Sequence[str], group: tuple[str, ...], before: _Key, after: _Key, ratios: _Ratios, levels: Mapping[str, Sequence[str]]
) -> Effect:
    rest = [f for f in factors if f not in group]
    only = tuple(
        f"{f} {next(iter(seen))}" for n, f in enumerate(rest) if len(seen := {key[n] for key in ratios}) == 1 and len(levels[f]) > 1
    )
    return Effect(group, before, after, _geometric(list(ratios.values())), summarise(list(ratios.values())), only)


def _interactions(
    factors: Sequence[str], made: Mapping[tuple[str, ...], Mapping[_Change, _Ratios]], a: tuple[str, ...], b: tuple[str, ...]
) -> list[Interaction]:
    """Of the first change of `a` by the levels of `b`: ratio of ratios, all else equal."""
    rest = [f for f in factors if f not in a]
    places = [rest.index(f) for f in b]
    out = []
    for ratios in list(made[a].values())[:1]:
        by_rest: dict[_Key, dict[_Key, float]] = {}
        for key, ratio in ratios.items():
            other = tuple(level for n, level in enumerate(key) if n not in places)
            by_rest.setdefault(other, {})[tuple(key[n] for n in places)] = ratio
        for before, after in list(made[b])[:1]:
            found = [of[after] / of[before] for of in by_rest.values() if before in of and after in of]
            if found:
                out.append(Interaction(" + ".join(a), f"{' + '.join(b)} {' + '.join(after)}", _geometric(found), summarise(found)))
    return out


def _unseparated(group: tuple[str, ...], cells: Sequence[Cell], factors: Sequence[str]) -> str:
    """Why there is no pair: what else changes wherever this does."""
    name = " + ".join(group)
    changes = [
        {f for f in factors if f not in group and a.levels[f] != b.levels[f]}
        for a, b in combinations(cells, 2)
        if a.levels[group[0]] != b.levels[group[0]]
    ]
    always = sorted(set.intersection(*changes)) if changes else []
    with_ = f"{' and '.join(always)} changes too" if always else "something else changes too"
    return f"{name} cannot be told apart: wherever it changes, {with_}"


def _sentence(effect: Effect, depends: Sequence[Interaction]) -> str:
    after, before = " + ".join(effect.after), " + ".join(effect.before)
    n, over = effect.over.n, effect.over
    spread = (
        f"95 % interval {over.interval.low:.2f} to {over.interval.high:.2f} over {n} pairs of cells" if over.interval else
        f"{over.low:.2f} to {over.high:.2f} over {n} pairs of cells" if n > 1 else "one pair of cells"
    )  # fmt: skip
    text = f"{effect.name} {after} instead of {before}: {effect.ratio:.2f} times ({spread})"
    text += f", seen only at {', '.join(effect.only_at)}" if effect.only_at else ""
    strong = [i for i in depends if not 1 / DEPENDS < i.ratio < DEPENDS]
    how = [(i.ratio, "more", i.by) if i.ratio > 1 else (1 / i.ratio, "less", i.by) for i in strong]
    return text + "".join(f"; {times:.2f} times {word} with {by}" for times, word, by in how)


def _geometric(values: Sequence[float]) -> float:
    return exp(fsum(map(log, values)) / len(values))
