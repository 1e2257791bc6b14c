"""Contrasts for the effect of a factor: weights of cells whose sum with the cells' logarithms is the logarithm of a ratio.

Where cells differ in one factor alone, their pairs are averaged: that needs no model. A fraction of a design has no such pairs. There, a
least-squares model of main effects and two-factor interactions is used. It shows whether an effect can be estimated free of interactions
(G. E. P. Box, J. S. Hunter, Technometrics 3, 1961: designs of resolution IV), or with which interactions it is confounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Group = tuple[str, ...]
"""Factors that always change together."""
Levels = tuple[str, ...]
"""One level of each factor of a group."""
_TINY = 1e-9


@dataclass(frozen=True)
class Weights:
    """Weights of a contrast, one for each cell, in the order of the cells."""

    of: tuple[float, ...]
    pairs: int
    """Number of averaged pairs (of an interaction: pairs of pairs); 0 for weights from the model."""
    used: tuple[int, ...]
    """Indexes of the cells with a weight other than 0."""


@dataclass(frozen=True)
class CellDesign:
    """The cells of a design, each with the levels of every group."""

    groups: tuple[Group, ...]
    cells: tuple[tuple[Levels, ...], ...]

    def pairs(self, group: int, before: Levels, after: Levels) -> Weights | None:
        """Return the mean over all pairs of cells that differ in `group` alone."""
        place = {cell: n for n, cell in enumerate(self.cells)}
        contrasts = []
        for cell, n in place.items():
            other = (*cell[:group], after, *cell[group + 1 :])
            if cell[group] == before and other in place:
                contrasts.append(((n, -1.0), (place[other], 1.0)))
        return self._mean(contrasts)

    def quadruples(self, a: int, b: int, change_a: tuple[Levels, Levels], change_b: tuple[Levels, Levels]) -> Weights | None:
        """Return the interaction of two groups: how the effect of `a` changes with `b`, averaged over sets of four cells."""
        place = {cell: n for n, cell in enumerate(self.cells)}
        contrasts = []
        for cell, n in place.items():
            if (cell[a], cell[b]) != (change_a[0], change_b[0]):
                continue
            four = [(n, 1.0)]
            for of_a, of_b, sign in ((change_a[1], change_b[0], -1.0), (change_a[0], change_b[1], -1.0), (change_a[1], change_b[1], 1.0)):
                other = tuple(of_a if i == a else of_b if i == b else level for i, level in enumerate(cell))
                if other in place:
                    four.append((place[other], sign))
            if len(four) == 4:  # noqa: PLR2004 - all four are there
                contrasts.append(tuple(four))
        return self._mean(contrasts)

    def clear(self, group: int, before: Levels, after: Levels) -> Weights | None:
        """Return the effect from the model with every two-factor interaction; None if it is confounded with one."""
        return self._out_of(self.model, group, before, after)

    def alone(self, group: int, before: Levels, after: Levels) -> Weights | None:
        """Return the effect from the model of main effects; None if it is confounded with another main effect."""
        return self._out_of(self.mains, group, before, after)

    def mixed_with(self, group: int, before: Levels, after: Levels) -> list[tuple[int, int]]:
        """Return the pairs of groups whose interaction is confounded with the effect of `alone`."""
        import numpy as np  # noqa: PLC0415 - takes 80 ms to import, and few commands need it

        weights = self.alone(group, before, after)
        if weights is None:
            return []
        of = np.array(weights.of)
        return [pair for pair in combinations(range(len(self.groups)), 2) if np.abs(of @ self._product(*pair)).max() > _TINY]

    def confounded(self) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Return the pairs of interactions that are confounded with each other: their columns are linearly dependent."""
        import numpy as np  # noqa: PLC0415 - as above

        out = []
        for one, other in combinations(combinations(range(len(self.groups)), 2), 2):
            a, b = self._product(*one), self._product(*other)
            ranks = [int(np.linalg.matrix_rank(np.hstack([self.mains, *more]))) for more in ((), (a,), (b,), (a, b))]
            if ranks[1] > ranks[0] and ranks[2] > ranks[0] and ranks[3] == ranks[1] == ranks[2]:
                out.append((one, other))
        return out

    @cached_property
    def mains(self) -> NDArray[np.float64]:
        """Design matrix of the main effects: a column of ones, then one for each level of each group but its first."""
        import numpy as np  # noqa: PLC0415 - as above

        return np.hstack([np.ones((len(self.cells), 1)), *(self._dummies(g) for g in range(len(self.groups)))])

    @cached_property
    def model(self) -> NDArray[np.float64]:
        """Design matrix with main effects and all two-factor interactions."""
        import numpy as np  # noqa: PLC0415 - as above

        return np.hstack([self.mains, *(self._product(a, b) for a, b in combinations(range(len(self.groups)), 2))])

    def _levels(self, group: int) -> list[Levels]:
        return list(dict.fromkeys(cell[group] for cell in self.cells))

    def _dummies(self, group: int) -> NDArray[np.float64]:
        """Return a column for each level but the first, centred, so that an effect is at the mean of the other groups."""
        import numpy as np  # noqa: PLC0415 - as above

        columns = np.array([[float(cell[group] == level) for level in self._levels(group)[1:]] for cell in self.cells])
        centred: NDArray[np.float64] = columns - columns.mean(axis=0)
        return centred

    def _product(self, a: int, b: int) -> NDArray[np.float64]:
        import numpy as np  # noqa: PLC0415 - as above

        one, other = self._dummies(a), self._dummies(b)
        columns: NDArray[np.float64] = np.einsum("ni,nj->nij", one, other).reshape(len(self.cells), -1)
        return columns

    def _out_of(self, model: NDArray[np.float64], group: int, before: Levels, after: Levels) -> Weights | None:
        """Return the weights of the contrast between two levels of `group`; None if the model cannot estimate it."""
        import numpy as np  # noqa: PLC0415 - as above

        start = 1 + sum(len(self._levels(g)) - 1 for g in range(group))
        wanted = np.zeros(model.shape[1])
        for level, sign in ((before, -1.0), (after, 1.0)):
            if place := self._levels(group).index(level):
                wanted[start + place - 1] = sign
        inverse = np.linalg.pinv(model)
        if not np.allclose(wanted @ inverse @ model, wanted, atol=_TINY):
            return None
        of: NDArray[np.float64] = wanted @ inverse
        return Weights(tuple(of.tolist()), 0, tuple(int(n) for n in np.flatnonzero(np.abs(of) > _TINY)))

    def _mean(self, contrasts: Sequence[Sequence[tuple[int, float]]]) -> Weights | None:
        if not contrasts:
            return None
        of = [0.0] * len(self.cells)
        for cells in contrasts:
            for n, sign in cells:
                of[n] += sign / len(contrasts)
        return Weights(tuple(of), len(contrasts), tuple(sorted({n for cells in contrasts for n, _ in cells})))


def groups_of(levels: Sequence[Mapping[str, str]], factors: Sequence[str]) -> tuple[Group, ...]:
    """Return the groups of factors whose levels always change together."""
    groups: list[list[str]] = []
    for factor in factors:
        for group in groups:
            both = {(of[group[0]], of[factor]) for of in levels}
            if len(both) == len({a for a, _ in both}) == len({b for _, b in both}):
                group.append(factor)
                break
        else:
            groups.append([factor])
    return tuple(tuple(g) for g in groups)


def changes(levels: Sequence[Levels], *, numeric: bool) -> list[tuple[Levels, Levels]]:
    """Return the pairs of levels to compare: each number with the next smaller one, each word with the first word."""
    if numeric:
        return list(pairwise(sorted(levels, key=lambda of: float(of[0]))))
    return [(levels[0], of) for of in levels[1:]]
