"""Permutation test for interleaved runs whose order in each round was drawn at random.

Each round measured one block of either run, and chance alone decided which came first. Without a change beyond the least effect, every
round could equally have had the opposite order. So all ways to swap rounds are tried; p is the share of them that show a change at least as
clear as the measured one (R. A. Fisher, The Design of Experiments, 1935, section 21). That holds for any noise of rounds: drift, spells,
autocorrelation. An effect of the set-up of a run on all its rounds is part of the change. All cells of a round are swapped together, and
each is compared with the clearest of all that are left (P. H. Westfall, S. S. Young, 1993, algorithm 2.8). So correlation between cells
costs nothing, and six rounds can prove a change among any number of cells.
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
"""Fewest rounds: below that p never reaches 0.05, since 2 of all 2^n ways to swap rounds show the clearest possible change."""
MOST_EXACT = 12
"""Most rounds for which every way to swap is tried; above, 2^12 ways are drawn with a fixed seed."""
_SEED = 20261122
_TIE = 1e-9

Round = tuple[float, float]
"""Values of both runs in a round."""


def changed(cells: Sequence[Mapping[int, Round]], least: float) -> list[float]:
    """Return the adjusted two-sided p of each cell, for a change by more than `least`.

    A cell maps the number of a round to the values of both runs.
    """
    import numpy as np  # noqa: PLC0415 - takes 80 ms to import, and few commands need it

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
    """Return by how much each round exceeds the least change that counts, up and down; on the logarithm unless there are zeros."""
    if all(min(of) > 0 for of in cell.values()):
        change = {number: log(second) - log(first) for number, (first, second) in cell.items()}
        return {n: d - log1p(least) for n, d in change.items()}, {n: -d - log1p(least) for n, d in change.items()}
    up = {number: second - first * (1 + least) for number, (first, second) in cell.items()}
    return up, {number: first / (1 + least) - second for number, (first, second) in cell.items()}


def _swaps(rounds: int) -> NDArray[np.float64]:
    """Return rows of 1 and -1, one for each way to swap; the first swaps nothing."""
    import numpy as np  # noqa: PLC0415 - as above

    if rounds <= MOST_EXACT:
        return np.array(list(product((1.0, -1.0), repeat=rounds)))
    drawn = np.random.default_rng(_SEED).choice((1.0, -1.0), size=(2**MOST_EXACT, rounds))
    drawn[0] = 1.0
    return drawn


def _step_down(of_swap: NDArray[np.float64]) -> list[float]:
    """Return the adjusted p of each column; the first row is the measured order."""
    import numpy as np  # noqa: PLC0415 - as above

    order = np.argsort(of_swap[0], kind="stable")  # the least clear first: each is compared with itself and all that are less clear
    clearest = np.maximum.accumulate(of_swap[:, order], axis=1)
    share = (clearest >= of_swap[0, order] - _TIE).mean(axis=0)
    share = np.maximum.accumulate(share[::-1])[::-1]
    out = np.empty(len(order))
    out[order] = share
    return [float(p) for p in out]
