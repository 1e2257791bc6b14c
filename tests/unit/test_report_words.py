"""Words, marks and sentences of the report, one by one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cells import cell_of, setting_of
from dutlab.events import TrialEnded
from dutlab.plan.cell import Cell
from dutlab.report.model.groups import group, labels_of
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.table import Figure, number_text, spread_text
from dutlab.report.model.trial_words import ended_words
from dutlab.report.model.words import (
    KPPS,
    MBPS,
    SIZES,
    alike_names,
    asked_words,
    bit_rate_unit,
    duration_words,
    folded,
    frame_rate_unit,
    latency_text,
    mix_words,
    numbers_words,
    plural,
    pps_text,
    setting_words,
    unit_of,
)
from dutlab.report.sections.facts import fact_rows
from dutlab.spec.goals import goals_named
from dutlab.spec.traffic import Traffic
from dutlab.spec.workloads import model_of
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.spec.workloads.iperf3 import Iperf3Setting
from dutlab.spec.workloads.setting import LoadSetting
from dutlab.store.cell_figures import key_of
from dutlab.store.needed import planned_cells
from dutlab.store.record import DoubtRecord, TrialRecord
from dutlab.workloads import settable
from golden import Golden

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def cell(mode: str = "router", repeat: int = 1, links: tuple[str, ...] = ("a",), **factors: str) -> Cell:
    return cell_of("iperf3", mode=mode, links=links, repeat=repeat, factors=factors, streams=4)


def record(
    trial: int, of: Cell, doubts: list[DoubtRecord] | None = None, figures: dict[str, dict[str, float]] | None = None, **other: Any
) -> TrialRecord:
    made = (
        {"a": {"goodput_bps": 1e9, "retransmits": 3.0}, "b": {"goodput_bps": 2e9}, "a+b": {"goodput_bps": 3e9}}
        if figures is None
        else figures
    )
    return TrialRecord(trial=trial, status="measured", cell=of, started=NOW, ended=NOW, figures=made, doubts=doubts or [], **other)


def doubt(about: str = "", grade: str = "warning") -> DoubtRecord:
    return DoubtRecord(kind="K", grade=grade, text="something", remedy="do", about=about)  # type: ignore[arg-type]


def book_of(records: list[TrialRecord]) -> NoteBook:
    cells = {r.trial: r.cell for r in records}
    return NoteBook(group(cells, records, labels_of(cells.values(), {})))


def test_numbers_durations_and_counts_read_as_people_say_them() -> None:
    said = ["", "3", "1, 2", "1–3", "1–3, 5, 6, 9", f"{', '.join(map(str, range(0, 80, 2)))}, and 60 more"]
    assert [numbers_words(of) for of in ([], [3], [1, 2], [1, 2, 3], [9, 1, 2, 3, 5, 6, 5], range(0, 200, 2))] == said
    assert [duration_words(s) for s in (4.2, 60, 200.4, 7500)] == ["4 s", "1 min 00 s", "3 min 20 s", "2 h 05 min"]
    assert [plural(n, "trial") for n in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]


@given(st.sets(st.integers(1, 60)))
def test_runs_of_numbers_say_all_of_them_and_no_others(numbers: set[int]) -> None:
    said: set[int] = set()
    for part in numbers_words(numbers).split(", "):
        if part:
            first, _, last = part.partition("–")
            said |= set(range(int(first), int(last or first) + 1))
    assert said == numbers


def test_a_table_has_one_unit_and_thousands_set_apart() -> None:
    assert bit_rate_unit([9.4e9, 4e8]).text(9.4e9) == "9.40 Gb/s"
    assert bit_rate_unit([9.4e9, 119e6]).text(119e6) == "119.0 Mb/s"  # 0.12 would lose a digit
    assert frame_rate_unit([1.78e6, 0.15e6]).text(1.78e6) == "1.780 Mpps"
    assert frame_rate_unit([1.78e6, 6.4e3]).text(6.4e3) == "6.4 kpps"


def test_what_trials_said_alike_is_one_sentence_with_the_range_of_its_numbers():
    said = [f"this-machine: other work took {n}% of 2.0 cores" for n in (72, 46, 9.5)]
    assert folded([*said, "dut1: 3 times", "dut2: 3 times", "the port went down"]) == [
        "this-machine: other work took 9.5–72% of 2.0 cores", "dut1: 3 times", "dut2: 3 times", "the port went down",
    ]  # fmt: skip
    others = ["172.16.0.1: no answer", "10.16.0.1: no answer", "kernel 6.12.1", "kernel 6.18.2"]
    assert folded(others) == others, "addresses and versions are no numbers"


def test_a_very_small_frame_rate_is_not_rounded_to_nothing():
    assert (frame_rate_unit([2.0, 80.0]).text(2.0), pps_text(2.0), pps_text(346_300.0)) == ("2.0 pps", "2.0 pps", "346.3 kpps")
    assert frame_rate_unit([80.0, 4000.0]).text(80.0) == "0.080 kpps", "beside larger ones"
    assert bit_rate_unit([9.4e8]).text(9.4e8) == "940.0 Mb/s"
    assert KPPS.number(14_880_952) == "14\u202f881.0"
    assert MBPS.number(-1e6) == "\u22121.0"
    assert latency_text(23_400) == "23.4 µs"
    assert latency_text(12_345_000) == "12.35 ms"
    assert unit_of("latency_p99_ns").name == "µs"
    assert unit_of("retransmits").name == ""


def test_digits_follow_the_spread() -> None:
    for low, median, high, said in (
        (13.4e9, 13.711e9, 14.0e9, "13.7 (13.4–14.0)"),  # half the spread is 0.3
        (13.56e9, 13.711e9, 13.86e9, "13.71 (13.56–13.86)"),  # 0.15: two digits
        (13.7e9, 13.711e9, 13.72e9, "13.71 (13.70–13.72)"),  # never more digits than the unit has
        (8e9, 13.711e9, 18e9, "14 (8–18)"),
        (13.711e9, 13.711e9, 13.711e9, "13.71 (13.71–13.71)"),
    ):
        figure, unit = Figure(median, low, high, False, 3, 3, (1, 2, 3)), bit_rate_unit([median])
        assert f"{number_text(figure, unit)} ({spread_text(figure, unit)})" == said
    assert number_text(Figure(13_711e3, 13_400e3, 14_000e3, False, 3, 3, (1, 2, 3)), KPPS) == "13\u202f700", "rounded to tens"


def test_what_was_asked_is_said_in_words(golden: Golden) -> None:
    tcp = Iperf3Setting(streams=4, omit_s=5, duration_s=30)
    asked = {"kind": "sweep", "frame_size": 64, "duration_s": 2.5, "warmup_s": 0, "drain_s": 0.5}
    load, half, slow = (LoadSetting.model_validate({**asked, "rate": rate}) for rate in ("max", "50%", "100kpps"))
    goals, brief = goals_named("csit"), ("warmup_s", "drain_s", *SIZES)
    theirs = {"test": "TCP_STREAM", "duration_s": 10, "traffic": "theirs", "a{b}": 1, "steps": None}
    said = [
        asked_words(tcp, "iperf3"), setting_words(tcp.model_copy(update={"omit_s": 0, "streams": 1})), asked_words(load, "engine", without=SIZES),
        setting_words(half, without=alike_names((load, half))), setting_words(slow, without=alike_names((load, slow))),
        setting_words(setting_of("latency", rate_pps=None, traffic=Traffic(burst=8)), without=("idle_pps", "duration_s", "warmup_s", "drain_s")),
        setting_words(setting_of("search", goals=goals), without=brief), setting_words(setting_of("search", preset="csit", goals=goals), without=brief),
        asked_words(setting_of("sweep", generator={"trafgen": {"streams": 2}}), "trafgen", without=(*SIZES, "duration_s", "rate_pps")),
        mix_words("64:7,594:4,1518:1"), mix_words("<b>"), asked_words(ImportedSetting(of="netperf", said=theirs), "netperf"),
        # An imported setting is said as a setting of the workload that it is shown as.
        asked_words(ImportedSetting(of="fio", said={"direct": 1, "iodepth": 16, "rw": "randread", "bs": "4k", "duration_s": 60.0}), "fio"),
    ]  # fmt: skip
    golden.check("settings.txt", "".join(f"{words}\n" for words in said))


def test_each_field_of_each_setting_has_words() -> None:
    models = [*(model_of(kind).setting for kind in settable()), ImportedSetting]
    silent = [(m.__name__, name) for m in models for name in m.model_fields if name != "kind" and name not in m.words_of_fields()]
    assert not silent, "a field needs Words, or ELSEWHERE where another place says it"


@pytest.mark.parametrize(
    ("about", "touched"),
    [
        ("", {("a", "goodput_bps"), ("a", "retransmits"), ("b", "goodput_bps"), ("a+b", "goodput_bps")}),
        ("a", {("a", "goodput_bps"), ("a", "retransmits"), ("a+b", "goodput_bps")}),
        ("retransmits", {("a", "retransmits")}),
        ("something unheard of", {("a", "goodput_bps"), ("a", "retransmits"), ("b", "goodput_bps"), ("a+b", "goodput_bps")}),
    ],
)
def test_a_doubt_touches_what_it_is_about_and_everything_when_that_is_not_known(about: str, touched: set[tuple[str, str]]) -> None:
    made = record(1, cell(links=("a", "b")), [doubt(about)])
    book = book_of([made])
    number = next(n.number for n in book.notes if n.kind == "K")
    places = [(link, name) for link, of in made.figures.items() for name in of]
    assert {place for place in places if number in book.touching((made.trial,), *place)} == touched


def test_flows_that_do_not_balance_are_a_severe_doubt_even_when_the_record_says_nothing() -> None:
    flow = {
        "link": "a", "intended_frames": 10, "sent_frames": 10, "refused_frames": 0, "received_frames": 9, "lost_frames": 0, "duplicated_frames": 0,
        "reordered_frames": 0, "foreign_frames": 0, "sent_seconds": 1.0, "mean_frame_bytes": 64.0, "received_bytes": 576, "balances": False,
    }  # fmt: skip
    book = book_of([record(1, cell(), flows=[flow])])
    assert book.notes[0].kind == "LEDGER_OPEN"
    assert book.notes[0].grade == "severe"
    assert book.severe([1])


def test_severe_doubts_come_first_and_are_never_moved_out_of_the_cells() -> None:
    book = book_of([record(1, cell(), [doubt(grade="note"), doubt(grade="severe")])])
    assert [n.grade for n in book.notes] == ["severe", "note", "note"]  # the last is FEW_REPEATS
    assert book.common([book.of_trial(1), book.of_trial(1)]) == (2, 3)


def test_rows_are_named_by_mode_and_by_every_other_factor_that_varies() -> None:
    cells = [cell(m, mtu=mtu, bios="fast") for m in ("nat", "router") for mtu in ("9000", "1500")]
    labels = labels_of(cells, {"mode": ["router", "nat"], "mtu": ["1500", "9000"], "bios": ["fast"]})
    assert list(labels.values()) == ["router · mtu 1500", "router · mtu 9000", "nat · mtu 1500", "nat · mtu 9000"]
    assert key_of(cell(repeat=1)) == key_of(cell(repeat=2)) and key_of(cell()) != key_of(cell(links=("b",)))


def test_a_plan_that_is_none_yields_no_cells() -> None:
    for plan in ({}, {"trials": None}, {"trials": [1, {}, {"number": 1}, {"number": "x", "cell": {}}, {"number": 2, "cell": {"mode": 3}}]}):
        assert planned_cells(plan) == {}


def test_facts_stand_side_by_side_with_the_few_that_matter_first_and_none_lost_in_silence() -> None:
    host = {
        "sysctls": {"a.b": 1}, "kernel": "6.1", "absent": {"cpu.governor": "no such file"}, "on": True, "none": None, "list": [1, 2],
        "deep": [{"x": 1}],
    }  # fmt: skip
    rows = fact_rows({"dut": host, "sink": {"kernel": "6.2"}})
    assert rows[0].name == "kernel"
    assert rows[0].by_host == {"dut": "6.1", "sink": "6.2"}
    assert [r.name for r in rows if r.key] == ["kernel"]
    assert {r.name: r.by_host["dut"] for r in rows[1:]} == {
        "sysctls.a.b": "1", "absent.cpu.governor": "no such file", "on": "yes", "list": "1, 2", "deep.0.x": "1",
    }  # fmt: skip
    many = fact_rows({"dut": {f"f{n}": n for n in range(1200)}})
    assert many[-1].by_host["dut"].startswith("200 facts")


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"goodput_bps": 3.2e8, "retransmits": 3.0}, "320 Mb/s"),
        ({"connections_lower_per_s": 5000.0, "concurrent_connections": 100_000.0}, "5000 connections/s, 100\u202f000 connections at once"),
        ({"made_pps": 12.5e6}, "12.5 Mpps made"),
        ({"rtt_p50_ns": 1e6}, "measured"),
    ],
)
def test_a_trial_that_ended_is_told_by_its_main_figures(figures: dict[str, float], said: str) -> None:
    ended = TrialEnded(trial=1, what="router", workload="w", status="measured", why="", seconds=1.0, figures={"a": figures}, main="a",
                       backpressure_ratio=None, done=1, trials=1, at=NOW)  # fmt: skip
    assert ended_words(ended, []) == said
