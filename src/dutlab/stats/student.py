"""Student's t, by SciPy's special functions alone: its module of distributions takes a second longer to load."""

from __future__ import annotations


def two_sided(size: float, freedom: float) -> float:
    """Return the probability of a value with so many degrees of freedom that is as far from 0 as `size`."""
    from scipy.special import stdtr  # noqa: PLC0415 - 0.1 s that only some commands need

    return 2 * float(stdtr(freedom, -abs(size)))


def quantile(share: float, freedom: float) -> float:
    """The value below which `share` of all lie."""
    from scipy.special import stdtrit  # noqa: PLC0415 - as above

    return float(stdtrit(freedom, share))
