"""Speed of chosen CPUs, measured with a fixed piece of work a hundred times a second.

A processor is slower if its clock falls, if other work fills its caches, or if the other thread of its core is busy. Neighbours on a
virtual machine's host can cause the last two. No account of CPU time shows this: the time is granted, but less work is done in it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from statistics import median

EVERY_S = 0.01
_PASSES = 1200
"""Loop passes of the fixed work: some 15 µs, 0.2 % of the CPU's time, no more than a tick of the kernel costs."""
MOST_CPUS = 16
"""Most CPUs that are measured; on a larger machine those with the smallest numbers."""


class ProcessorSpeed:
    """Timer of a fixed piece of work on some CPUs of this machine: one thread per CPU, timed by the thread's CPU time."""

    def __init__(self) -> None:
        self._read = dict[int, list[float]]()
        self._total = (0.0, 0)

    @contextlib.contextmanager
    def reading(self, cpus: frozenset[int]) -> Iterator[None]:
        """Measure these CPUs during the block; an empty set measures none."""
        ended = threading.Event()
        self._read = {cpu: [] for cpu in sorted(cpus)[:MOST_CPUS]}
        threads = [threading.Thread(target=_read, args=(cpu, into, ended), name=f"speed of CPU {cpu}") for cpu, into in self._read.items()]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join()

    def total(self) -> tuple[float, int]:
        """Return a sum and the number of its terms: one term for each call with new times, the mean of the CPUs' medians, in seconds."""
        medians = []
        for into in self._read.values():
            count = len(into)  # the thread may append at any time
            if count:
                medians.append(median(into[:count]))
                del into[:count]
        if medians:
            self._total = (self._total[0] + sum(medians) / len(medians), self._total[1] + 1)
        return self._total


def _read(cpu: int, into: list[float], ended: threading.Event) -> None:
    with contextlib.suppress(OSError):  # a CPU that is switched off, or that a container may not use
        os.sched_setaffinity(0, {cpu})
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -20)
        while not ended.wait(EVERY_S):
            began = time.thread_time()
            sum(range(_PASSES))
            into.append(time.thread_time() - began)
