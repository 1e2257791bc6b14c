"""Tables of arrays: the degraded array as rows of its healthy column, useful capacity, and processor time at the maximum."""

from __future__ import annotations

from typing import Any

import pytest

from dutlab.plan.cell import Cell
from dutlab.report.model.groups import Group
from dutlab.report.pages.array_rows import column_of, load_of, summary_rows
from dutlab.spec.workloads.fio import FioSetting
from run_records import trial_record

FACTS: dict[str, dict[str, Any]] = {"server": {"cpu": {"cores": 8}}}


def group_of(label: str, trial: int, iops: float, cores: float | None, *, mode: str = "", size: int = 0, repeats: int = 1) -> Group:
    setting = FioSetting(options={"rw": "randread", "bs": "4k"}, writes=False, ramp_s=0, duration_s=1)
    cell = Cell(
        mode=mode or label, factors={"mode": mode or label}, tool="fio", links=("server:d1", "server:d2"), setting=setting, repeat=1
    )
    figures = {cell.link_label: {"iops.read": iops, **({} if cores is None else {"host_cpu_cores": cores})}}
    records = [trial_record(trial + n, cell, figures) for n in range(repeats)]
    told = [r.model_copy(update={"tool_facts": {"server:array_size_bytes": str(size)} if size else {}}) for r in records]
    return Group(label, cell, [r.trial for r in told], told)


@pytest.mark.parametrize(
    ("label", "mode", "labels", "column"),
    [
        ("raid5", "raid5", {"raid5"}, ("raid5", "")),
        ("raid5-degraded", "raid5-degraded", {"raid5", "raid5-degraded"}, ("raid5", "degraded")),
        ("raid5-degraded, chunk 64k", "raid5-degraded", {"raid5, chunk 64k"}, ("raid5, chunk 64k", "degraded")),
        ("lvm-raid5-rebuilt", "lvm-raid5-rebuilt", {"lvm-raid5"}, ("lvm-raid5", "rebuilt")),
        ("raid5-degraded", "raid5-degraded", {"raid10"}, ("raid5-degraded", "")),
        ("own-degraded", "own-degraded", {"own"}, ("own-degraded", "")),
    ],
)
def test_a_state_is_of_its_healthy_column_if_the_run_has_it(label: str, mode: str, labels: set[str], column: tuple[str, str]) -> None:
    assert column_of(group_of(label, 1, 1.0, None, mode=mode), labels) == column


def test_capacity_and_processor_time_are_of_the_cell_with_the_most_ios() -> None:
    columns = {
        "raid5": [group_of("raid5", 1, 1e6, 2.0, size=224 * 10**12), group_of("raid5", 2, 9e6, 1.0, size=224 * 10**12)],
        "raid10": [group_of("raid10", 3, 3e6, 4.0, size=128 * 10**12)],
    }
    assert summary_rows(columns, FACTS) == [("useful capacity", ("224", "128"), "TB"), ("mean CPU at maximum", ("12.5", "50"), "%")]


def test_what_was_not_measured_has_no_row() -> None:
    columns = {"raid5": [group_of("raid5", 1, 1e6, None)]}
    assert summary_rows(columns, FACTS) == []
    assert load_of(group_of("raid5", 1, 1e6, 2.0), {}) is None


def test_small_arrays_are_in_gigabytes_and_repeats_have_a_median() -> None:
    columns = {"raid5": [group_of("raid5", 1, 1e6, 2.0, size=670_000_000, repeats=3)]}
    assert summary_rows(columns, FACTS)[0] == ("useful capacity", ("0.67",), "GB")
