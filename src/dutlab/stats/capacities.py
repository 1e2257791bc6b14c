"""What trials of a soak say of a rate that may lose a target share, by the capacity that each of them met: no loss curve.

A trial that lost frames met the capacity that it received at; one that lost none met its load or more. The product-limit estimate (Kaplan
and Meier, J. Am. Stat. Assoc. 53, 1958) makes a distribution of capacities of both, and a load loses on average what it exceeds them by.
That is exact where a device is slow in some trials and fast in others, whatever its states are; where frames are lost one by one below the
capacity, the rate is too low, never too high. Trials of one state are not independent, so the spread comes from stretches of trials that
follow one another, drawn anew (Künsch, Annals of Statistics 17, 1989).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_STRETCH = 5
"""Trials that are drawn together."""
_DRAWS = 200
_SEED = 1989


def capacity_interval(loads: Array, received: Array, target: float, highest: float) -> tuple[float, float]:
    """The middle 95 % of the rates, up to `highest`, at which drawn trials lose `target`. One value a trial, in the order of time."""
    count = len(loads)
    stretch = min(_STRETCH, count)
    starts = np.random.default_rng(_SEED).integers(0, count, (_DRAWS, -(-count // stretch)))
    drawn = ((starts[:, :, None] + np.arange(stretch)) % count).reshape(_DRAWS, -1)[:, :count]
    weights = np.stack([np.bincount(row, minlength=count) for row in drawn]).astype(float)
    low, high = np.quantile(rates_at(loads, received, target, highest, weights), [0.025, 0.975])
    return float(low), float(high)


def rates_at(loads: Array, received: Array, target: float, highest: float, weights: Array) -> Array:
    """The rate that loses `target` of itself, for each row of `weights`: how often each trial counts."""
    order = np.lexsort((received >= loads, received))
    capacities, lossy, weights = received[order], (received < loads)[order], weights[:, order]
    at_risk = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    below = 1 - np.cumprod(1 - np.where(lossy, weights, 0.0) / np.maximum(at_risk, 1.0), axis=1)
    ends = np.maximum(np.append(capacities[1:], highest), capacities)
    lost = np.cumsum(below * (ends - capacities), axis=1) - below * (ends - capacities)
    with np.errstate(divide="ignore", invalid="ignore"):
        crossed = np.where(below > target, (below * capacities - lost) / (below - target), np.inf)
    crossed = np.maximum(crossed, capacities)
    found: Array = np.where(crossed <= ends, crossed, highest).min(axis=1)
    return np.minimum(found, highest)
