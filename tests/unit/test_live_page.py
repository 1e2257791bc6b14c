"""The page of a run that goes on: a plot of its rates with the trial's bounds, rates by trial and link, and buttons that fit its state."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dutlab.serve.live import Following, RunStage, RunState
from dutlab.serve.live_plot import SHOWN_S, RateLine, TrialStart, rate_plot
from dutlab.serve.pages import Pages
from dutlab.serve.served_runs import FolderRuns
from dutlab.store.index import doubted_trials, opened
from dutlab.store.manifest import MANIFEST, PAUSE
from fake_run import Wanted, build
from golden import Golden

NOW = datetime(2026, 11, 27, 17, 0, tzinfo=UTC)
BEGUN: dict[str, Any] = {
    "event": "trial-begun", "trial": 7, "what": "nat search 64 a+b #1", "mode": "nat", "workload": "search", "tool": "engine",
    "links": ["a", "b"], "repeat": 1, "estimate_s": 30, "done": 6, "trials": 12, "left_s": 60,
}  # fmt: skip


def state_of(*events: dict[str, Any], since_s: float = 60.0) -> RunState:
    """The state after these events, a second apart, the last of them now."""
    state = RunState(Path("run"))
    for n, event in enumerate(events):
        state.hear({"at": (NOW - timedelta(seconds=min(since_s, len(events) - 1 - n))).isoformat(), **event})
    return state


def reading(where: str, who: str = "engine", **values: float) -> dict[str, Any]:
    return {"event": "reading", "trial": 7, "where": where, "who": who, "values": values}


def rates(where: str, n: int) -> dict[str, Any]:
    return reading(where, offered_pps=1e5 + n, received_pps=9e4 + n, lost_pps=1e4)


def test_each_link_has_a_plot_of_its_rates_named_by_trial_and_link(golden: Golden) -> None:
    state = state_of(BEGUN, *(rates(where, n) for n in range(10) for where in ("a", "b.back")))
    first, second = state.plots(NOW)
    golden.check("titles-of-rates.txt", f"{first.title}\n{second.title}\n")
    for word, value in (("offered", "100 kpps"), ("received", "90 kpps"), ("lost", "10 kpps")):
        assert f"{word} {value}" in first.described and f">{word}</text>" in first.inline()
    assert {state.place(r.where) for _, r in state.rates} == {"link a of a+b", "link b of a+b, backward"}
    assert state.place("dut") == "dut"


def test_the_bounds_are_those_of_the_present_trial() -> None:
    bounds = {"intended_pps": 9e4, "ndr/lower_pps": 8e4, "pdr/lower_pps": 8e4, "ndr/upper_pps": 9.5e4}
    state = state_of(BEGUN, rates("a", 1), reading("a+b", "search", **bounds))
    assert state.bounds == {"ndr, pdr lower": 8e4, "ndr upper": 9.5e4}
    (plot,) = state.plots(NOW)
    assert "ndr upper 95 kpps" in plot.described
    state.hear({"at": NOW.isoformat(), **BEGUN, "trial": 8})
    assert state.bounds == {}


def test_bits_and_frames_are_not_in_one_plot_and_a_run_of_another_clock_is_drawn_from_its_last_event() -> None:
    state = state_of(BEGUN, reading("a", offered_pps=1e5), reading("a", "iperf3", wire_bps=1e9), reading("a", offered_pps=1e5))
    assert [re.findall(r">(\w?pps|\w?b/s)</text>", plot.inline())[0] for plot in state.plots(NOW)] == ["kpps", "Gb/s"]
    for clock in (NOW - timedelta(hours=3), NOW + timedelta(hours=3)):
        assert [p.described for p in state.plots(clock)] == [p.described for p in state.plots(NOW)]


def test_values_older_than_the_axis_are_not_drawn() -> None:
    old = RateLine("offered_pps", [(-SHOWN_S - 1, 5e5)])
    assert rate_plot(1, "t", [old], {}, []) is None and rate_plot(1, "t", [], {"ndr lower": 1.0}, []) is None
    drawn = rate_plot(
        1, "t", [RateLine("offered_pps", [(-SHOWN_S - 1, 5e9), (-1.0, 0.0)])], {}, [TrialStart(-5.0, 3), TrialStart(-500.0, 2)]
    )
    assert drawn is not None and "trial 3" in drawn.inline() and "trial 2" not in drawn.inline()


def test_names_of_a_run_are_text_in_the_drawing(tmp_path: Path) -> None:
    hostile = '"><script>alert(1)</script>'
    state = state_of(
        {**BEGUN, "what": hostile, "links": [hostile]},
        reading(hostile, offered_pps=1.0),
        reading("a", "search", **{f"{hostile}/lower_pps": 1.0}),
    )
    assert "<script>" not in Pages(FolderRuns(tmp_path)).live_part(state, NOW, "")


@pytest.mark.parametrize("stage", list(RunStage))
def test_the_buttons_are_those_that_fit_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: RunStage) -> None:
    run = tmp_path / "run"
    run.mkdir()
    monkeypatch.setattr("dutlab.serve.live.is_running", lambda _: stage not in {RunStage.CUT, RunStage.FINISHED})
    if stage is RunStage.PAUSING:
        (run / PAUSE).touch()
    if stage is RunStage.FINISHED:
        (run / MANIFEST).touch()
    pages = Pages(FolderRuns(tmp_path), has_control=True)
    following = Following(run, pages.live_part, lambda _: stage is RunStage.ENDING)
    following.look()
    assert following.state.stage is stage and f'data-stage="{stage.value}"' in following.drawn
    page = pages.live("run", "token", following.drawn, following.state.stage)
    shown = {what for what, hidden in re.findall(r'action="/runs/run/(\w+)" data-stages="[\w ]+"( hidden)?>', page) if not hidden}
    assert shown == {
        RunStage.RUNNING: {"pause", "cancel"}, RunStage.PAUSING: {"cancel"}, RunStage.ENDING: set(), RunStage.CUT: {"resume"}, RunStage.FINISHED: set(),
    }[stage]  # fmt: skip
    assert ("http-equiv" in page) is (stage not in {RunStage.CUT, RunStage.FINISHED})


def test_the_list_has_the_best_and_worst_of_each_run_with_its_doubts(tmp_path: Path) -> None:
    build(tmp_path, Wanted(repeats=1, seconds=1, cores=0))
    page = Pages(FolderRuns(tmp_path)).run_list({})
    assert re.search(r"iperf3 a\+b</span> [\d.]+ Gb/s router .*[\d.]+ Gb/s filter-default</div>", page)
    assert page.index("best and worst") < page.index("worst doubt</th>") < page.index("testbed</th>")


def test_a_testbed_whose_newest_run_was_disturbed_is_not_called_undisturbed(tmp_path: Path) -> None:
    quiet, doubted = (
        build(tmp_path / name, Wanted(repeats=1, seconds=1, cores=0, bad_luck=bad)) for name, bad in (("a", False), ("b", True))
    )
    for run, words in ((quiet, "none of its"), (doubted, "a severe doubt")):
        page = Pages(FolderRuns(run.parent)).testbeds()
        assert words in page
        assert ("nothing that distorts results" in page) is (run is quiet)
        with opened(run.parent) as index:
            counted = doubted_trials(index, run.name)
        assert bool(counted.severe) is (run is doubted) and counted.of > 30
