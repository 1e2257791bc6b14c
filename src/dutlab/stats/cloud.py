"""Points that are as dense as their posterior, in a box in which each point is equally likely before anything is seen.

Sequential Monte Carlo (Chopin, Biometrika 89, 2002; Del Moral, Doucet and Jasra, J. R. Stat. Soc. B 68, 2006): the points begin spread over
the whole box. What is new to them is let in little by little, so that a part of them always remains; those that remain are multiplied and
moved by Metropolis steps of the size and shape of the cloud. It needs no derivative and follows ridges and narrow peaks. The randomness has
a fixed seed: the same sights in the same order always give the same points.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Logs = Callable[[Array], tuple[Array, Array]]
"""Points (rows) → logarithms of the likelihood of what was seen before, and of what is new."""

_REMAIN = 0.5
"""So many of the points are left, in effect, each time that more is let in."""
_MOVES = 4
"""Moves of every point each time."""
_TAKEN = 0.25
"""Share of moves that should be taken (Roberts and Rosenthal, Statistical Science 16, 2001)."""
_HALVINGS = 30
_SEED = 20210
_NEVER = -1e9


class Cloud:
    """`box` has the least and the greatest value of each column of `points`."""

    def __init__(self, box: Array, count: int) -> None:
        self._random = np.random.default_rng(_SEED)
        strata = self._random.permuted(np.tile(np.arange(count), (box.shape[1], 1)), axis=1).T
        self.points: Array = box[0] + (strata + 0.5) / count * (box[1] - box[0])
        self._box, self._step = box, 1.5 / np.sqrt(box.shape[1])

    def see(self, logs: Logs) -> None:
        """Something new. `logs` takes all points at once, and is asked for others than those that the cloud has now."""
        known, new = _finite(logs(self.points))
        share = 0.0
        while share < 1:
            more = _rise(new, 1 - share)
            chosen = self._chosen(more * new)
            share = share + more if more < 1 - share else 1.0
            self.points, known, new = self.points[chosen], known[chosen], new[chosen]
            known, new = self._move(logs, known, new, share)

    def _chosen(self, logs: Array) -> NDArray[np.intp]:
        """Each point as often as its weight says, in even steps."""
        weights = np.cumsum(np.exp(logs - logs.max()))
        places = (np.arange(len(weights)) + 0.5) / len(weights) * weights[-1]
        chosen: NDArray[np.intp] = np.minimum(np.searchsorted(weights, places), len(weights) - 1)
        return chosen

    def _move(self, logs: Logs, known: Array, new: Array, share: float) -> tuple[Array, Array]:
        low, high = self._box
        shape = np.linalg.cholesky(np.cov(self.points.T) + np.diag(((high - low) * 1e-9) ** 2))
        for _ in range(_MOVES):
            there = self.points + self._step * self._random.standard_normal(self.points.shape) @ shape.T
            inside = ((there >= low) & (there <= high)).all(axis=1)
            known_there, new_there = _finite(logs(np.clip(there, low, high)))
            gain = known_there - known + share * (new_there - new)
            taken = inside & (np.log(self._random.random(len(gain))) < gain)
            self.points = np.where(taken[:, None], there, self.points)
            known, new = np.where(taken, known_there, known), np.where(taken, new_there, new)
            self._step *= float(np.exp(np.clip(2 * (taken.mean() - _TAKEN), -0.4, 0.4)))
        return known, new


def _rise(new: Array, most: float) -> float:
    """The greatest share, up to `most`, of what is new that leaves enough points."""

    def left(share: float) -> float:
        weights = np.exp(share * (new - new.max()))
        return float(weights.sum() ** 2 / (weights * weights).sum() / len(weights))

    low, high = 0.0, most
    if left(most) >= _REMAIN:
        return most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if left(middle) > _REMAIN else (low, middle)
    return high


def _finite(logs: tuple[Array, Array]) -> tuple[Array, Array]:
    known, new = logs
    return np.where(np.isfinite(known), known, _NEVER), np.where(np.isfinite(new), new, _NEVER)
