"""The report of the suite has the tables and graphs of RFC 2544 section 26, and states its departures beside them."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from cells import cell_of
from dutlab.methods.flow import Latency
from dutlab.methods.ports import Bench, Offer, Outcome
from dutlab.methods.rfc2544 import suite
from dutlab.report.gather import gather
from dutlab.report.model.run_report import RunReport
from dutlab.report.model.table import Figure, Table
from dutlab.report.plots.of_report import plots_of
from dutlab.report.write import write_report
from dutlab.units import BpsL1
from rfc2544_context import Sleeper
from run_records import new_run, trial_record
from simulated import Dut, Simulation

SIZES = (64, 512, 1518)
CAPACITY_PPS = 200_000
TESTS = "throughput,latency,frame-loss,back-to-back,recovery"


class Timed:
    """A simulated DUT whose frames arrive 20 µs after they were sent."""

    def __init__(self, inner: Simulation) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:  # the rest as the DUT has it
        return getattr(self._inner, name)

    async def offer(self, offer: Offer) -> Outcome:
        outcome, ns = await self._inner.offer(offer), 20_000
        seen = Latency(count=10, min_ns=ns // 2, p50_ns=ns, p90_ns=ns, p99_ns=ns, p999_ns=2 * ns, max_ns=3 * ns, mean_ns=ns)
        return replace(outcome, flows=tuple(replace(flow, latency=seen) for flow in outcome.flows))


async def made(folder: Path) -> Path:
    """A run of two modes and three sizes."""
    cells = [
        cell_of(
            "rfc2544", mode=mode, frame_size=size, frame_mix=f"{size}:1", tests=TESTS, scale=0.05, directions="forward", width_ratio=0.01,
            latency_repeats=2, burst_repeats=2,
        )
        for mode in ("router", "filter-25") for size in SIZES
    ]  # fmt: skip
    run = new_run(folder, cells)
    for number, cell in enumerate(cells, 1):
        capacity = CAPACITY_PPS if cell.mode == "router" else CAPACITY_PPS / 2
        bench = Bench(Timed(Simulation(Dut(capacity, buffer_frames=512))), {"a": BpsL1(1e9)}, addresses={"a": (ip_address("198.18.0.2"),)})
        found = await suite.measure(bench, cell, sleep=Sleeper())
        run.write_trial(trial_record(number, cell, found.figures, tables=found.tables), {}, [])
    return run.path


def column(table: Table, figure: str) -> dict[tuple[str, str], float]:
    """Medians of a figure by mode and size."""
    (at,) = [i for i, c in enumerate(table.columns) if c.figure == figure]
    return {(row.label, row.size): cell.median for row in table.rows if isinstance(cell := row.cells[at], Figure)}


async def test_section_26_has_its_tables_its_graphs_and_its_departures(tmp_path: Path) -> None:
    run = await made(tmp_path)
    found = gather(run, tmp_path)
    (section,) = found.sections
    tables = {t.slug.removeprefix("rfc2544-"): t for t in section.tables}
    assert {"throughput", "latency", "frame-loss", "back-to-back", "recovery"} <= tables.keys()
    throughput = column(tables["throughput"], "throughput_pps")
    assert throughput["router", "64"] == pytest.approx(CAPACITY_PPS, rel=0.01)
    # Sections 26.2 and 26.5: a column for the rate at which the test was run.
    assert column(tables["latency"], "throughput_pps") == throughput == column(tables["recovery"], "throughput_pps")
    curves = {c.slug.removeprefix("rfc2544-"): c for c in section.curves}
    sizes = {float(size) for size in SIZES}
    for slug in ("throughput-a-forward", "latency-router-a-forward"):
        assert all({x for x, _ in line.points} == sizes for line in curves[slug].lines), slug
    lines = [(line.label, line.role) for line in curves["throughput-a-forward"].lines]
    assert lines == [("router", "found"), ("filter-25", "found"), ("highest rate", "asked")], "section 26.1: and the theoretical rate"
    assert {line.label for line in curves["back-to-back-a-forward"].lines} == {"router", "filter-25"}
    mean, least, most = (dict(line.points)[64.0] for line in curves["latency-router-a-forward"].lines)
    assert (mean, least, most) == (20_000, 10_000, 60_000)
    loss = curves["loss-router-a-forward"]
    assert loss.x_span == loss.y_span == (0.0, 1.0), "section 26.3: both axes from 0 to 100 %"
    assert len({p.name for p in plots_of(found)}) == len(section.curves)
    assert_departures_are_stated_once(found, write_report([run], formats=["html"], out=tmp_path / "out")[0].read_text())


def assert_departures_are_stated_once(found: RunReport, page: str) -> None:
    """Departures of the suite are in its section, and only there."""
    (section,) = found.sections
    assert section.deviations
    start, end = page.index('<section id="rfc2544"'), page.index('<section id="doubts"')
    for text in section.deviations:
        shown = text.replace("&", "&amp;").replace("'", "&#39;").replace("<", "&lt;").replace(">", "&gt;")
        assert page.count(f"<li>{shown}</li>") == 1 and start < page.index(f"<li>{shown}</li>") < end, text
