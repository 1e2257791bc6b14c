"""Runs that took turns in an order drawn by chance: what a change between them has to be held against is the draw itself.

In each round one block of either run was measured, and chance alone decided which of the two came first. Were there no change beyond the
least that counts, every round could as well have come out the other way round; so all ways to swap rounds are tried, and p is the share in
which a change shows at least as clearly as in fact (R. A. Fisher, The Design of Experiments, 1935, section 21). That holds for any noise
of rounds: drift, spells, autocorrelation. What the set-up of a run did to all of its rounds is part of the change. All cells of a round are
swapped together, and each is held against the clearest of all that are left (P. H. Westfall, S. S. Young, 1993, algorithm 2.8), so what
cells share costs nothing, and six rounds can prove something among any number of cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import log, log1p
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST = 6
"""Rounds: below that no p is as low as 0.05, since 2 of all 2^n ways to swap rounds show a change as clearly as the clearest can."""
MOST_EXACT = 12
"""Rounds up to which every way is tried; beyond, as many as that makes, drawn with a fixed seed."""
_SEED = 20261122
_TIE = 1e-9

Round = tuple[float, float]
"""Values of both runs in a round."""


def changed(cells: Sequence[Mapping[int, Round]], least: float) -> list[float]:
    """Return p of each cell's change, two-sided, for a change by more than `least`, adjusted for all cells.

    A cell is what both runs measured, by the number of the round.
    """
    import numpy as np  # noqa: PLC0415 - 80 ms that only some commands need

    if not cells:
        return []
    numbers = sorted({number for cell in cells for number in cell})
    rows = [[way.get(number, 0.0) for number in numbers] for cell in cells for way in _beyond(cell, least)]
    beyond = np.array(rows)
    scale = np.sqrt((beyond**2).sum(axis=1))
    shown = np.divide(beyond.T, scale, out=np.zeros(beyond.T.shape), where=scale > 0)
    of_swap = _swaps(len(numbers)) @ shown
    adjusted = _step_down(of_swap)
    return [min(adjusted[2 * n], adjusted[2 * n + 1]) for n in range(len(cells))]


def _beyond(cell: Mapping[int, Round], least: float) -> tuple[dict[int, float], dict[int, float]]:
    """Return how far each round goes beyond the least change that counts, up and down; on the logarithm unless there are zeros."""
    if all(min(of) > 0 for of in cell.values()):
        change = {number: log(second) - log(first) for number, (first, second) in cell.items()}
        return {n: d - log1p(least) for n, d in change.items()}, {n: -d - log1p(least) for n, d in change.items()}
    up = {number: second - first * (1 + least) for number, (first, second) in cell.items()}
    return up, {number: first / (1 + least) - second for number, (first, second) in cell.items()}


def _swaps(rounds: int) -> NDArray[np.float64]:
    """Rows of 1 and -1, of which the first swaps nothing."""
    import numpy as np  # noqa: PLC0415 - as above

    if rounds <= MOST_EXACT:
        return np.array(list(product((1.0, -1.0), repeat=rounds)))
    drawn = np.random.default_rng(_SEED).choice((1.0, -1.0), size=(2**MOST_EXACT, rounds))
    drawn[0] = 1.0
    return drawn


def _step_down(of_swap: NDArray[np.float64]) -> list[float]:
    """Adjusted p of each column, of which the first row is what was found."""
    import numpy as np  # noqa: PLC0415 - as above

    order = np.argsort(of_swap[0], kind="stable")  # the least clear first: each is held against itself and all that are less clear
    clearest = np.maximum.accumulate(of_swap[:, order], axis=1)
    share = (clearest >= of_swap[0, order] - _TIE).mean(axis=0)
    share = np.maximum.accumulate(share[::-1])[::-1]
    out = np.empty(len(order))
    out[order] = share
    return [float(p) for p in out]
