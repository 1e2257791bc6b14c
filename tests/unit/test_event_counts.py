"""The processor's counts of chosen threads. A clock of the kernel stands for them: virtual machines seldom count instructions."""

from __future__ import annotations

import threading

import pytest

from capability import need
from dutlab.sensors.event_counts import CYCLES, EventCounts

TASK_CLOCK = (1, 1)  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK: ns that a thread ran


def worked() -> None:
    sum(range(200_000))


def test_a_thread_is_counted_from_when_it_is_watched_and_its_count_stays() -> None:
    counts = EventCounts((TASK_CLOCK,))
    assert counts.total is None
    counts.watch([threading.get_native_id()])
    need("perf_event_open", have=counts.total is not None)
    assert counts.total is not None
    worked()
    (first,) = counts.total
    worked()
    (second,) = counts.total
    assert 0 < first < second
    other = threading.Thread(target=worked)
    other.start()
    counts.watch([other.native_id or 0, threading.get_native_id()])
    other.join()
    counts.watch([threading.get_native_id()])
    assert counts.total is not None and counts.total[0] > second


@pytest.mark.parametrize("event", [(0, 999), CYCLES])
def test_a_machine_without_such_a_counter_counts_nothing_or_counts(event: tuple[int, int]) -> None:
    counts = EventCounts((event,))
    counts.watch([threading.get_native_id()])
    worked()
    assert counts.total is None or (event == CYCLES and counts.total[0] > 0)
