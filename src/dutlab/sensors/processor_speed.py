"""Speed of chosen CPUs, read with a fixed piece of work a hundred times a second.

A processor works slower where its clock falls, where other work fills its caches, and where the other thread of its core is busy. The
last two also come from neighbours on a virtual machine's host. No account of CPU time shows that: the time is given, less is done in it.
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
"""Some 15 µs of work, 0.2 % of the CPU's time: no more than a tick of the kernel costs."""
MOST_CPUS = 16
"""Most CPUs that are read; on a larger machine those with the smallest numbers."""


class ProcessorSpeed:
    """Times a fixed piece of work on each of some CPUs of this machine, in a thread each, by the thread's own CPU time."""

    def __init__(self) -> None:
        self._read = dict[int, list[float]]()
        self._total = (0.0, 0)

    @contextlib.contextmanager
    def reading(self, cpus: frozenset[int]) -> Iterator[None]:
        """Meanwhile those CPUs are read; none where they are empty."""
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
        """Sum over all calls, and how many had something new: of what came since the last one, each CPU's median, and the mean of these."""
        medians = []
        for into in self._read.values():
            count = len(into)  # the thread appends meanwhile
            if count:
                medians.append(median(into[:count]))
                del into[:count]
        if medians:
            self._total = (self._total[0] + sum(medians) / len(medians), self._total[1] + 1)
        return self._total


def _read(cpu: int, into: list[float], ended: threading.Event) -> None:
    with contextlib.suppress(OSError):  # a CPU that is switched off, or one that a container may not use
        os.sched_setaffinity(0, {cpu})
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -20)
        while not ended.wait(EVERY_S):
            began = time.thread_time()
            sum(range(_PASSES))
            into.append(time.thread_time() - began)
