"""Rule for which trials other work disturbed; runner, methods, report, comparisons and index use it.

The time that threads waited for a CPU shows little alone: they also wait for one another, a third to two thirds of their time in the
embedded lab on two cores. So the time taken by other work is at most the time that it used, interval by interval (`Interference.taken_s`).
A trial is disturbed if that is more than a hundredth of the CPU time of the threads that send, forward and receive. One load of a search
may lose a tenth: its result is whether frames were lost, and /proc is too coarse for a short load.

A little other work can cost more than its own time, since it delays threads that pass frames to one another. So a trial is also
compared with its cell. It is disturbed if its threads waited for 10 percentage points more of their time than in the calmest repeat, unless
other work is known to have used almost nothing.

Data and alternatives: docs/decisions/09-disturbed-trials.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.physics.interference import Interference

MOST_TAKEN = 0.01
"""Share of our threads' CPU time above which a trial is disturbed.

Below it, sweeps next to other work differ from those of an idle machine no more than the latter from one another. Up to 0.1 they are a
quarter lower (tests/bench/disturbed_predictors.py).
"""
MOST_TAKEN_OF_LOAD = 0.10
"""Largest share of one load of a search that other work may take."""
MOST_ABOVE_CALMEST = 0.10
"""Largest excess of our threads' wait over the least in the cell's trials, as a share of their time."""
NEXT_TO_NOTHING = 0.02
"""Share of our threads' CPU time. Other work that used less is not the cause of their waiting."""
LEAST_TAKEN_FOR_LOSS = 0.04
"""Least share taken by other work that can explain a loss of frames, unless a counter shows that the rig lost them."""
FEW = 5
"""Fewest attempts for a verdict on all of them."""
NEARLY_ALL = 0.8
"""Share of void attempts at which repeating stops."""

Interferences = Mapping[str, Interference]
"""Host → interference."""


def disturbed(cell: Sequence[Interferences]) -> tuple[str, ...]:
    """Return for each trial of one cell the reason why it is disturbed; empty if it is not. A trial without a reading is not disturbed."""
    least: dict[str, float] = {}
    for of_trial in cell:
        for host, interference in of_trial.items():
            least[host] = min(least.get(host, interference.wait_share), interference.wait_share)
    return tuple("; ".join(filter(None, (_of_host(host, interference, least[host]) for host, interference in t.items()))) for t in cell)


def disturbed_load(interferences: Interferences) -> str:
    """Return why one load inside a trial is disturbed; there is no other load to compare it with."""
    return "; ".join(filter(None, (_of_host(host, of, of.wait_share, MOST_TAKEN_OF_LOAD) for host, of in interferences.items())))


def explains_loss(interferences: Interferences, *, failed_frames: int, made_pps: float, by_rig: bool) -> str:
    """Return how other work can have caused all of a trial's loss; empty if it cannot.

    It can if the failed frames are no more than those that arrived while our threads were kept waiting. `by_rig`: counters show that the
    testbed lost them, not the DUT; then any share taken is enough.
    """
    if failed_frames <= 0:
        return ""
    for host, of_host in interferences.items():
        taken_s, share = of_host.taken_s or 0.0, of_host.taken_share or 0.0
        if taken_s > 0 and (by_rig or share >= LEAST_TAKEN_FOR_LOSS) and failed_frames <= made_pps * taken_s:
            return (
                f"{host}: {failed_frames} frames failed, no more than came while our threads waited {taken_s * 1e3:.0f} ms for other work"
            )
    return ""


@dataclass(frozen=True)
class VoidAttempts:
    """Attempts at trials or loads, and the number of them that do not count."""

    attempts: int
    by_other_work: int = 0
    by_link: int = 0
    """Attempts during which a link of the testbed went down."""

    @property
    def words(self) -> str:
        """Reason why almost none of them counts; empty if enough do."""
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
