"""What a report makes of SNIA's tests: windows, pauses, loads, demands and operating points, each in its table and its curve."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import cast

from dutlab.plan.cell import Cell
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Figure, Table
from dutlab.report.sections.pts import section
from dutlab.spec.workloads.pts_setting import PtsSetting
from dutlab.store.record import TrialRecord
from dutlab.tools.fio.pts import again
from dutlab.tools.fio.pts_verdict import figures_of, state_of, tables_of
from pts_reports import log_of, report, setting_of
from run_records import trial_record

NO_SAMPLES = cast("ReadRun", SimpleNamespace(run=SimpleNamespace(samples_path=lambda trial: None)))


def trial_of(setting: PtsSetting, raw: Mapping[str, bytes]) -> tuple[Cell, TrialRecord]:
    cell = Cell(mode="raw", factors={"mode": "raw"}, tool="fio", links=("server:d1",), setting=setting, repeat=1)
    parts = again(setting, raw)
    verdict = {
        "state": state_of(setting, parts),
        "write_cache": "off",
        "rounds": 5.0,
        "first_round": 1.0,
        "mean_iops": 50.0,
        "range_iops": 5.0,
    }
    return cell, trial_record(
        1, cell, {"server:d1": figures_of(setting, parts)}, tables={"verdict": [verdict], **tables_of(setting, parts)}
    )


def section_of(setting: PtsSetting, raw: Mapping[str, bytes]) -> Section:
    cell, record = trial_of(setting, raw)
    groups = [Group("raw", cell, [1], [record])]
    return section(NO_SAMPLES, groups, ["raw"], NoteBook(groups))


def numbers(table: Table, row: int = 0) -> list[float]:
    return [round(cell.median, 3) for cell in table.rows[row].cells if isinstance(cell, Figure)]


def test_the_window_is_drawn_with_its_mean_and_its_bounds_and_told_in_numbers() -> None:
    raw = {f"round-{n:02d}-reads-0-4k-fio-server.json": report(iops) for n, iops in enumerate([900, 100, 104, 98, 101, 97], 1)}
    found = section_of(setting_of(block_sizes=["4k"], reads_percent=[0]), raw)
    tables = {table.slug: table for table in found.tables}
    assert tables["pts-verdict"].rows[0].cells[:7] == ("server:d1", "iops", "steady", "none", "off", "100 %", "4 × 32")
    assert numbers(tables["pts-verdict"])[2] == 0.1, "the range of the record's verdict ÷ its mean"
    assert numbers(tables["pts-windows-iops"])[:5] == [2, 6, 100, 0.07, 0.036]
    assert numbers(tables["pts-iops-steady"]) == [100]
    (window,) = (curve for curve in found.curves if "window" in curve.slug)
    assert [line.label for line in window.lines] == ["measured", "fitted line", "110 % of the mean", "mean", "90 % of the mean"]
    assert [x for x, _ in window.lines[0].points] == [2, 3, 4, 5, 6]
    assert [round(line.points[0][1]) for line in window.lines[2:]] == [110, 100, 90]


def test_pauses_have_a_row_each() -> None:
    setting = setting_of(tests=["host-idle-recovery"], pauses=["5s", "10s"], bursts=2)
    raw = {f"pre-{n:02d}-fio-server.json": report(100) for n in range(1, 6)}
    raw |= {f"pause-{w}s-fio-server.json": report(iops, seconds=12.5) for w, iops in ((5, 120), (10, 200))}
    raw |= {f"base-{w}s-fio-server.json": report(100, seconds=12.5) for w in (5, 10)}
    found = section_of(setting, raw)
    (table,) = (table for table in found.tables if table.slug == "pts-idle-steady")
    assert [row.cells[1] for row in table.rows] == ["5 s", "10 s"]
    assert [numbers(table, row)[:2] for row in (0, 1)] == [[120, 1.2], [200, 2]]


def test_a_load_that_never_recovers_says_so_with_a_dash() -> None:
    setting = setting_of(tests=["cross-stimulus-recovery"], stimuli=["10s", "10s", "10s"], duration="1s")
    raw = {f"load-{n}-fio-server.json": report(100, seconds=10) for n in (1, 2, 3)}
    logs = {"load-1-fio-server-server-d1_bw.log": log_of([500] * 10)}
    for third, recovered in (([200] * 4 + [490] * 6, 5), ([200] * 10, None)):
        found = section_of(setting, raw | logs | {"load-3-fio-server-server-d1_bw.log": log_of(third)})
        (table,) = (table for table in found.tables if table.slug == "pts-loads")
        cell = table.rows[2].cells[-1]
        assert (cell.median if isinstance(cell, Figure) else cell) == (recovered or "–")


def test_demand_has_a_matrix_operating_points_and_two_curves_with_a_line_for_each_number_of_threads() -> None:
    setting = setting_of(tests=["composite"], threads=[1, 4], depths=[1, 8])
    of = {(4, 8): 1000, (4, 1): 520, (1, 8): 900, (1, 1): 100}
    raw = {f"pre-{n:02d}-fio-server.json": report(1000) for n in range(1, 6)}
    raw |= {f"round-{n:02d}-t{t}-q{q}-fio-server.json": report(i, clat_ns=1e6) for n in range(1, 6) for (t, q), i in of.items()}
    raw |= {f"{point}-fio-server.json": report(iops, clat_ns=1e6) for point, iops in (("max", 990), ("mid", 510), ("min", 101))}
    found = section_of(setting, raw)
    tables = {table.slug: table for table in found.tables}
    assert [numbers(tables["pts-composite-steady-iops"], row) for row in (0, 1)] == [[100, 900], [520, 1000]]
    points = tables["pts-composite-steady-points"]
    assert [(row.cells[1], row.cells[2], numbers(points, n)[0]) for n, row in enumerate(points.rows)] == [
        ("max", "4 × 8", 990), ("mid", "4 × 1", 510), ("min", "1 × 1", 101),
    ]  # fmt: skip
    variation, intensity = (next(c for c in found.curves if word in c.slug) for word in ("variation", "intensity"))
    assert [line.label for line in variation.lines] == ["1 thread", "4 threads"] and variation.lines[1].points == ((1, 520), (8, 1000))
    assert intensity.lines[1].points == ((520, 1e6), (1000, 1e6))


def test_a_disturbed_test_keeps_its_state_and_one_without_a_verdict_has_none() -> None:
    raw = {f"round-{n:02d}-reads-0-4k-fio-server.json": report(iops) for n, iops in enumerate([100, 104, 98, 101, 97], 1)}
    cell, record = trial_of(setting_of(block_sizes=["4k"], reads_percent=[0]), raw)
    for disturbed, state in ((record.model_copy(update={"status": "disturbed"}), "steady"), (None, "–")):
        groups = [Group("raw", cell, [1], [disturbed] if disturbed else [])]
        tables = {table.slug: table for table in section(NO_SAMPLES, groups, ["raw"], NoteBook(groups)).tables}
        assert tables["pts-verdict"].rows[0].cells[2] == state
        assert ("pts-iops-steady" in tables) is (disturbed is not None)
        figures = [cell for of in tables.values() for row in of.rows for cell in row.cells if isinstance(cell, Figure)]
        assert not figures, "its figures do not count"
