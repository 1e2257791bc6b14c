"""Levels over runs: a step is found where it is, noise is none, and too few runs prove nothing."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from cells import cell_of
from dutlab.analysis.history import Cause, HistoryPoint, SpreadOf, history
from dutlab.analysis.verdict import CheckKind
from dutlab.cli.gate_runs import GateRuns
from dutlab.cli.history import history as command
from dutlab.errors import InputError
from dutlab.interop.imported_run import Imported, write_imported
from dutlab.methods.ports import Measured
from dutlab.report.questions.histories import CellHistory, histories, history_plot
from dutlab.store.find import older_like
from dutlab.store.index import IndexedFigure, Wanted, figures_of, list_runs, opened


def points(medians: list[float]) -> list[HistoryPoint]:
    return [HistoryPoint(f"run-{n:02d}", (m * 0.999, m, m * 1.001)) for n, m in enumerate(medians)]


def noisy(level: float, runs: int, seed: int) -> list[float]:
    dice = random.Random(seed)
    return [level * dice.gauss(1, 0.01) for _ in range(runs)]


def test_a_step_is_found_between_the_runs_where_it_happened_and_two_steps_are_two_changes() -> None:
    for seed in range(3):
        (change,) = history(points([*noisy(1e6, 8, seed), *noisy(0.9e6, 7, seed + 100)])).changes
        assert (change.before, change.after) == ("run-07", "run-08")
        assert change.p < 0.01 and change.ratio == pytest.approx(0.9, rel=0.01)
    found = history(points([*noisy(100, 8, 1), *noisy(130, 8, 2), *noisy(90, 8, 3)]))
    assert [(c.before, c.after) for c in found.changes] == [("run-07", "run-08"), ("run-15", "run-16")]
    assert [level.last for level in found.levels] == [7, 15, 23]


def test_noise_rarely_looks_like_a_change() -> None:
    assert sum(bool(history(points(noisy(100, 20, seed))).changes) for seed in range(200)) <= 10


def year(seed: int, correlation: float, runs: int = 365) -> list[float]:
    """Nights of one box: each resembles the one before it; standard deviation 1 %."""
    dice = random.Random(seed)
    out = [dice.gauss(0, 1)]
    for _ in range(runs - 1):
        out.append(correlation * out[-1] + math.sqrt(1 - correlation**2) * dice.gauss(0, 1))
    return [100 + v for v in out]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_a_year_of_nights_that_resemble_one_another_has_less_than_one_false_change(correlation: float) -> None:
    found = [history(points(year(seed, correlation))) for seed in range(20)]
    assert sum(len(h.changes) for h in found) / 20 <= 1, "19.8 a year, when nights were taken for independent"
    assert sum(h.autocorrelation for h in found) / 20 == pytest.approx(correlation, abs=0.12)


@pytest.mark.parametrize("runs", [30, 60, 120])
def test_weeks_of_nights_that_resemble_one_another_seldom_have_a_change(runs: int) -> None:
    said = sum(bool(history(points(year(seed, 0.8, runs))).changes) for seed in range(100))
    assert said <= 8, "of 100; 12 to 17 had one when the first estimate of the autocorrelation was all"


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_three_percent_less_are_found_within_five_nights(correlation: float) -> None:
    found = 0
    for seed in range(20):
        nights = year(seed, correlation, 65)
        changes = history(points([v * (0.97 if n >= 60 else 1.0) for n, v in enumerate(nights)])).changes
        found += any(c.after == "run-60" for c in changes)
    assert found >= 14


def test_a_few_runs_prove_no_step() -> None:
    assert history(points([100, 100.1, 100.05, 120, 120.1, 120.2])).changes != ()
    assert history(points([100, 103, 98, 105, 101, 104])).changes == ()
    for values in ([], [1.0], [5.0, 5.0, 9.0]):
        few = history(points(values))
        assert few.changes == () and "takes at least 6" in few.why


def test_one_run_apart_is_no_level_but_is_told() -> None:
    newest = history(points([100, 101, 100.5, 99.8, 100.2, 80]))
    assert (newest.apart, newest.changes) == (("run-05",), ())
    middle = history(points([100, 101, 100.5, 80, 100.2, 99.9, 100.4, 99.7, 100.1, 100.3]))
    assert (middle.apart, middle.changes) == (("run-03",), ())
    assert history(points([100, 101, 100.5, 99.8, 100.2, 100.9])).apart == ()


def test_constant_and_unusable_values() -> None:
    assert history(points([7.0] * 9)).changes == ()
    assert history([HistoryPoint(str(n), (0.0,)) for n in range(6)]).changes == ()
    odd = history([HistoryPoint("a", (math.nan, math.inf)), *points([1, 1, 1, 1])])
    assert len(odd.points) == 4
    (change,) = history([HistoryPoint(str(n), (0.0 if n < 5 else 3.0,)) for n in range(10)]).changes
    assert change.ratio is None and change.after == "5"


def lost(seed: int, runs: int = 90) -> list[float]:
    dice = random.Random(seed)
    return [100 * dice.gauss(1, 0.01) * (0.8 if dice.random() < 0.1 else 1.0) for _ in range(runs)]


def uneven(seed: int) -> list[float]:
    dice = random.Random(seed)
    return [100 * dice.gauss(1, 0.01 * (math.sqrt(7) if n >= 45 else 1)) for n in range(90)]


def bent(seed: int) -> list[float]:
    dice = random.Random(seed)
    return [100 * dice.gauss(1, 0.01) * 0.9 ** (1 - math.exp(-n / 30)) for n in range(90)]


def curved(curve: Callable[[float], float]) -> Callable[[int], list[float]]:
    """Nights of 1 % around a curve, of which the argument goes from 0 to 1."""
    return lambda seed: [v * curve(n / 90) for n, v in enumerate(noisy(100, 90, seed))]


@pytest.mark.parametrize(
    "nights",
    [
        lost, uneven, lambda seed: year(seed, 0.95, 90), bent, curved(lambda t: 0.8 ** (t**3)),
        curved(lambda t: 1 + 0.02 * math.sin(3 * math.pi * t)),
    ],
    ids=["lost nights", "uneven spread", "0.95", "a bend", "a drift that speeds up", "a season"],
)  # fmt: skip
def test_what_nights_do_by_themselves_is_no_step(nights: Callable[[int], list[float]]) -> None:
    assert sum(bool(history(points(nights(seed))).changes) for seed in range(40)) <= 4


def test_a_drift_is_called_one_and_a_step_beside_it_is_found() -> None:
    drifting = [v * (1 - 0.001 * n) for n, v in enumerate(noisy(100, 90, 5))]
    found = history(points(drifting))
    assert found.changes == () and found.drift is not None
    assert found.drift.ratio == pytest.approx(0.911, abs=0.01) and found.drift.p < 0.001
    both = history(points([v * (0.9 if n >= 50 else 1) for n, v in enumerate(drifting)]))
    assert [c.after for c in both.changes] == ["run-50"] and both.drift is not None
    assert both.changes[0].ratio == pytest.approx(0.9, abs=0.01), "of the step, without the drift"
    assert history(points(noisy(100, 90, 5))).drift is None


def test_two_very_slow_nights_are_a_step_where_none_was_before_and_none_where_some_were() -> None:
    assert [c.after for c in history(points([*noisy(100, 40, 3), 80, 80.5])).changes] == ["run-40"]
    often = [v * (0.8 if n in {4, 11, 12, 23, 31} else 1) for n, v in enumerate(noisy(100, 40, 3))]
    assert history(points([*often, 80, 80.5])).changes == ()


def test_a_change_of_the_spread_is_a_finding_and_no_level() -> None:
    found = [history(points(uneven(seed))).spreads for seed in range(10)]
    said = [s for of in found for s in of if s.of is SpreadOf.RUNS]
    assert len(said) >= 6 and all(s.ratio > 1.5 and 25 < int(s.after[4:]) < 65 for s in said)
    dice = random.Random(1)
    wider = [HistoryPoint(f"run-{n:02d}", tuple(dice.gauss(100, 1 if n < 20 else 4) for _ in range(6))) for n in range(40)]
    (of_repeats,) = (s for s in history(wider).spreads if s.of is SpreadOf.REPEATS)
    assert 17 <= int(of_repeats.after[4:]) <= 23 and of_repeats.ratio == pytest.approx(4, rel=0.3)
    assert sum(bool(history(points(noisy(100, 60, seed))).spreads) for seed in range(40)) <= 6


def test_a_change_of_the_rig_is_not_called_one_of_the_device() -> None:
    nights = [*noisy(100, 20, 1), *noisy(90, 20, 2)]

    def cause(rigs: Callable[[int], float | None]) -> Cause:
        (change,) = history([HistoryPoint(str(n), (v,), rigs(n)) for n, v in enumerate(nights)]).changes
        return change.cause

    assert cause(lambda n: 300.0) is Cause.DEVICE
    assert cause(lambda n: 300.0 if n < 20 else 270.0) is Cause.RIG
    assert cause(lambda n: 300.0 if n < 20 else 330.0) is Cause.DEVICE, "the other way round"
    assert cause(lambda n: 300.0 if n < 20 else None) is Cause.UNKNOWN
    assert cause(noisy(300, 40, 6).__getitem__) is Cause.DEVICE
    assert cause([300 + 20 * (v - 300) for v in noisy(300, 40, 6)].__getitem__) is Cause.UNKNOWN, (
        "it varies by more than the device changed"
    )
    assert cause(lambda n: 330.0 - n) is Cause.DEVICE, "it drifts, and hardly from one week to the next"
    rigs = [*noisy(300, 20, 3), *noisy(250, 20, 4)]
    (alone,) = history([HistoryPoint(str(n), (v,), rigs[n]) for n, v in enumerate(noisy(100, 40, 5))]).rig
    assert alone.after == "20" and alone.ratio == pytest.approx(250 / 300, rel=0.02)
    of_runs = [
        replace(f, run=f"run-{n:02d}", figure=name, value=value)
        for n, v in enumerate(nights)
        for f in rows([v])
        for name, value in (("received_pps", v), ("headroom_ratio", (300 if n < 20 else 270) / v))
    ]
    (of_cell,) = histories(of_runs)
    assert {p.rig for p in of_cell.history.points} == {300.0, 270.0} and of_cell.history.changes[0].cause is Cause.RIG


@pytest.mark.parametrize("nights", [lambda seed: noisy(100, 61, seed), lambda seed: year(seed, 0.8, 61)], ids=["apart", "0.8"])
def test_the_next_run_lies_where_it_was_said_to(nights: Callable[[int], list[float]]) -> None:
    held = 0
    for seed in range(60):
        *before, then = nights(seed)
        inside = history(points(before)).next_run
        held += inside is not None and inside.low <= then <= inside.high
    assert 51 <= held <= 60
    assert history(points(noisy(100, 19, 1))).next_run is None
    moved = history(points([*noisy(100, 40, 1), *noisy(120, 6, 2)])).next_run
    assert moved is not None and 112 < moved.low < moved.high < 128, "from the newest level on"


@given(st.lists(st.floats(-1e12, 1e12), max_size=30), st.floats(1e-6, 1e6))
def test_levels_part_the_runs_and_do_not_depend_on_the_unit(values: list[float], factor: float) -> None:
    found, scaled = (history([HistoryPoint(str(n), (v * by,)) for n, v in enumerate(values)]) for by in (1.0, 1024.0))
    assert [n for level in found.levels for n in range(level.first, level.last + 1)] == list(range(len(found.points)))
    assert len(found.changes) == max(len(found.levels) - 1, 0)
    assert [level.last for level in found.levels] == [level.last for level in scaled.levels]
    assert factor  # any unit: by a power of two, which floats represent exactly


def rows(medians: list[float], figure: str = "received_pps") -> list[IndexedFigure]:
    return [IndexedFigure(f"run-{n:02d}", "nat", {"mode": "nat"}, "sweep", "a", "a", "64", figure, m) for n, m in enumerate(medians)]


def test_words_say_which_way_is_better() -> None:
    (slower,) = histories(rows([*noisy(1e6, 8, 1), *noisy(0.8e6, 8, 2)]))
    (higher,) = histories(rows([*noisy(1e6, 8, 1), *noisy(1.3e6, 8, 2)], "latency_p99_ns"), ["latency_p99_ns"])
    assert "for the worse" in slower.sentences[0] and "run-07" in slower.sentences[0] and "run-08" in slower.sentences[0]
    assert "for the worse" in higher.sentences[0]
    plot = history_plot(slower, 1)
    assert plot is not None and slower.label in plot.svg().decode()
    assert all(run in plot.svg().decode() for run in ("run-00", "run-15"))
    with pytest.raises(InputError, match="received_pps"):
        histories(rows([1.0]), ["speed"])
    assert isinstance(slower, CellHistory) and slower.label == "nat · sweep 64 · link a"


@pytest.mark.parametrize(("runs", "ticks"), [(1, ["1"]), (3, ["1", "2", "3"]), (25, ["1", "4", "7", "10", "13", "16", "19", "22", "25"])])
def test_the_axis_of_runs_has_whole_numbers_only(runs: int, ticks: list[str]) -> None:
    (of,) = histories(rows([1e6] * runs))
    drawn = re.findall(r"<text[^>]*>([\d.]+)</text>", history_plot(of, 1).svg().decode().partition('class="told"')[0])  # type: ignore[union-attr]
    assert [word for word in drawn if word in ticks] == ticks and not any("." in word for word in drawn), drawn


@pytest.mark.parametrize(
    ("starts", "ticks", "title"),
    [
        (["2026-11-20T08:01:00", "2026-11-20T20:01:00", "2026-11-21T08:01:00"], ["20 Nov", "21 Nov"], "run, oldest first, 2026"),
        (["2026-11-20T08:01:00", "2026-11-20T20:01:00"], ["08:01", "20:01"], "run, oldest first, 2026-11-20"),
        (["2025-12-31T08:01:00", "2026-01-01T08:01:00"], ["2025-12-31", "2026-01-01"], "run, oldest first"),
    ],
)
def test_the_axis_of_runs_has_their_dates(starts: list[str], ticks: list[str], title: str) -> None:
    found = [replace(row, started=start) for row, start in zip(rows([1e6] * len(starts)), starts, strict=True)]
    (of,) = histories(found)
    drawn = re.findall(r"<text[^>]*>([^<]+)</text>", history_plot(of, 1).svg().decode().partition('class="told"')[0])  # type: ignore[union-attr]
    assert [word for word in drawn if word in ticks] == ticks and title in drawn, drawn


def test_the_command_reads_runs_of_an_experiment(built: Callable[..., Path], tmp_path: Path) -> None:
    for n in range(4):
        shutil.copytree(
            built(repeats=1, sizes=(64,), seconds=2, cores=0, bad_luck=False), tmp_path / f"2026-11-0{n + 1}T0801Z-firewall-modes-000{n}"
        )
    with opened(tmp_path) as index:
        assert {f.run for f in figures_of(index, "firewall-modes")} == {p.name for p in tmp_path.glob("2026*")}
        assert {f.started[:10] for f in figures_of(index, "firewall-modes")} == {"2026-11-21"}
    said = CliRunner().invoke(command, ["firewall-modes", "--runs", str(tmp_path), "--json", "--plot", str(tmp_path / "p")])
    assert said.exit_code == 0, said.output
    found = json.loads(said.output)["histories"]
    assert found and all(len(h["points"]) == 4 and not h["changes"] for h in found)
    assert len(list((tmp_path / "p").glob("history-*.svg"))) == len(found)
    lost = CliRunner().invoke(command, ["nothing", "--runs", str(tmp_path)])
    assert isinstance(lost.exception, InputError) and "firewall-modes" in str(lost.exception.remedy)


def test_runs_of_one_minute_are_in_the_order_in_which_they_were_started(tmp_path: Path) -> None:
    at = datetime(2026, 11, 20, 8, 1, tzinfo=UTC)
    made = []
    for n in range(7):
        trials = [Imported(cell_of("iperf3", mode="nat"), Measured({"a": {"goodput_bps": 1e9 + n}}))]
        made.append(write_imported(tmp_path, "night", trials, command=(), now=at + timedelta(milliseconds=7 * n)).path)
    with opened(tmp_path) as index:
        assert [f.value for f in figures_of(index, "night")] == [1e9 + n for n in range(7)]
        assert [line.name for line in list_runs(index, Wanted())] == [path.name for path in made[::-1]]
    assert older_like(tmp_path, made[5], 3) == made[2:5]
    later = write_imported(tmp_path, "night", trials, command=(), now=at + timedelta(minutes=1)).path
    assert older_like(tmp_path, later, 10) == made


@pytest.mark.parametrize("second", CheckKind)
def test_an_alarm_of_the_newest_night_is_measured_again(second: CheckKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = datetime(2026, 11, 1, 8, 1, tzinfo=UTC)
    asked: list[dict[tuple[str, str], float]] = []

    def again(of: GateRuns, paths: list[Path], least: dict[tuple[str, str], float]) -> dict[tuple[str, str], CheckKind]:
        assert [path.parent for path in paths] == [tmp_path / "runs"] * 2 and of.runs == tmp_path / "runs-confirmed"
        asked.append(least)
        return dict.fromkeys(least, second)

    monkeypatch.setattr(GateRuns, "again", again)
    monkeypatch.setattr("dutlab.runner.recovery.builds_lab", lambda _: False)
    monkeypatch.setattr("dutlab.tools.engine.binary.find_engine", Path)
    words = ["night", "--runs", str(tmp_path / "runs"), "--confirm", "1min", "--json"]
    for day, rate in enumerate([*noisy(1e9, 20, 1), 0.9e9]):
        trial = Imported(cell_of("iperf3", mode="nat"), Measured({"a": {"goodput_bps": rate}}))
        newest = write_imported(tmp_path / "runs", "night", [trial], command=(), now=at + timedelta(days=day)).path
        if day == 19:
            assert CliRunner().invoke(command, words).exit_code == 0 and not asked
    said = CliRunner().invoke(command, words)
    (alarm,) = json.loads(said.output)["confirmed"]
    assert said.exit_code == second.exit_status, said.output
    assert (alarm["newest"], alarm["kind"], alarm["worse"]) == (newest.name, second.name, pytest.approx(0.1, abs=0.02))
    assert asked == [{(alarm["cell"], alarm["figure"]): alarm["worse"] / 3}]
