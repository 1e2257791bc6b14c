"""Instructions and cycles of chosen threads, counted by the processor (perf_event_open(2)); none where it cannot, as in many VMs.

The structure is perf_event_attr of include/uapi/linux/perf_event.h in its first version of 64 bytes, which every kernel supports.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable

_CALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
_HARDWARE = 0  # PERF_TYPE_HARDWARE
CYCLES, INSTRUCTIONS = (_HARDWARE, 0), (_HARDWARE, 1)  # PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS
_ATTR = struct.Struct("=IIQQQQQIIQ")
_ENABLED, _RUNNING = 1, 2  # PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING
_CLOSE_ON_EXEC = 8  # PERF_FLAG_FD_CLOEXEC


class EventCounts:
    """Cumulative counts of events over threads that start and end. `events` are (type, config) pairs."""

    def __init__(self, events: tuple[tuple[int, int], ...] = (INSTRUCTIONS, CYCLES)) -> None:
        self._events = events
        self._open: dict[int, tuple[int, ...]] = {}
        """Thread → a file descriptor for each event."""
        self._ended = [0.0] * len(events)
        self._refused = platform.machine() not in _CALL

    def __del__(self) -> None:
        for fd in (fd for of in self._open.values() for fd in of):
            os.close(fd)

    def watch(self, threads: Iterable[int]) -> None:
        """Count only these threads from now on. Earlier counts of other threads stay in the sum."""
        wanted = set(threads)
        for thread in self._open.keys() - wanted:
            for n, fd in enumerate(self._open.pop(thread)):
                self._ended[n] += _read(fd)
                os.close(fd)
        for thread in sorted(wanted - self._open.keys()):
            if not self._refused:
                self._add(thread)

    @property
    def total(self) -> tuple[float, ...] | None:
        """Count of each event; None if the machine cannot count them, or no thread is watched."""
        if not self._open:
            return None
        return tuple(ended + sum(_read(of[n]) for of in self._open.values()) for n, ended in enumerate(self._ended))

    def _add(self, thread: int) -> None:
        files: list[int] = []
        for kind, config in self._events:
            attr = _ATTR.pack(kind, _ATTR.size, config, 0, 0, _ENABLED | _RUNNING, 0, 0, 0, 0)
            call = ctypes.CDLL(None, use_errno=True).syscall
            fd = call(_CALL[platform.machine()], ctypes.c_char_p(attr), thread, -1, -1, _CLOSE_ON_EXEC)
            if fd < 0:
                self._refused = self._refused or ctypes.get_errno() != errno.ESRCH  # that thread has ended
                for of in files:
                    os.close(of)
                return
            files.append(fd)
        self._open[thread] = tuple(files)


def _read(fd: int) -> float:
    """Return the count, scaled up for the time in which another event used the counter."""
    value, enabled, running = struct.unpack("=QQQ", os.read(fd, 24))
    return float(value * enabled / running) if running else 0.0
