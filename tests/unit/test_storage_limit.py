"""The sweep of depths: its peak, its knee and the least depth near the peak, of drives with a known answer; what its settings refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from disk_experiments import BOTH, refused
from dutlab.spec.drives import DriveSpec
from dutlab.spec.shape import TestbedBounds
from dutlab.spec.workloads.storage_limit import StorageLimitWorkload
from dutlab.tools.fio.knee import NEAR, Sweep, sweep


def swept(iops: Callable[[int], float], deepest: int = 1024) -> tuple[Sweep, list[int]]:
    asked: list[int] = []

    async def measure(depth: int) -> float:
        asked.append(depth)
        return iops(depth)

    return asyncio.run(sweep(measure, deepest)), asked


@pytest.mark.parametrize("limit", [1, 3, 10, 20, 50, 333])
def test_of_a_drive_with_a_limit_knee_and_least_depth_are_where_it_is_reached(limit):
    found, asked = swept(lambda depth: 1000.0 * min(depth, limit))
    assert found.iops[found.peak] == 1000 * limit and not found.still_rising
    exact = next(depth for depth in range(1, limit + 1) if depth >= NEAR * limit)
    assert exact <= found.least <= exact * (1 + 1 / 16)
    assert limit * NEAR <= found.knee <= limit * 1.07
    assert len(asked) == len(set(asked)), "no depth is measured twice"
    assert max(asked) <= 8 * limit, "it does not go on for long where nothing is won"


def test_a_drive_that_still_gains_pauses_or_gets_slower_with_depth_has_its_peak_found():
    found, asked = swept(lambda depth: 1000.0 * depth, deepest=100)
    assert found.still_rising and found.peak == max(asked) == 100
    # One depth without gain does not end the sweep.
    found, _ = swept(lambda depth: {1: 100, 2: 200, 4: 201, 8: 800}.get(depth, 800.0))
    assert found.iops[found.peak] == 800
    # A drive that gets slower with depth has its peak and least depth before.
    found, _ = swept(lambda depth: 1000.0 * min(depth, 8) * (1 if depth <= 16 else 0.5))
    assert (found.peak, found.least) == (8, 8)


def test_each_size_with_each_mix_is_a_trial_and_says_what_fio_does():
    bounds = TestbedBounds({}, {"server:d1": DriveSpec(name="d1", by_id="d1", destroy=True)})
    work = StorageLimitWorkload.model_validate({"block_sizes": [512, "4k"], "reads_percent": [100, 70, 0], "jobs": 4})
    settings = [drive.setting for drive in work.drives(bounds)]
    assert work.count(bounds) == len(settings) == 6
    assert [s.writes for s in settings] == [False, False, True, True, True, True]
    options = settings[3].at(16).options
    assert (options["rw"], options["rwmixread"], options["bs"], options["iodepth"], options["numjobs"]) == ("randrw", "70", "4k", "16", "4")
    assert [s.at(1).options["rw"] for s in settings[::2]] == ["randread", "randrw", "randwrite"]
    assert "writes" not in settings[0].params and settings[0].params["bs"] == "512"


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ("{reads_percent: [100, 0]}", "reads_percent"), ("{reads_percent: 101}", "reads_percent"),
        ("{block_sizes: [4k, 4k]}", "block_sizes"), ("{block_sizes: []}", "block_sizes"), ("{block_sizes: 1000}", "block_sizes"),
        ("{block_sizes: 1G}", "block_sizes"), ("{block_sizes: much}", "block_sizes"), ("{access: sequential, jobs: 2}", "jobs"),
        ("{deepest: 0}", "deepest"), ("{links: [[a]]}", "links"), ("{drives: [[server:d9]]}", "drives.0"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused_with_its_place(tmp_path, body, at):
    fault, *_ = refused(tmp_path, "storage-limit", body, BOTH)
    assert fault.line == 5 and fault.path.startswith(f"workloads.0.storage-limit.{at}")
