"""What a reader sees first: one formatting of a figure wherever it is printed, no empty columns, no wall of comparisons, whole words."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from datetime import UTC, datetime

import pytest

from dutlab.cli.console import Console
from dutlab.cli.progress_line import LiveTrial, bar, columns_of, fitted, width_of_errors, with_time
from dutlab.events import Preparing, RunEnded, TrialBegun
from dutlab.report.model.table import Column, Figure, Missing, Row, Table, number_text, without_empty
from dutlab.report.model.words import KPPS, MBPS, Unit
from dutlab.report.pages.markdown import text
from dutlab.report.plots.axis import rows_below

GBPS = Unit("Gb/s", 1e9, 2)


def once(value: float, published: str = "", scale: float = 0.0) -> Figure:
    return Figure(value, value, value, interval=False, n=1, planned=1, trials=(1,), published=published, published_scale=scale)


@pytest.mark.parametrize(
    ("published", "scale", "unit", "said"),
    [
        ("119", 1e6, GBPS, "0.119"),
        ("9.40", 1e9, GBPS, "9.40"),
        ("45.6", 1e9, Unit("MB/s", 1e6, 1), "45\u202f600"),
        ("1780", 1e3, KPPS, "1780"),
    ],
)
def test_published_digits_are_kept_in_another_unit_of_the_same_kind(published: str, scale: float, unit: Unit, said: str) -> None:
    assert number_text(once(float(published) * scale, published, scale), unit) == said


def test_digits_published_in_binary_units_are_not_those_of_decimal_ones() -> None:
    assert number_text(once(32.6 * 8 * 2**20, "32.6", 8 * 2**20), MBPS) == "273.5"


def test_columns_that_no_row_has_are_named_below_the_table() -> None:
    columns = (Column("most", "max_pps"), Column("saturated", "at_pps"), Column("after", "at_s"), Column("lost", "loss_ratio"))
    rows = tuple(Row(mode, (once(1e3), Missing("not reached"), Missing("not reached"), once(0.1))) for mode in ("a", "b"))
    kept = without_empty(Table("t", "T", columns, rows))
    assert [kept.columns[i].head for i in kept.shown] == ["most", "lost"]
    (note,) = kept.notes
    assert "saturated, after" in note and "not reached" in note
    one = rows[1].cells
    whole = Table("t", "T", columns, (rows[0], Row("b", (one[0], once(5.0), Missing("other"), one[3]))))
    assert without_empty(whole) is whole
    nothing = Table("t", "T", columns, (Row("a", (Missing("failed"),) * 4),))
    assert without_empty(nothing) is nothing, "a table without any figure says so in its place"


def test_a_long_note_breaks_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = "other work took 44% of the CPU time of the threads that send, forward and receive frames " * 3
    monkeypatch.setattr("dutlab.cli.console._renews", lambda: True)
    Console().note(said.strip())
    lines = capsys.readouterr().err.removeprefix("\r").removeprefix("\x1b[K").splitlines()
    assert len(lines) > 1 and max(map(len, lines)) < 80
    assert " ".join(lines) == f"note: {said.strip()}"
    monkeypatch.setattr("dutlab.cli.console._renews", lambda: False)
    Console().note(said.strip())
    assert capsys.readouterr().err == f"note: {said.strip()}\n", "a log keeps one line"


def test_nothing_is_left_of_the_moving_line_when_a_run_has_ended(monkeypatch, capsys) -> None:
    monkeypatch.setattr("dutlab.cli.console._renews", lambda: True)
    console, now = Console(), datetime(2026, 11, 23, tzinfo=UTC)
    console.hear(Preparing(at=now, what="restoring everything"))
    assert "restoring everything" in capsys.readouterr().err
    console.hear(RunEnded(at=now, status="finished", measured=1, failed=0, refused=0, disturbed=0))
    assert capsys.readouterr().err.replace("\033[K", "") == "\r"


def test_the_moving_line_never_says_that_nothing_is_left_of_a_trial_that_goes_on() -> None:
    begun = TrialBegun(
        at="2026-11-21T08:01:00Z", trial=1, what="nat search 64 a #1", mode="nat", workload="search", tool="engine", links=("a",), repeat=1,
        estimate_s=40.0, done=0, trials=1, left_s=40.0,
    )  # fmt: skip
    live = LiveTrial(begun, since_s=0.0)
    early, late = live.words(10.0, 79), live.words(56.0, 79)
    assert bar(0.25) in early and "10 s, 30 s " in early
    assert bar(1.0) in late and re.findall(r"\d+ s\b", late) == ["56 s"], "no time left is given"


def test_the_bar_is_of_characters_that_the_terminal_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, full in (("utf-8", "█"), ("ascii", "#"), ("no-such", "#")):
        monkeypatch.setattr("sys.stderr", type("Stream", (), {"encoding": encoding})())
        assert bar(0.0).count(full) == 0 and bar(0.5).count(full) == 5 and bar(1.0) == bar(7.0) == full * 10


@pytest.mark.parametrize("width", [20, 40, 60, 79, 120])
@pytest.mark.parametrize("what", ["nat search 64 a #1", "路由器" * 30, "a\x1b[31mb\r\n" * 30, "e\u0301" * 200])
def test_the_moving_line_is_one_line_of_the_terminal_whatever_is_in_it(what: str, width: int) -> None:
    line = fitted(f"[1/12] {bar(0.3)} {what}: 12 s", width)
    assert columns_of(line) <= width and line.isprintable()
    assert columns_of(line) >= min(width - 1, columns_of("[1/12] ")), "as much of it as fits"


def test_a_line_is_as_wide_as_the_terminal_of_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 47, 0, 0))
        monkeypatch.setattr("sys.stderr", type("Stream", (), {"fileno": lambda _: theirs})())
        assert width_of_errors() == 46
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 132, 0, 0))
        assert width_of_errors() == 131, "it was made wider meanwhile"
    finally:
        os.close(ours)
        os.close(theirs)


def test_the_moving_line_keeps_its_seconds_where_its_words_are_too_long() -> None:
    said = with_time("mode nat, mtu 1500, offloads gro off, sack off: applying and verifying it, then 2 trials", 65.0, 79)
    assert len(said) == 79 and said.endswith("…, 1 min 05 s")
    assert with_time("restoring everything", 3.0, 79) == "restoring everything, 3 s"


def test_code_words_have_no_backslashes_in_markdown() -> None:
    assert text("raise `repeats` to 6") == "raise `repeats` to 6"
    assert text("a ` alone, `a|b` and `[x](y)`") == "a \\` alone, \\`a\\|b\\` and \\`\\[x\\]\\(y)\\`"


def test_words_at_an_axis_that_would_touch_are_a_line_lower() -> None:
    assert rows_below([(0.0, "64"), (100.0, "1024"), (107.0, "1280"), (114.0, "1518"), (200.0, "9000")]) == [0, 0, 1, 2, 0]
