"""Following a run by its events: whatever happens to the file, to the clock, and with many who look."""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dutlab.events import EVENTS
from dutlab.interop.metrics import RunMetrics
from dutlab.serve.live import FollowedRuns, Following
from dutlab.serve.pages import Pages, together
from dutlab.serve.served_runs import FolderRuns

NOW = datetime(2026, 11, 23, 15, 0, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\033[31m\u202e\"'&{{7*7}}"


def event(_kind: str, /, **fields: object) -> str:
    return json.dumps({"event": _kind, "at": NOW.isoformat(), **fields}) + "\n"


BEGUN = event("run-begun", folder="r", experiment="e", cells=1, trials=2, done=0, estimate_s=60, seed=1)
TRIAL = event("trial-begun", trial=1, what="nat sweep 64 a #1", mode="nat", workload="sweep", tool="engine", links=["a"], repeat=1,
              estimate_s=30, done=0, trials=2, left_s=60)  # fmt: skip
READING = event("reading", trial=1, where="a", who="engine", values={"offered_pps": 5e5, "received_pps": 4e5})
ENDED = event("trial-ended", trial=1, what="nat sweep 64 a #1", workload="sweep", status="measured", why="", seconds=30.0,
              figures={"a": {"max_received_pps": 4e5}}, main="a", backpressure_ratio=None, done=1, trials=2)  # fmt: skip
OVER = event("run-ended", status="finished", measured=2, failed=0, refused=0, disturbed=0)


def follow(run: Path) -> Following:
    run.mkdir(exist_ok=True)
    return Following(run, lambda s, now, fault: Pages(FolderRuns(run.parent)).live_part(s, now, fault))


def words(of: Following) -> str:
    of.look()
    return html.unescape(re.sub(r"<[^>]+>|\s+", " ", of.drawn))


def test_a_run_is_followed_line_by_line_whatever_happens_to_its_file(tmp_path: Path) -> None:
    of, events = follow(tmp_path / "run"), tmp_path / "run" / EVENTS
    assert "cannot be read" in words(of)
    events.write_text(BEGUN + TRIAL + READING[:40])
    said = words(of)
    assert "nat sweep 64 a #1" in said and "0 of 2 trials" in said and "offered" not in said, "a half-written line waits"
    with events.open("a") as f:
        f.write(READING[40:] + "no JSON\n[]\n" + event("of-a-newer-dutlab") + event("reading", values=3))
    said = words(of)
    assert "offered" in said and "500.0 kpps" in said
    with events.open("a") as f:
        f.write(ENDED + event("doubt", trial=1, kind="X", grade="severe", text="t") + event("note", text=HOSTILE))
    assert "1/2" in words(of) and "400 kpps" in words(of) and "1 severe" in words(of)
    assert "<script>" not in of.drawn
    events.write_text(BEGUN)
    assert "0 of 2 trials" in words(of) and "400 kpps" not in words(of), "another file in its place"
    events.unlink()
    assert "cannot be read" in words(of)
    events.write_text(BEGUN + TRIAL + ENDED + OVER)
    assert "Finished" in words(of) and of.is_over


def test_a_clock_that_jumps_gives_no_times_that_cannot_be(tmp_path: Path) -> None:
    of = follow(tmp_path / "run")
    (tmp_path / "run" / EVENTS).write_text(BEGUN + TRIAL)
    of.look()
    assert of.state.time_words(NOW - timedelta(hours=1)) == "0 s, 1 min 00 s left"
    assert of.state.time_words(NOW + timedelta(seconds=90)).startswith("1 min 30 s, ")
    assert of.state.silent_words(NOW - timedelta(hours=1)) == ""
    assert "1 h" in of.state.silent_words(NOW + timedelta(hours=1))


async def test_many_look_at_one_run_which_is_read_once_and_no_more_when_they_have_gone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / EVENTS).write_text(BEGUN + TRIAL)
    drawn: list[int] = []
    lives = FollowedRuns(lambda s, _now, _fault: (drawn.append(1), f"{s.trial} {len(drawn)}")[1], most=3)
    looking = [lives.parts(run) for _ in range(3)]
    assert len({await anext(parts) for parts in looking}) == 1 and len(drawn) == 1
    assert lives.is_full
    for parts in looking:
        await parts.aclose()
    assert lives.listeners == 0 and not lives.is_full
    (run / EVENTS).write_text(BEGUN + TRIAL + ENDED + OVER)
    assert [part async for part in lives.parts(run)][-1].startswith(" ")
    assert lives.listeners == 0


async def test_metrics_of_several_runs_have_each_family_once(built: Callable[..., Path], tmp_path: Path) -> None:
    for name in ("a-run", "b-run"):
        (tmp_path / name).mkdir()
        shutil.copy(built(seconds=1, cores=0) / "plan.json", tmp_path / name / "plan.json")
        (tmp_path / name / EVENTS).write_text(BEGUN + TRIAL + READING)
    text = together([RunMetrics(tmp_path / "a-run"), RunMetrics(tmp_path / "b-run"), RunMetrics(tmp_path / "absent")], openmetrics=True)
    heads = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads)) and text.endswith("# EOF\n")
    assert text.count('dutlab_reading{run="a-run"') == 2 and text.count('dutlab_reading{run="b-run"') == 2
