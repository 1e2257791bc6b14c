"""Events of a run: whole lines, in the order of what happened, for whoever looks on and in the run's folder; never at the run's expense."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest

from dutlab.cli import console
from dutlab.cli.console import Console
from dutlab.cli.progress_line import LiveTrial, bar
from dutlab.dut.mode import Check
from dutlab.errors import HostError
from dutlab.events import EVENTS, Event, EventTail, Note, Reading, TrialBegun, events_in, events_schema
from dutlab.outside import UnfitFile
from dutlab.plan.plan import Plan, Trial
from dutlab.runner.event_log import EventLog
from dutlab.store.run_folder import RunFolder
from dutlab.tools.engine.loss_watch import ArrivedSoFar, LossWatch, SentSoFar
from dutlab.tools.engine.watch import DirectionWatch
from dutlab.units import Seconds
from fake_run import Wanted, build
from golden import Golden

CONTRACT = Path(__file__).parents[2] / "contracts" / "events.schema.json"
NOW = datetime(2026, 11, 22, 8, 0, tzinfo=UTC)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.open(build(tmp_path, Wanted(repeats=1, sizes=(64,), seconds=2, cores=0)))


def plan_of(run: RunFolder) -> Plan:
    trials = tuple(Trial(number=r.trial, cell=r.cell, group=1, estimate_s=10.0, ceilings={}) for r in run.records())
    return Plan(experiment="e", testbed="t", order="as-written", seed=1, estimate_s=170.0, trials=trials)


def log_of(run: RunFolder, path: Path | None, heard: list[Event]) -> EventLog:
    return EventLog(path, heard.append, plan_of(run))


def everything(log: EventLog, run: RunFolder) -> None:
    plan, records = plan_of(run), {r.trial: r for r in run.records()}
    log.preparing("examining the hosts")
    log.begun(run.path, set())
    log.note("a word\nin two lines")
    log.applying("router", 3)
    log.verified("router", [Check("a frame passes", True, "1 of 1")], holds=True)
    for trial in plan.trials:
        log.trial(trial)
        log.reading("dut", "cpu", {"cpu0_busy_percent": 12.5, "gone": float("nan")})
        if trial.number in records:
            log.ended(records[trial.number])
    log.set_aside(1, 1, "disturbed", "other work")
    log.cut(HostError("it is gone", host="dut"), "go on")


def test_every_kind_of_event_keeps_to_the_contract_and_reads_back_as_it_was(run: RunFolder, tmp_path: Path) -> None:
    heard = list[Event]()
    everything(log_of(run, tmp_path / EVENTS, heard), run)
    check = jsonschema.Draft202012Validator(json.loads(CONTRACT.read_text()))
    lines = (tmp_path / EVENTS).read_text().splitlines()
    for line in lines:
        check.validate(json.loads(line))
    assert list(events_in(tmp_path / EVENTS)) == heard
    kinds = {e.event for e in heard}
    assert kinds == {m["properties"]["event"]["const"] for m in events_schema()["$defs"].values() if "event" in m["properties"]}
    assert [e.event for e in heard][-3:] == ["set-aside", "host-lost", "run-ended"]
    with pytest.raises(jsonschema.ValidationError):
        check.validate(json.loads(lines[0]) | {"trials": "many"})


def test_the_contract_in_the_repository_is_the_models_own() -> None:
    assert json.loads(CONTRACT.read_text()) == events_schema(), "write it anew: make docs"


def test_what_is_left_shrinks_with_each_trial_that_has_its_record(run: RunFolder) -> None:
    heard = list[Event]()
    everything(log_of(run, None, heard), run)
    begun = [e for e in heard if isinstance(e, TrialBegun)]
    assert [e.done for e in begun] == sorted(e.done for e in begun)
    assert begun[0].left_s == pytest.approx(sum(t.estimate_s for t in plan_of(run).trials), abs=0.1)
    assert begun[-1].left_s < begun[0].left_s


def test_a_cut_line_is_passed_over_and_the_next_process_writes_behind_it(run: RunFolder, tmp_path: Path) -> None:
    first = log_of(run, tmp_path / EVENTS, [])
    first.note("one")
    first.note("two")
    first.close("cut", {})
    whole = (tmp_path / EVENTS).read_bytes()
    (tmp_path / EVENTS).write_bytes(whole[:-9])
    second = log_of(run, tmp_path / EVENTS, [])
    second.note("three")
    second.note("four")
    assert [e.text for e in events_in(tmp_path / EVENTS) if isinstance(e, Note)] == ["one", "three", "four"]


def test_what_is_no_event_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / EVENTS).write_bytes(
        b'\xff\xfe\n[]\n{"event": "newer"}\n' + b"[" * 100_000 + b'\n{"at": "2026-11-22T08:00:00Z", "event": "note", "text": "it"}\n'
    )
    assert [e.event for e in events_in(tmp_path / EVENTS)] == ["note"]


def test_a_full_disk_costs_the_file_and_not_the_run(run: RunFolder, tmp_path: Path) -> None:
    heard = list[Event]()
    log = log_of(run, tmp_path / EVENTS, heard)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        log.note("one")
        log.note("two")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    first, *others = (e.text for e in heard if isinstance(e, Note))
    assert "File too large" in first and others == ["one", "two"]


def test_a_link_in_the_place_of_the_file_is_not_written_through(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / EVENTS).symlink_to(tmp_path / "victim")
    log_of(run, tmp_path / EVENTS, []).note("one")
    assert (tmp_path / "victim").read_text() == "mine"


def test_what_another_user_put_in_the_place_of_the_file_is_not_read(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text('{"event": "note", "text": "secret", "at": "2026-11-21T08:00:00Z"}\n')
    for name, put in {"link": lambda path: path.symlink_to(theirs), "pipe": os.mkfifo}.items():
        (run := tmp_path / name).mkdir()
        put(run / EVENTS)
        with pytest.raises(UnfitFile):
            list(events_in(run / EVENTS))
        with pytest.raises(UnfitFile):
            EventTail(run).new()


def test_each_event_is_in_the_file_when_it_is_heard(run: RunFolder, tmp_path: Path) -> None:
    seen = list[int]()
    log = EventLog(tmp_path / EVENTS, lambda _: seen.append(len(list(events_in(tmp_path / EVENTS)))), plan_of(run))
    for _ in range(3):
        log.note("word")
    assert seen == [1, 2, 3]


def test_the_engines_rates_are_told_once_a_second_and_are_those_of_the_last() -> None:
    told = list[tuple[str, dict[str, float]]]()
    watch = DirectionWatch("a", LossWatch(Seconds(0.1)), tell=lambda flow, rates: told.append((flow, dict(rates))))
    second = 1_000_000_000
    for tick in range(11):  # five looks a second
        at_ns = tick * second // 5
        sent, arrived = 200 * tick + (tick**2), 200 * tick
        at_s = at_ns / second
        watch.see(
            SentSoFar(at_s, at_s, at_ns, sent=sent, numbered=sent, backpressure=0),
            ArrivedSoFar(at_s, at_s, at_ns, unique=arrived, reordered=0, next_sequence=arrived),
        )
    assert [flow for flow, _ in told] == ["a", "a"]
    assert [rates["received_pps"] for _, rates in told] == [1000.0, 1000.0]
    assert [rates["offered_pps"] for _, rates in told] == [1025.0, 1075.0]


def begun(**other: object) -> TrialBegun:
    facts = {
        "at": NOW, "trial": 3, "what": "nat search 64 a #1", "mode": "nat", "workload": "search", "tool": "engine", "links": ("a",),
        "repeat": 1, "estimate_s": 40.0, "done": 2, "trials": 12, "left_s": 300.0,
    }  # fmt: skip
    return TrialBegun.model_validate({**facts, **other})


def reading(where: str, who: str, **values: float) -> Reading:
    return Reading(at=NOW, trial=3, where=where, who=who, values=values)


def test_the_line_of_a_trial_has_its_place_its_time_its_rates_and_its_bounds(golden: Golden) -> None:
    live = LiveTrial(begun(), 100.0)
    first = live.words(107.4, 200)
    assert bar((2 + 7.4 / 40) / 12) in first
    live.hear(reading("dut", "cpu", cpu0_busy_percent=99.0))
    live.hear(reading("a>", "dutlab-engine", offered_pps=1e6, received_pps=9e5))
    live.hear(reading("a<", "dutlab-engine", offered_pps=1e6, received_pps=1e6))
    live.hear(reading("a", "search", **{"intended_pps": 2e6, "ndr/upper_pps": 1.9e6, "ndr/lower_pps": 1.5e6, "pdr/lower_pps": 1.8e6}))
    golden.check("line-of-a-trial.txt", f"{first}\n{live.words(250.0, 200)}\n{live.words(9999.0, 200)}\n")


def test_on_a_narrow_terminal_what_is_known_of_a_trial_takes_turns_and_nothing_is_cut() -> None:
    live = LiveTrial(begun(), 100.0)
    live.hear(
        reading("a", "search", **{"ndr/upper_pps": 4.75e5, "ndr/lower_pps": 4.66e5, "pdr/upper_pps": 4.75e5, "pdr/lower_pps": 4.66e5})
    )
    live.hear(reading("a>", "dutlab-engine", offered_pps=4.7e5, received_pps=4.7e5))
    seen = [live.words(101.0 + second, 79) for second in range(3)]
    assert all(len(line) <= 79 for line in seen), seen
    assert " ".join(seen).count("466 to 475 kpps") == 1, "goals with equal bounds are shown once"
    assert " ".join(seen).count("470 kpps") == 2, "offered and received"


def test_the_rates_of_iperf3_and_fio_are_in_the_line() -> None:
    live = LiveTrial(begun(), 100.0)
    live.hear(reading("a", "iperf3", wire_bps=4e9))
    live.hear(reading("b", "iperf3", wire_bps=4.2e9))
    assert live.words(101.0, 200).endswith(", arriving 8.2 Gb/s")
    live = LiveTrial(begun(), 100.0)
    live.hear(reading("server", "fio", **{"iops.read": 2e3, "iops.write": 500.0}))
    assert live.words(101.0, 200).endswith(", read 2 kIOPS, written 500 IOPS")


class Terminal:
    """Standard error that says it is a terminal."""

    def __init__(self) -> None:
        self.said = ""

    def write(self, text: str) -> int:
        self.said += text
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called in the test, since pytest sets standard error anew before it."""
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(console, "_TICK_S", 0.02)
    return shown


