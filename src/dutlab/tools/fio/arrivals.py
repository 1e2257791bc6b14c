"""Check whether fio made its I/Os at the rate and with the arrivals that a job asked for.

The counts of a Poisson process in windows of equal length vary as their mean. fio reports mean and standard deviation of its IOPS over
windows of 0.5 s (`iops_stddev`, `iops_samples`; stat.c, iops_avg_time). Variance ÷ mean × (windows - 1) is distributed as chi-squared.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from dutlab.spec.workloads.fio_rate import asked_iops
from dutlab.tools.fio.output import FioDirection, JobOutput

RATE_WITHIN = 0.02
"""Share of the asked rate by which the rate may differ, in addition to chance."""
_DEVIATIONS = 4.0
_WINDOW_S = 0.5
_LEAST_WINDOWS = 5
_JITTER = 0.01
"""Share of the rate by which windows may differ because fio does not end them at exact times."""
_Z = 3.3
"""Normal quantile beyond which a distribution is called missed: once in 1000 right ones."""


def missed(jobs: Sequence[JobOutput]) -> list[str]:
    """Return a sentence for each job and direction whose I/Os were not made as asked."""
    return [
        f"{job.name}, {way}s: {what}"
        for job in jobs
        for way, asked in asked_iops(job.options).items()
        if (of := job.ways.get(way)) is not None
        for what in (_rate(of, asked), _spacing(of, asked, job))
        if what
    ]


def _rate(of: FioDirection, asked: float) -> str:
    if of.iops is None or not of.iops:
        return ""
    chance = _DEVIATIONS * sqrt(of.ios) / of.ios if of.ios else 0.0
    return f"{of.iops:.0f} IOPS, {asked:.0f} were asked for" if abs(of.iops / asked - 1) > RATE_WITHIN + chance else ""


def _spacing(of: FioDirection, asked: float, job: JobOutput) -> str:
    """Compare the windows' deviation with that of a Poisson process, if the job asked for one; fio has no windows of several threads."""
    known = of.iops_deviation is not None and of.iops_windows >= _LEAST_WINDOWS
    if job.options.get("rate_process") != "poisson" or not known or job.options.get("numjobs", "1") != "1" or of.iops_deviation is None:
        return ""
    expected = sqrt(asked / _WINDOW_S)
    freedom = of.iops_windows - 1
    ratio = (of.iops_deviation / expected) ** 2
    # Wilson and Hilferty, 1931: the cube root of chi-squared ÷ its degrees of freedom is nearly normal.
    z = (ratio ** (1 / 3) - (1 - 2 / (9 * freedom))) / sqrt(2 / (9 * freedom))
    if z > _Z and of.iops_deviation > _JITTER * asked:
        return f"not a Poisson process: counts in {of.iops_windows} windows of 0.5 s vary {ratio:.1f} times as much"
    return f"not a Poisson process: counts in {of.iops_windows} windows of 0.5 s vary only {ratio:.2g} times as much" if z < -_Z else ""
