"""What limited it, in reports of published tables and of records with doubts: no verdict contradicts its page."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dutlab.analysis.limited.finding import LimitCause
from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import Imported, ImportOptions, imported_cell, write_imported
from dutlab.interop.importers import read_data
from dutlab.methods.ports import Measured
from dutlab.report.gather import gather
from dutlab.report.model.run_report import RunReport
from dutlab.units import BpsL1
from golden import Golden

EXAMPLES = Path(__file__).parents[2] / "examples" / "published"
NOW = datetime(2026, 11, 21, tzinfo=UTC)
UNTOLD, ONE_G, TEN_G = ImportOptions(), ImportOptions(BpsL1(1e9)), ImportOptions(BpsL1(10e9))


def report_of(runs: Path, trials: list[Imported]) -> RunReport:
    path = write_imported(runs, "x", trials, command=("dutlab",), now=NOW).path
    return gather(path, path)


def table(runs: Path, name: str, options: ImportOptions) -> RunReport:
    return report_of(runs, read_data("figures", name, (EXAMPLES / name).read_bytes(), options))


def text(runs: Path, written: str, options: ImportOptions = UNTOLD) -> RunReport:
    return report_of(runs, read_data("figures", "x.csv", written.encode(), options))


def test_pairs_above_the_ceiling_of_1500_bytes_name_that_assumption(tmp_path: Path, golden: Golden) -> None:
    rows = table(tmp_path, "tengig-after.csv", TEN_G).limits
    assert len({row.size for row in rows}) == len(rows) == 6
    assert not any(float(word.rstrip("%")) > 100.5 for row in rows for word in row.because.split() if word.endswith("%"))
    rows += text(tmp_path / "x", "mode,workload,goodput_gbps\na,iperf3,5\n").limits  # of which next to nothing is known
    golden.check("limits-of-tables.txt", "".join(f"{row.size}: {row.words} ({row.confidence})\n    {row.because}\n" for row in rows))


def test_more_than_the_line_carries_is_a_severe_doubt_and_an_mtu_that_the_table_names_is_not_assumed(tmp_path: Path) -> None:
    (row,) = text(tmp_path / "mtu", "mode,workload,mtu,goodput_gbps\na,iperf3,9000,9.84\n", TEN_G).limits
    assert (row.confidence, "assumed" in row.because) == ("shown", False)
    for figure in ("received_mpps", "sent_mpps"):
        found = text(tmp_path / figure, f"mode,workload,frame_size,{figure}\npkt-gen,sweep,64,15.88\n", TEN_G)
        assert [note.kind for note in found.severe] == ["ABOVE_LINE_RATE"]
        assert all(row.cause == LimitCause.UNKNOWN.value for row in found.limits)
    for gbps, kinds in ((9.99, ["ABOVE_LINE_RATE"]), (9.84, [])):  # the second with an MTU of 9000
        assert [n.kind for n in text(tmp_path / str(gbps), f"mode,workload,goodput_gbps\na,iperf3,{gbps}\n", TEN_G).severe] == kinds


def test_the_apu6_has_the_same_verdicts_whether_its_line_rate_was_given_or_not(tmp_path: Path) -> None:
    told, given = (table(tmp_path / name, "apu6-loadtest.csv", of) for name, of in (("a", ImportOptions()), ("b", ONE_G)))
    assert [(r.label, r.size, r.words, r.because) for r in told.limits] == [(r.label, r.size, r.words, r.because) for r in given.limits]
    with pytest.raises(InputError, match=r"1 Gbit/s.*--line-rate 10 Gbit/s"):
        table(tmp_path / "c", "apu6-loadtest.csv", TEN_G)
    (row,) = text(tmp_path / "d", "mode,workload,frame_size,received_kpps,max_line_percent\na,loadtest,64,1488.1,100\n").limits
    assert row.cause == LimitCause.LINE.value, "percentages without bits are of 1 gigabit"


def test_openbsd_with_1500_bytes_is_limited_by_the_cost_of_each_packet(tmp_path: Path) -> None:
    """Each combination of levels taken for a mode of its own, so that no other is compared with it."""
    head, *rows_of_file = csv.reader((EXAMPLES / "apu2-openbsd.csv").read_text().splitlines())
    assert head == ["mode", "workload", "mtu", "setperf", "cpb", "pcie_power_mgmt", "goodput_mibytes_per_s"]
    lines = [f"{pf} setperf {setperf} cpb {cpb},{what},{mtu},{rate}" for pf, what, mtu, setperf, cpb, _, rate in rows_of_file]
    rows = text(tmp_path, "\n".join(["mode,workload,mtu,goodput_mibytes_per_s", *lines, ""]), ONE_G).limits
    assert [r.cause for r in rows if r.size == "MTU 1500"] == [LimitCause.PER_PACKET.value] * 8
    assert [r.cause for r in rows if r.size == "MTU 9000"] == [LimitCause.LINE.value] * 4
    assert {round(r.value / 1e6) for r in rows} >= {252, 931}
    rows = table(tmp_path / "columns", "apu2-openbsd.csv", ONE_G).limits  # factors in columns of their own
    assert {r.cause for r in rows if r.size == "MTU 9000"} == {LimitCause.LINE.value}
    assert LimitCause.PER_PACKET.value in {r.cause for r in rows if r.size == "MTU 1500"}


def searched(*doubts: Doubt, mode: str = "nat", pps: float = 0.4e6) -> Imported:
    cell = imported_cell(mode, workload="search", tool="engine", params={"frame_size": "64"})
    return Imported(cell, Measured({"a": {"ndr/lower_pps": pps}}, doubts=doubts), ceilings={"a": {"received_pps": 1.488e6}})


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (DoubtKind.RIG_LIMITED, LimitCause.RIG),
        (DoubtKind.LIMIT_OF_GENERATOR, LimitCause.RIG),
        (DoubtKind.NO_UPPER_BOUND, LimitCause.UNKNOWN),
        (DoubtKind.DISTURBED, LimitCause.UNKNOWN),
        (DoubtKind.CPU_STOLEN, LimitCause.UNKNOWN),
        (DoubtKind.LEDGER_OPEN, LimitCause.UNKNOWN),
    ],
)
def test_a_doubt_on_the_page_forbids_the_verdict_that_it_contradicts(tmp_path: Path, kind: DoubtKind, cause: LimitCause) -> None:
    faster = searched(mode="router", pps=0.9e6)
    plain = {r.label: r.cause for r in report_of(tmp_path / "plain", [faster, searched()]).limits}
    assert plain["nat"] == LimitCause.MODE.value
    found = {r.label: r for r in report_of(tmp_path / "doubted", [faster, searched(Doubt(kind, "so much"))]).limits}
    assert found["nat"].cause == cause.value and kind.text in found["nat"].because
