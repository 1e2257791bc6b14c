"""The table of reports: units, directions and shades, and its lines on a terminal."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli import terminal
from dutlab.cli.report import report as report_command
from dutlab.report.model.table import Column, Figure, Missing, Row, Table, word_table
from dutlab.report.model.words import better_of
from dutlab.report.pages.terminal import terminal_table
from dutlab.report.write import print_report, report_text
from fake_run import Wanted, build


def figure(median: float, n: int = 1, marks: tuple[int, ...] = ()) -> Figure:
    return Figure(median, median * 0.9, median * 1.1, interval=False, n=n, planned=n, trials=(1,), marks=marks)


def rates(*rows: tuple[str, Figure | Missing], name: str = "received_pps", shaded: bool = False) -> Table:
    columns = (Column("size"), Column("forwarded", name))
    return Table("x", "What came through", columns, tuple(Row(label, ("64", cell)) for label, cell in rows), shaded=shaded)


@pytest.mark.parametrize(
    ("figures", "better"),
    [
        (("received_pps", "goodput_bps", "ndr/lower_pps", "delivered_ratio", "headroom_ratio", "iops.read"), "higher"),
        (
            ("loss_ratio", "lost_frames", "latency_p99_ns", "50%/tl_ns", "retransmits", "backpressure_ratio", "outage_ns", "watts"),
            "lower",
        ),
        (("intended_pps", "offered_pps", "trials", "clock_ahead_ns", ""), ""),
    ],
)
def test_a_name_says_which_figures_are_better(figures: tuple[str, ...], better: str) -> None:
    assert {name: better_of(name) for name in figures} == dict.fromkeys(figures, better)


def test_spreads_are_beside_their_figures_where_there_is_room() -> None:
    lines = list(terminal_table(rates(("nat", figure(5e5, n=3, marks=(2,))), ("router", figure(9e5)))))
    assert lines[3].split() == ["nat", "64", "500", "[2]", "(450–550)"]
    assert lines[4].index("900.0") + len("900.0") == lines[3].index("[2]") + len("[2]"), "figures end below one another"
    assert len(lines) == 5


def test_spreads_stand_below_their_figures_where_there_is_none_and_units_in_the_head() -> None:
    lines = list(terminal_table(rates(("nat", figure(5e5, n=3, marks=(2,)))), width=28))
    assert lines[1].split() == ["mode", "size", "forwarded,", "kpps"]
    assert lines[3].split() == ["nat", "64", "500", "[2]"]
    assert lines[4].split() == ["450–550"]
    assert lines[3].index("500 [2]") + len("500 [2]") == len(lines[4])  # both end where their column does


def test_a_unit_that_all_columns_share_is_said_once() -> None:
    table = Table("x", "Goodput", (Column("a", "goodput_bps"), Column("b", "goodput_bps")), (Row("nat", (figure(5e9), figure(4e8))),))
    assert table.caption == "Goodput, Gb/s"
    assert [table.head(n) for n in (0, 1)] == ["a", "b"]
    assert [re.sub(r"\s+", " ", line) for line in terminal_table(table)][-1] == "nat 5.00 0.40"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_asked_and_no_figure_is_lost(width: int) -> None:
    columns = (Column("what was asked for"), *(Column(f"column {n}", "received_pps") for n in range(20)))
    row = Row("a mode of a long name", ("words that go on and on and are wrapped", *(figure(1e6 + n * 1e3) for n in range(20))))
    lines = list(terminal_table(Table("x", "A wide table", columns, (row,)), width=width))
    assert max(map(len, lines)) <= width
    assert all(f"{1 + n / 1000:.3f}" in "\n".join(lines) for n in range(20))


def test_what_is_missing_is_explained_below_once() -> None:
    why = "failed: link in-a went down"
    text = "\n".join(terminal_table(rates(("nat", Missing(why)), ("router", Missing(why)))))
    assert (text.count(why), text.count("no result")) == (1, 3)


def test_shades_follow_the_size_and_their_colour_the_direction() -> None:
    more = "\n".join(terminal_table(rates(("a", figure(1e6)), ("b", figure(1e5)), shaded=True), colour=True))
    less = "\n".join(terminal_table(rates(("a", figure(0.5)), ("b", figure(0.01)), name="loss_ratio", shaded=True), colour=True))
    assert re.findall(r"48;5;(\d+)", more) == ["25", "17"]
    assert re.findall(r"48;5;(\d+)", less) == ["130", "58"]
    assert "\x1b" not in "\n".join(terminal_table(rates(("a", figure(1e6)), shaded=True)))


def test_names_cannot_move_the_cursor() -> None:
    text = "\n".join(terminal_table(rates(("\x1b[2Jnat", figure(1e6))), colour=True))
    assert "\x1b" not in text
    assert "?[2Jnat" in text


def test_what_limited_it_what_failed_and_facts_are_printed_too(tmp_path: Path) -> None:
    run = build(tmp_path, Wanted(modes={"router": "router", "nat": "nat"}, repeats=2, seconds=2, cores=1, sizes=(64,)))
    told = json.loads(report_text([run], "json"))["runs"][0]
    lines = "\n".join(print_report([run], width=1000, colour=False, verbose=True)).splitlines()
    assert told["limits"] and [t for t in told["trials"] if t["why"]]
    assert all(
        any(limit["words"] in line and limit["evidence"][0] in line for line in lines) for limit in told["limits"] if limit["evidence"]
    )
    for trial in told["trials"]:
        assert trial["status"] == "measured" or any(trial["why"] in line and trial["status"] in line for line in lines)
    assert not any("all held" in line for line in lines), "checks that held are folded"
    assert any(line.startswith("fact ") and all(host in line for host in told["conditions"]["hosts"]) for line in lines)


def test_report_prints_its_tables_and_writes_nothing(tmp_path: Path) -> None:
    run = build(tmp_path, Wanted(repeats=1, seconds=2, cores=0, sizes=(64, "imix")))
    before = sorted(run.rglob("*"))
    short = CliRunner().invoke(report_command, [str(run), "--print"])
    done = CliRunner().invoke(report_command, [str(run), "--print", "--verbose"])
    assert done.exit_code == short.exit_code == 0, done.output
    assert "sweep: forwarded" in short.output and "All figures of" not in short.output and len(short.output) < len(done.output) / 2
    assert "TCP goodput, Gb/s" in done.output
    assert "All figures of" in done.output
    assert max(len(line) for line in done.output.splitlines() if not line.startswith("  dutlab ")) <= 80  # commands can be pasted
    assert sorted(run.rglob("*")) == before
    assert CliRunner().invoke(report_command, [str(run), "--print", "--format", "md"]).exit_code == 2


def test_words_are_as_wide_as_they_need_and_a_number_is_not_torn_apart() -> None:
    lines = list(terminal_table(word_table(("of", "at most"), [("64 B", "14\u202f880\u202f952.38 pps")], right={1}), width=sys.maxsize))
    assert lines[-1] == "64 B  14\u202f880\u202f952.38 pps" and lines[0].endswith(" at most")
    assert "14\u202f880\u202f952.38" in "\n".join(
        terminal_table(word_table(("a", "b"), [("x " * 20, "14\u202f880\u202f952.38 pps")]), width=30)
    )


@pytest.mark.parametrize("width", [80, 100])
def test_commands_print_tables_no_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(terminal, "line_width", lambda: width)
    rows = [("iperf3 · link ixl2_ixl0 of ixl2_ixl0+ixl3_ixl1", "17.44 Gb/s", "13.48 Gb/s", "no difference proven " * 3)] * 2
    lines = list(terminal.table(("cell", "router", "nat", "verdict"), rows, right={1, 2}))
    assert max(map(len, lines)) <= width and sum("17.44 Gb/s" in line for line in lines) == 2, "no figure is broken"
    assert max(map(len, terminal.wrapped("word " * 60))) <= width


def test_a_program_gets_a_row_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "line_width", lambda: None)
    assert len(list(terminal.table(("cell", "verdict"), [("a b " * 50, "c d " * 50)]))) == 3, "heads, a rule, the row"
    assert terminal.wrapped("word " * 60) == ["word " * 60]


def test_reasons_that_differ_in_their_numbers_only_are_told_once() -> None:
    taken = [("nat", Missing(f"disturbed: this-machine: other work took {share}% of the CPU time")) for share in (46, 36, 30, 46)]
    text = " ".join(terminal_table(rates(*taken, ("router", Missing("failed: link in-a went down")))))
    assert "46%" in text and "2 more)" in text
    assert (text.count("no result: disturbed"), text.count("no result: failed")) == (1, 1)


def test_a_long_sum_of_drives_breaks_between_their_names() -> None:
    drives = [f"server:d{n}" for n in range(1, 9)]
    table = Table("t", "", (Column("drives"), Column("a long head beside it, as wide as it can be")), (Row("m", ("+".join(drives), "x")),))
    said = [line for line in terminal_table(table, width=60) if "server" in line]
    cells = [word for line in said for word in line.split() if "server" in word]
    assert len(cells) > 1 and "".join(cells) == "+".join(drives)
    assert all(name in drives for cell in cells for name in cell.strip("+").split("+")), cells