@pytest.mark.timing
async def test_the_line_on_a_terminal_moves_by_itself_until_the_run_ends(monkeypatch: pytest.MonkeyPatch, run: RunFolder) -> None:
    terminal = at_a_terminal(monkeypatch)
    log = EventLog(None, Console().hear, plan_of(run))
    for begin, words in (
        (lambda: log.preparing("examining the hosts"), "examining the hosts, 0 s"),
        (lambda: log.applying("nat", 3), "mode nat: applying and verifying it, then 3 trials, 0 s"),
        (lambda: log.trial(plan_of(run).trials[0]), "[1/"),
        (lambda: log.ended(next(iter(run.records()))), "before the next trial, 0 s"),
    ):
        terminal.said = ""
        begin()
        async with asyncio.timeout(60):
            while terminal.said.count(words) < 3:
                await asyncio.sleep(0.01)
    log.close("finished", {})
    before = terminal.said
    await asyncio.sleep(0.1)
    assert terminal.said == before


def test_a_line_moves_while_a_report_is_written_and_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = at_a_terminal(monkeypatch)
    with console.shown_meanwhile("writing the report"):
        until = time.monotonic() + 60
        while terminal.said.count("writing the report, 0 s") < 3 and time.monotonic() < until:
            time.sleep(0.01)
    assert terminal.said.count("writing the report, ") >= 3, terminal.said
    assert terminal.said.endswith("\r\033[K")


def test_hours_are_said_as_hours_and_cells_are_not_trials(capsys: pytest.CaptureFixture[str], run: RunFolder) -> None:
    plan = plan_of(run).model_copy(update={"estimate_s": 151_680.0})
    EventLog(None, Console().hear, plan).begun(run.path, set())
    assert f"{plan.cells} cells, {len(plan.trials)} trials, about 42 h 08 min" in capsys.readouterr().err


async def test_what_is_no_terminal_gets_plain_lines_only(capsys: pytest.CaptureFixture[str], run: RunFolder) -> None:
    log = EventLog(None, Console().hear, plan_of(run))
    everything(log, run)
    said = capsys.readouterr().err
    assert "\r" not in said
    assert "\x1b" not in said
    measured = [line for line in said.splitlines() if line.startswith("[")]
    assert len(measured) == len(list(run.records()))
    assert said.splitlines()[-1] == "note: go on" and "trial 1 repeated" in said.splitlines()[-2]
