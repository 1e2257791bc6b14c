"""Columns and keys of many records are those of each record."""

from __future__ import annotations

from datetime import timedelta

from cells import cell_of
from dutlab.store.cell_figures import KeyMemory, cells_of, columns_of, key_of
from dutlab.store.record import TrialRecord
from dutlab.store.record_reader import of_repeat
from run_records import NOW, trial_record

FIGURES = [
    {"a": {"received_pps": 5e5, "loss_ratio": 0.0}, "a+b": {"received_pps": 9e5}},
    {"a": {"received_pps": 6e5}},
    {"a": {"loss_ratio": 0.1, "received_pps": 4e5}, "b": {"received_pps": 3e5}},
]


def _records() -> list[TrialRecord]:
    cell = cell_of("sweep", links=("a", "b"))
    return [
        trial_record(n, of_repeat(cell, n), figures, at=NOW + timedelta(seconds=n), status="measured")
        for n, figures in enumerate(FIGURES, 1)
    ]


def test_columns_hold_each_figure_of_each_record_that_has_it() -> None:
    records = _records()
    columns = columns_of(records)
    assert list(columns) == ["a", "a+b", "b"] and list(columns["a"]) == ["received_pps", "loss_ratio"]
    for place, of in columns.items():
        for figure, column in of.items():
            have = [r for r in records if figure in r.figures.get(place, {})]
            assert column.trials == tuple(r.trial for r in have)
            assert column.values == tuple(r.figures[place][figure] for r in have)


def test_readings_are_of_the_records_that_have_the_figure_in_the_order_of_time() -> None:
    (cell,) = cells_of(reversed(_records())).values()
    assert [(r.value, r.repeat, r.trial) for r in cell.readings("a", "received_pps")] == [(5e5, 1, 1), (6e5, 2, 2), (4e5, 3, 3)]
    assert [(r.value, r.repeat, r.started) for r in cell.readings("a", "loss_ratio")] == [
        (0.0, 1, NOW + timedelta(seconds=1)),
        (0.1, 3, NOW + timedelta(seconds=3)),
    ]
    assert cell.readings("c", "received_pps") == () == cell.readings("a", "latency_p99_ns")


def test_keys_tell_cells_apart_that_share_a_setting() -> None:
    first = cell_of("sweep", mode="router")
    alike = [of_repeat(first, 7), cell_of("sweep", mode="router")]
    others = [
        first.model_copy(update={"mode": "nat"}),
        first.model_copy(update={"links": ("b",)}),
        first.model_copy(update={"factors": {"mode": "router", "mtu": "9000"}}),
        cell_of("sweep", mode="router", frame_size=128),
    ]
    keys = KeyMemory()
    assert [keys.key_of(cell) for cell in (first, *alike, *others)] == [key_of(cell) for cell in (first, *alike, *others)]
    assert len({keys.key_of(cell) for cell in (first, *alike, *others)}) == 1 + len(others)
