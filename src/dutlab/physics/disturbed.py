"""Rule that says which trials other work disturbed; runner, methods, report, comparisons and index use it.

What threads waited for a CPU says little by itself: they wait for one another too, a third to two thirds of their time in the embedded lab
on two cores. So what was taken is at most what others used, interval by interval (`Interference.taken_s`). A trial is disturbed where that
is more than a hundredth of the CPU time of the threads that send, forward and receive. One load of a search may lose a tenth: its answer is
whether frames were lost, and /proc cannot judge a short load finer.

A little work of others can cost more than it takes, since threads that pass frames to one another lose their step. So a trial is also
compared with its cell: one whose threads waited for 10 percentage points more of their time than in the calmest repeat is disturbed, unless
it is known that others did next to nothing meanwhile.

The data, and what else was tried: docs/decisions/09-disturbed-trials.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.physics.interference import Interference

MOST_TAKEN = 0.01
"""Share of our threads' CPU time above which a trial is disturbed. Below it sweeps next to other work are as near to those of an idle
machine as these are to one another; up to 0.1 they lie a quarter lower (tests/bench/disturbed_predictors.py)."""
MOST_TAKEN_OF_LOAD = 0.10
"""Most that other work may take of one load of a search, as a share."""
MOST_ABOVE_CALMEST = 0.10
"""Most that our threads may wait above the least of the cell's trials, as a share of their time."""
NEXT_TO_NOTHING = 0.02
"""Share of our threads' CPU time. Other work that used less than this is not why ours waited."""
LEAST_TAKEN_FOR_LOSS = 0.04
"""So much has to be taken before a loss of frames may be put down to it, where no counter says that the rig lost them."""
FEW = 5
"""Attempts before anything is said of all of them."""
NEARLY_ALL = 0.8
"""Share of attempts that do not count, from which on nothing more is repeated."""

Interferences = Mapping[str, Interference]
"""Host → interference."""


def disturbed(cell: Sequence[Interferences]) -> tuple[str, ...]:
    """For each trial of one cell, in words, what disturbed it; empty for one that nothing did. A trial without a reading was not."""
    least: dict[str, float] = {}
    for of_trial in cell:
        for host, interference in of_trial.items():
            least[host] = min(least.get(host, interference.wait_share), interference.wait_share)
    return tuple("; ".join(filter(None, (_of_host(host, interference, least[host]) for host, interference in t.items()))) for t in cell)


def disturbed_load(found: Interferences) -> str:
    """Return why one load inside a trial is disturbed; it has no other to be compared with."""
    return "; ".join(filter(None, (_of_host(host, of, of.wait_share, MOST_TAKEN_OF_LOAD) for host, of in found.items())))


def explains_loss(found: Interferences, *, failed_frames: int, made_pps: float, by_rig: bool) -> str:
    """Return in words whether other work can have caused all of a trial's loss; empty if not.

    It can have if no more frames failed than came in the time that our threads were kept waiting. `by_rig`: counters say that the testbed
    lost them, not the DUT; then whatever was taken will do.
    """
    if failed_frames <= 0:
        return ""
    for host, of_host in found.items():
        taken_s, share = of_host.taken_s or 0.0, of_host.taken_share or 0.0
        if taken_s > 0 and (by_rig or share >= LEAST_TAKEN_FOR_LOSS) and failed_frames <= made_pps * taken_s:
            return (
                f"{host}: {failed_frames} frames failed, no more than came while our threads waited {taken_s * 1e3:.0f} ms for other work"
            )
    return ""


@dataclass(frozen=True)
class VoidAttempts:
    """Attempts at trials or loads, and those of them that do not count."""

    attempts: int
    by_other_work: int = 0
    by_link: int = 0
    """A link of the testbed went down meanwhile."""

    @property
    def words(self) -> str:
        """Why nearly none of them counts; empty if enough do."""
        if self.attempts < FEW or self.by_other_work + self.by_link < NEARLY_ALL * self.attempts:
            return ""
        work, link = f"other work disturbed {self.by_other_work}", f"a link of the testbed went down in {self.by_link}"
        if not self.by_link:
            return f"machine too busy: {work} of {self.attempts} attempts"
        if not self.by_other_work:
            return f"link unsteady: {link} of {self.attempts} attempts"
        return f"nearly no attempt counts: {work} of {self.attempts}, and {link}"


def _of_host(host: str, interference: Interference, least_wait_share: float, most_taken: float = MOST_TAKEN) -> str:
    if interference.stopped_s > 0:
        return f"{host}: a program that sends or receives was suspended for {interference.stopped_s:.1f} s"
    if interference.taken_share is not None and interference.taken_share > most_taken:
        return f"{host}: other work took {interference.taken_share:.0%} of the CPU time of the threads that send, forward and receive"
    others_s = interference.others_cpu_s
    if (
        others_s is not None and others_s <= NEXT_TO_NOTHING * interference.run_s
    ) or interference.wait_share <= least_wait_share + MOST_ABOVE_CALMEST:
        return ""
    calmest = f"in the calmest trial of the cell {least_wait_share:.0%}"
    used = "" if others_s is None else f"other work used {others_s:.1f} s of CPU time, and "
    return (
        f"{host}: {used}the threads that send, forward and receive waited {interference.wait_share:.0%} of their time for a CPU, {calmest}"
    )
