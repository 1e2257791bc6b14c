"""Sequential Monte Carlo: points distributed like a posterior, from a uniform prior over a box.

Source: Chopin, Biometrika 89, 2002; Del Moral, Doucet and Jasra, J. R. Stat. Soc. B 68, 2006. The points begin evenly over the whole box.
New evidence is admitted in steps, so that enough effective points always remain. These are resampled, then moved by Metropolis steps of the
size and shape of the cloud. The method needs no derivative and follows ridges and narrow peaks. The seed is fixed: the same evidence in the
same order always gives the same points.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Logs = Callable[[Array], tuple[Array, Array]]
"""Maps points (rows) to log-likelihoods: of the evidence seen before, and of the new evidence."""

_REMAIN = 0.5
"""Effective share of the points that remains after each step of new evidence."""
_MOVES = 4
"""Metropolis moves of every point per step."""
_TAKEN = 0.25
"""Target acceptance rate of moves (Roberts and Rosenthal, Statistical Science 16, 2001)."""
_HALVINGS = 30
_SEED = 20210
_NEVER = -1e9


class Cloud:
    """Sample of points from a posterior. `box` has the least and the greatest value of each column of `points`."""

    def __init__(self, box: Array, count: int) -> None:
        self._random = np.random.default_rng(_SEED)
        strata = self._random.permuted(np.tile(np.arange(count), (box.shape[1], 1)), axis=1).T
        self.points: Array = box[0] + (strata + 0.5) / count * (box[1] - box[0])
        self._box, self._step = box, 1.5 / np.sqrt(box.shape[1])

    def see(self, logs: Logs) -> None:
        """Admit new evidence. `logs` takes any number of points (rows), also others than those in the cloud."""
        known, new = _finite(logs(self.points))
        share = 0.0
        while share < 1:
            more = _rise(new, 1 - share)
            chosen = self._chosen(more * new)
            share = share + more if more < 1 - share else 1.0
            self.points, known, new = self.points[chosen], known[chosen], new[chosen]
            known, new = self._move(logs, known, new, share)

    def _chosen(self, logs: Array) -> NDArray[np.intp]:
        """Resample the points systematically: return the index of each point as often as its weight asks."""
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
    """Return the largest share of the new evidence, up to `most`, that leaves enough effective points."""

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
