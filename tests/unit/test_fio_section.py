"""What a report makes of jobs of fio: percentiles of added bins, the distribution, and curves over depth in numeric order."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from dutlab.plan.cell import Cell
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun
from dutlab.report.model.table import Figure
from dutlab.report.model.words import latency_text
from dutlab.report.plots.curve_plot import curve_plot
from dutlab.report.sections.fio import percentile_of, section
from dutlab.report.write import write_publication
from dutlab.spec.workloads.fio import FioSetting
from dutlab.store.record import TrialRecord
from run_records import new_run, trial_record

NOW = datetime(2026, 11, 22, tzinfo=UTC)
NO_SAMPLES = cast("ReadRun", SimpleNamespace(run=SimpleNamespace(samples_path=lambda trial: None)))


def measured(trial: int, depth: int, iops: float, bins: dict[int, int], mode: str = "raw") -> tuple[Cell, TrialRecord]:
    setting = FioSetting(options={"rw": "randread", "bs": "4k", "iodepth": str(depth)}, writes=False, ramp_s=0, duration_s=1)
    cell = Cell(mode=mode, factors={"mode": mode}, tool="fio", links=("server:d1",), setting=setting, repeat=1)
    figures = {"server:d1": {"iops.read": iops, "clat_mean_ns.read": 1e9 * depth / iops, "slat_mean_ns.read": 2000.0}}
    rows = [{"direction": "read", "clat_ns": value, "ios": count} for value, count in bins.items()]
    return cell, trial_record(trial, cell, figures, tables={"latency_bins": rows})


def groups_of(*trials: tuple[Cell, TrialRecord]) -> list[Group]:
    found: dict[tuple[str, str], list[tuple[Cell, TrialRecord]]] = {}
    for cell, record in trials:
        found.setdefault((cell.mode, str(cell.params["iodepth"])), []).append((cell, record))
    return [Group(of[0][0].mode, of[0][0], [r.trial for _, r in of], [r for _, r in of]) for of in found.values()]


def test_bins_of_repeats_are_added_and_percentiles_taken_from_the_sum() -> None:
    groups = groups_of(measured(1, 1, 100, {100_000: 9_900, 5_000_000: 100}), measured(2, 1, 100, {200_000: 90_000}))
    found = section(NO_SAMPLES, groups, ["raw"], NoteBook(groups))
    table = next(t for t in found.tables if t.slug == "fio-percentiles")
    assert [c.head for c in table.columns][3:-1] == ["50 %", "90 %", "95 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"]
    assert table.rows[0].cells[3:] == (*[latency_text(200e3)] * 5, latency_text(5e6), "–", "–", "100,000")


@pytest.mark.parametrize(("count", "told"), [(10_000_000, 100), (9_999_999, None)])
def test_a_percentile_is_told_where_ten_lie_beyond_it(count: int, told: int | None) -> None:
    assert percentile_of({100: count}, 99.9999) == told


def test_depths_are_in_numeric_order_on_two_logarithmic_axes() -> None:
    groups = groups_of(*(measured(n, depth, 1000 * depth, {1000: 100}) for n, depth in enumerate((16, 2, 1, 128))))
    found = section(NO_SAMPLES, groups, ["raw"], NoteBook(groups))
    iops, latency = (c for c in found.curves if c.x == "depth")
    assert (iops.scale, iops.x_scale, latency.scale, latency.x_scale) == ("log",) * 4
    assert [x for x, _ in iops.lines[0].points] == [1, 2, 16, 128]
    assert [y for _, y in latency.lines[0].points] == [1e6] * 4


def test_the_distribution_ends_where_fewer_than_ten_lie_beyond_and_its_axis_says_percent() -> None:
    bins = {1000: 500, 2000: 400, 3000: 90, 9000: 9, 50_000: 1}
    groups = groups_of(measured(1, 1, 100, bins), measured(2, 1, 100, bins, mode="other"))
    found = section(NO_SAMPLES, groups, ["raw", "other"], NoteBook(groups))
    (curve,) = (c for c in found.curves if c.slug.startswith("fio-latency"))
    assert curve.lines[0].points == ((2.0, 1000.0), (10.0, 2000.0), (100.0, 3000.0))
    plot = curve_plot(curve, ["raw", "other"])
    assert plot is not None
    drawn = str(vars(plot.drawing))
    assert "90 %" in drawn and "99 %" in drawn and "99.9 %" not in drawn


def test_drives_without_figures_of_their_own_have_a_row_only_where_others_have() -> None:
    def of(mode: str, *links: str) -> tuple[Cell, TrialRecord]:
        cell, record = measured(1, 1, 100, {}, mode=mode)
        cell = cell.model_copy(update={"links": ("server:d1", "server:d2")})
        return cell, record.model_copy(update={"cell": cell, "figures": {link: {"iops.read": 100.0} for link in links}})

    groups = groups_of(of("raid0", "server:d1+server:d2"), of("jbod", "server:d1+server:d2", "server:d1"))
    table = next(t for t in section(NO_SAMPLES, groups, ["raid0", "jbod"], NoteBook(groups)).tables if t.slug == "fio-read")
    assert [(row.label, row.link) for row in table.rows] == [
        ("raid0", "server:d1+server:d2"),
        ("jbod", "server:d1+server:d2"),
        ("jbod", "server:d1"),
        ("jbod", "server:d2"),
    ]


def grid(mode: str, depths: tuple[int, ...], jobs: tuple[int, ...], rates: tuple[str, ...] = ("randread",)) -> list[Group]:
    out = []
    for n, (rw, depth, count) in enumerate(product(rates, depths, jobs), 1):
        way, options = ("read" if "read" in rw else "write"), {"rw": rw, "bs": "4k", "iodepth": str(depth), "numjobs": str(count)}
        setting = FioSetting(options=options, writes=way == "write", ramp_s=0, duration_s=1)
        cell = Cell(mode=mode, factors={"mode": mode}, tool="fio", links=("server:d1",), setting=setting, repeat=1)
        figures = {"server:d1": {f"iops.{way}": 1000.0 * depth * count, f"clat_mean_ns.{way}": 1e6}}
        out.append(Group(mode, cell, [n], [trial_record(n, cell, figures)]))
    return out


def test_depths_and_jobs_are_a_shaded_table_and_curves_of_every_line() -> None:
    groups = grid("raw", (1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8, 16, 32, 48), ("randread", "randwrite"))
    found = section(NO_SAMPLES, groups, ["raw"], NoteBook(groups))
    grids = [t for t in found.tables if t.slug.startswith("fio-grid")]
    assert [t.slug for t in grids] == ["fio-grid-1-read", "fio-grid-2-write"]
    assert all(t.shaded and t.again and len(t.rows) == 7 and len(t.columns) == 8 for t in grids)
    cell = grids[0].rows[6].cells[7]
    assert isinstance(cell, Figure)
    assert cell.median == 1000 * 48 * 64
    over_depth = [c for c in found.curves if c.x == "depth" and c.y == "all_iops"]
    over_jobs = [c for c in found.curves if c.x == "jobs" and c.y == "all_iops"]
    assert [len(c.lines) for c in over_depth] == [7, 7], "a plot for reads and one for writes, so that no line is lost"
    assert [len(c.lines) for c in over_jobs] == [7, 7]
    assert len({c.slug for c in found.curves}) == len(found.curves)


def test_jobs_alone_have_a_curve_and_no_table_of_their_own() -> None:
    groups = grid("raw", (8,), (1, 2, 4))
    found = section(NO_SAMPLES, groups, ["raw"], NoteBook(groups))
    assert [c.x for c in found.curves] == ["jobs", "jobs"]
    assert not [t for t in found.tables if t.slug.startswith("fio-grid")]


def test_a_storage_test_prints_one_rate_and_the_mean_latency_of_each_job_and_draws_depth_and_jobs(tmp_path: Path) -> None:
    groups = grid("raid5", (1, 4), (1, 2))
    run = new_run(tmp_path, [g.cell for g in groups])
    for number, group in enumerate(groups, 1):
        figures = {
            "server:d1": {**group.records[0].figures["server:d1"], "bytes_per_s.read": 1e6, "clat_p99_ns.read": 9e6, "fio_cpu_cores": 0.5}
        }
        run.write_trial(trial_record(number, group.cell, figures), {})
    written = {p.name: p.read_text() for p in write_publication([run.path], style="storage", formats=("csv", "html"), out=tmp_path / "out")}
    rows = [line.split(",") for line in written["storage-workloads.csv"].splitlines()[1:]]
    assert len(rows) == len(groups) and all("IOPS" in row and "MB/s" not in row for row in rows)
    assert {row[-2] for row in rows} == {"1000.0"}, "the mean latency in microseconds, not that of 99 %"
    assert any(name.startswith("storage-fio-grid") for name in written)
    assert written["storage.html"].count("<figure") >= 2
