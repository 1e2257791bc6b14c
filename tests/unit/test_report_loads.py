"""A page never says "loss 0.000 %" alone beside frames that were held back: intended, offered, backpressure, delivered and lost are there."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dutlab.cli.console import Console
from dutlab.interop.imported_run import Imported, imported_cell, write_imported
from dutlab.methods.flow import Flow
from dutlab.methods.ports import Measured
from dutlab.plan.plan import Plan, Trial
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure, Table
from dutlab.report.plots.of_report import plots_of
from dutlab.report.write import write_report
from dutlab.runner.event_log import EventLog
from dutlab.store.run_folder import RunFolder

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def flow(link: str = "a", *, sent: int, refused: int, by_peer: int, lost: int = 0) -> Flow:
    return Flow(link, sent + refused, sent, refused, sent - lost, lost, 0, 0, 0, 1.0, 64.0, 64 * (sent - lost), backpressure_frames=by_peer)


def run_of(tmp_path: Path, *flows: Flow, intended_pps: float | None = None) -> Path:
    """A sweep of one second, so frames are frames a second."""
    figures = {}
    for f in flows:
        rates = {"offered_pps": float(f.sent_frames), "received_pps": float(f.received_frames), "loss_ratio": f.loss_ratio}
        figures[f.link] = {
            **rates,
            "refused_ratio": f.refused_frames / f.intended_frames,
            **({} if intended_pps is None else {"intended_pps": intended_pps}),
        }
    if len(flows) > 1:
        figures["+".join(f.link for f in flows)] = {"offered_pps": 2.0, "received_pps": 2.0, "loss_ratio": 0.0}
    cell = imported_cell("nat", workload="sweep", tool="engine", params={"frame_size": "64", "duration_s": 1, "rate_pps": intended_pps})
    cell = cell.model_copy(update={"links": tuple(f.link for f in flows)})
    return write_imported(tmp_path, "x", [Imported(cell, Measured(figures, flows=flows))], command=("dutlab",), now=NOW).path


def delivered(table: Table, figure: str = "delivered_ratio") -> float:
    """Of the only row of a table of every figure."""
    ((value,),) = [[cell for c, cell in zip(table.columns, row.cells, strict=True) if c.figure == figure] for row in table.rows]
    assert isinstance(value, Figure)
    return value.median


def printed(run: Path) -> dict[str, str]:
    """Column → text of the one row of the sweep in Markdown."""
    (path,) = write_report([run], formats=("md",), out=None)
    lines = [line.strip("| ").split(" | ") for line in path.read_text().splitlines() if line.startswith("| ")]
    at = next(i for i, cells in enumerate(lines) if cells[0] == "mode" and cells[1] == "frame size")
    return dict(zip(lines[at], lines[at + 2], strict=True))


def test_nine_tenths_held_back_stand_beside_a_loss_of_nothing(tmp_path: Path) -> None:
    row = printed(run_of(tmp_path, flow(sent=50_000, refused=450_000, by_peer=450_000), intended_pps=5e5))
    assert [row[c].split()[0] for c in ("intended, kpps", "offered, kpps", "delivered, kpps")] == ["500.0", "50.0", "50.0"]
    assert [row[c].split()[0] for c in ("backpressure, %", "delivered, %", "lost, %")] == ["90.00", "10.00", "0.00"]


def test_the_html_page_says_the_same_and_names_the_rate_and_the_plot_the_share_that_was_delivered(tmp_path: Path) -> None:
    run = run_of(tmp_path, flow(sent=100_000, refused=900_000, by_peer=900_000))
    (path,) = write_report([run], formats=("html",), out=None)
    page = path.read_text().replace("\u00ad", "")
    assert "FRMOL, RFC 2285 section 3.6.2" in page
    heads = re.findall(r'<th class="num" scope="col"[^>]*>(offered|backpressure|delivered|lost), (?:kpps|%)</th>', page)
    assert heads == ["offered", "backpressure", "delivered", "delivered", "lost"]
    report = gather(run, run)
    (plot,) = [p for p in plots_of(report) if p.name == "sweep-a-delivered"]
    assert "generator" in plot.described
    assert delivered(report.sections[0].tables[1]) == 0.1


def test_a_generator_that_was_too_slow_is_no_backpressure(tmp_path: Path) -> None:
    run = run_of(tmp_path, flow(sent=100_000, refused=900_000, by_peer=0), intended_pps=1e6)
    row = printed(run)
    assert [row[c].split(" ")[0] for c in ("backpressure, %", "delivered, %")] == ["0.00", "100.00"]
    (limit,) = gather(run, run).limits
    assert limit.words == "limited by the generator"


def test_links_together_count_all_of_their_frames(tmp_path: Path) -> None:
    flows = flow(sent=100, refused=100, by_peer=100, lost=50), flow("b", sent=200, refused=0, by_peer=0)
    whole = gather(run := run_of(tmp_path, *flows), run).sections[0].tables[1]
    assert (whole.rows[0].link, delivered(whole, "backpressure_ratio"), delivered(whole)) == ("a+b", 0.25, 0.625)


@pytest.mark.parametrize(("refused", "said"), [(900_000, "100 kpps, backpressure 90.0%, loss 0.000%"), (0, "100 kpps, loss 0.000%")])
def test_the_console_says_what_was_held_back_beside_the_loss(tmp_path, capsys, refused, said) -> None:
    run = RunFolder.open(run_of(tmp_path, flow(sent=100_000, refused=refused, by_peer=refused)))
    (record,) = run.records()
    trial = Trial(number=1, cell=record.cell, group=1, estimate_s=1.0, ceilings={})
    EventLog(None, Console().hear, Plan(experiment="e", testbed="t", order="as-written", seed=1, estimate_s=1.0, trials=(trial,))).ended(
        record
    )
    printed = capsys.readouterr()
    assert said in printed.out + printed.err
