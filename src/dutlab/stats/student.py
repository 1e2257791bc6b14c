"""Student's t by SciPy's special functions: importing scipy.stats takes a second longer."""

from __future__ import annotations


def two_sided(size: float, freedom: float) -> float:
    """Return the two-sided probability of a value at least as far from 0 as `size`."""
    from scipy.special import stdtr  # noqa: PLC0415 - takes 0.1 s to import, and few commands need it

    return 2 * float(stdtr(freedom, -abs(size)))


def quantile(share: float, freedom: float) -> float:
    """Return the value below which `share` of the distribution is."""
    from scipy.special import stdtrit  # noqa: PLC0415 - as above

    return float(stdtrit(freedom, share))
