"""Time that other work took from a trial: the difference of a machine's CPU accounts before and after.

Sources: /proc/PID/task/TID/schedstat (sched-stats.rst: time on the CPU, then time on the run queue), /proc/stat (proc(5)) and
/proc/pressure/cpu (psi.rst, `some`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LEAST_OF_OTHERS_S = 0.03
"""Least CPU time of other work that counts between two readings: /proc counts in ticks of 10 ms, for each core and process."""


@dataclass(frozen=True)
class ThreadTime:
    """Seconds that threads ran, and seconds that they were ready to run and waited for a CPU."""

    run_s: float
    wait_s: float
    runs: int = field(default=0, compare=False)
    """Number of times that one of them got a CPU."""

    def __add__(self, other: ThreadTime) -> ThreadTime:
        return ThreadTime(self.run_s + other.run_s, self.wait_s + other.wait_s, self.runs + other.runs)

    def since(self, before: ThreadTime) -> ThreadTime:
        """Return the difference of two cumulative readings."""
        return ThreadTime(max(0.0, self.run_s - before.run_s), max(0.0, self.wait_s - before.wait_s), max(0, self.runs - before.runs))


@dataclass(frozen=True)
class ForwardingWait:
    """Waiting of the threads that forward, on the machine where it is read many times a trial."""

    run_s: float
    wait_s: float
    switches: int
    """Number of times that one of them got a CPU (the third column of schedstat)."""
    instructions: float | None = None
    cycles: float | None = None
    """Cycles counted by the processor; None if it does not count them, as in many virtual machines."""
    longest_wait_s: float = 0.0
    """Longest wait of one thread between two readings, a quarter of a second apart."""
    readings: int = 0
    with_waits: int = 0
    """Number of readings after which a thread had waited for more than WAIT_S."""
    fixed_work_s: float | None = None
    """Mean CPU time of a fixed piece of work on their CPUs; None if not read.

    A longer time shows a slower processor. Comparable only between trials of one run.
    """


WAIT_S = 0.005
"""Wait within a quarter of a second above which a reading counts. Two forwarding threads on one core wait less for each other."""


@dataclass(frozen=True)
class CpuAccount:
    """CPU time used by a machine and our threads on it up to an instant. Cumulative seconds; `at_s` is of any monotonic clock."""

    at_s: float
    cores: int
    busy_s: float
    """Time of all cores in user and system mode. Interrupts are left out, because they also forward packets."""
    steal_s: float
    pressure_s: float | None
    """Time in which some thread of the machine waited for a CPU; None if the kernel does not report it."""
    own_s: float | None
    """CPU time of our processes and of the kernel threads that forward; None if not known."""
    threads: Mapping[str, ThreadTime] = field(default_factory=dict)
    """Program or kernel thread → time of all its threads."""
    taken_s: float | None = None
    """Sum over short intervals of the time that other work can have taken from our threads; None for a single interval.

    For each interval it is the smaller of the wait of our threads and the CPU time of other work.
    """
    stopped_s: float = 0.0
    """Time in which a program that sends or receives was seen suspended (SIGSTOP)."""
    forwarding: ForwardingWait | None = None
    """Waiting of the forwarding threads, with 0 for its counts of readings; None if there are none, or none is visible."""
    waits: tuple[tuple[float, float], ...] = ()
    """Instants of the readings so far, with the longest wait of one forwarding thread since the previous reading."""
    fixed_work: tuple[float, int] = (0.0, 0)
    """Fixed piece of work on the CPUs of the forwarding threads: sum of its times in seconds, and their number."""
    programs: frozenset[int] | None = None
    """Process numbers of our programs and threads, if the account of each is lost when it ends; None if none is lost."""

    def since(self, before: CpuAccount) -> Interference:
        """Return the interference between two readings of the same machine."""
        threads = {name: now.since(before.threads.get(name, ThreadTime(0.0, 0.0))) for name, now in self.threads.items()}
        busy_s = max(0.0, self.busy_s - before.busy_s)
        known = self.own_s is not None and before.own_s is not None and self.programs == before.programs
        own_s = max(0.0, (self.own_s or 0.0) - (before.own_s or 0.0)) if known else None
        others_s = None if own_s is None else max(0.0, busy_s - own_s)
        wait_s = sum(t.wait_s for t in threads.values())
        taken_s = None if others_s is None else min(wait_s, others_s)
        if self.taken_s is not None and before.taken_s is not None:
            taken_s = self.taken_s - before.taken_s
        if taken_s is not None and others_s is not None:  # the ticks of many intervals add up; those of all together do not
            taken_s = min(taken_s, others_s) if others_s >= LEAST_OF_OTHERS_S else 0.0
        return Interference(
            seconds=round(self.at_s - before.at_s, 6),
            cores=self.cores,
            run_s=round(sum(t.run_s for t in threads.values()), 6),
            wait_s=round(wait_s, 6),
            taken_s=None if taken_s is None else round(taken_s, 6),
            others_cpu_s=None if others_s is None else round(others_s, 6),
            own_cpu_s=None if own_s is None else round(own_s, 6),
            steal_s=round(max(0.0, self.steal_s - before.steal_s), 6),
            pressure_s=None if self.pressure_s is None or before.pressure_s is None else round(self.pressure_s - before.pressure_s, 6),
            stopped_s=round(self.stopped_s - before.stopped_s, 6),
            forwarding=self._forwarding_since(before),
            threads={name: t for name, t in sorted(threads.items()) if t.run_s or t.wait_s},
        )

    def _forwarding_since(self, before: CpuAccount) -> ForwardingWait | None:
        now, then = self.forwarding, before.forwarding
        if now is None or then is None:
            return None
        waits = [wait_s for at_s, wait_s in self.waits if at_s > before.at_s]
        works = self.fixed_work[1] - before.fixed_work[1]
        return ForwardingWait(
            run_s=round(max(0.0, now.run_s - then.run_s), 6),
            wait_s=round(max(0.0, now.wait_s - then.wait_s), 6),
            switches=max(0, now.switches - then.switches),
            instructions=_grown(now.instructions, then.instructions),
            cycles=_grown(now.cycles, then.cycles),
            longest_wait_s=round(max(waits, default=0.0), 6),
            readings=len(waits),
            with_waits=sum(wait_s > WAIT_S for wait_s in waits),
            fixed_work_s=round((self.fixed_work[0] - before.fixed_work[0]) / works, 9) if works > 0 else None,
        )


def _grown(now: float | None, then: float | None) -> float | None:
    return None if now is None or then is None else max(0.0, now - then)


@dataclass(frozen=True)
class Interference:
    """Time that other work took from a trial on one machine, in seconds."""

    seconds: float
    """Time between the two readings."""
    cores: int
    run_s: float
    """Time that the threads that send, forward and receive ran."""
    wait_s: float
    """Time that they waited for a CPU. They also wait for one another, so this is never 0 on a busy testbed."""
    taken_s: float | None
    """Most of their waiting that other work can have caused: no more than the time that it used. None if not known."""
    others_cpu_s: float | None
    """CPU time of all other work, in user and system mode; None if not known."""
    own_cpu_s: float | None
    steal_s: float
    pressure_s: float | None
    threads: Mapping[str, ThreadTime] = field(default_factory=dict)
    stopped_s: float = 0.0
    """Time in which one of our programs was suspended; it did not wait for a CPU then."""
    forwarding: ForwardingWait | None = None
    """Waiting of the forwarding threads alone; None if it is not read separately."""

    @property
    def wait_share(self) -> float:
        """Time waited ÷ (time run + time waited)."""
        return self.wait_s / (self.run_s + self.wait_s) if self.run_s + self.wait_s else 0.0

    @property
    def taken_share(self) -> float | None:
        """Time taken, as a share of the CPU time that our threads would have had without other work."""
        if self.taken_s is None:
            return None
        return self.taken_s / (self.run_s + self.taken_s) if self.taken_s else 0.0
