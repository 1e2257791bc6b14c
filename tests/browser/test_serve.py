"""`dutlab serve` in a real browser: every page at three widths in both schemes, and a run that is watched while it goes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.chromium import Chromium
from browser.looks import CONTRASTS, faults_of_access
from fake_run import Wanted, build
from processes import eventually

AT = "2026-11-23T15:00:00Z"
BEGUN = [
    {"event": "run-begun", "folder": "r", "experiment": "e", "cells": 2, "trials": 2, "done": 0, "estimate_s": 60, "seed": 1},
    {"event": "trial-begun", "trial": 1, "what": "nat sweep 64 a #1", "mode": "nat", "workload": "sweep", "tool": "engine", "links": ["a"],
     "repeat": 1, "estimate_s": 30, "done": 0, "trials": 2, "left_s": 60},
    *({"event": "reading", "trial": 1, "where": "a", "who": "engine", "values": {"offered_pps": n * 1e4, "received_pps": n * 9e3}}
      for n in range(60)),
    {"event": "reading", "trial": 1, "where": "dut", "who": "cpu", "values": {f"cpu{n}_busy_percent": n for n in range(16)}},
]  # fmt: skip
NOW = "document.getElementById('now').innerText"


def tell(run: Path, *events: object) -> None:
    with (run / "events.jsonl").open("a") as f:
        f.writelines(json.dumps({"at": AT, **event}) + "\n" for event in events)  # type: ignore[dict-item]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    build(folder, Wanted(seconds=2, lab=True))
    build(folder, Wanted(repeats=2, seconds=1, cores=0, experiment="cut", cut_after=20))
    (folder / "live-run").mkdir()
    (folder / "live-run" / "plan.json").write_text("{}")
    tell(folder / "live-run", *BEGUN)
    return folder


@pytest.fixture(scope="module")
def address(runs: Path, browser: Chromium) -> Iterator[str]:
    """Of the pages; the browser has logged in."""
    argv = [sys.executable, "-m", "dutlab", "serve", "--json", "--port", "0", "--runs", str(runs), "--control"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        browser.open(told["open"], width=1280)
        yield told["address"]
        server.terminate()


@pytest.fixture(scope="module")
def pages(address: str, runs: Path) -> list[str]:
    a, _ = sorted(p.name for p in runs.glob("2026*"))[:2]
    paths = ["", "?words=nobody", f"runs/{a}/", f"runs/{a}/live", "runs/live-run/live", f"compare?run={a}", "history",
             "history?experiment=firewall-modes", "testbeds", "limits", "control"]  # fmt: skip
    return [address + path for path in (*paths, f"runs/{a}/report/")]


@pytest.mark.timing
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_page_is_wider_than_the_window_asks_elsewhere_or_complains(
    browser: Chromium, address: str, pages: list[str], width: int
) -> None:
    for page in pages:
        browser.open(page, width=width)
        assert browser.evaluate("document.documentElement.scrollWidth") == width, page
        assert browser.complaints == [], page
        assert all(asked.startswith((address, "data:")) for asked in browser.requested), page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_can_be_read_in_both_schemes(browser: Chromium, pages: list[str], scheme: str) -> None:
    for page in pages:
        browser.open(page, width=1280, scheme=scheme)
        faint = [(page, round(ratio, 2), text) for ratio, text in browser.evaluate(CONTRASTS) if ratio < 4.5]
        assert faint == []


def test_the_axe_finds_nothing_serious(browser: Chromium, pages: list[str]) -> None:
    for page in pages[:-1]:  # the last is a report, see test_report_page
        browser.open(page, width=1280)
        assert faults_of_access(browser) == [], page


def test_every_field_and_button_has_a_name_and_is_reached_by_keyboard(browser: Chromium, pages: list[str]) -> None:
    for page in pages:
        browser.open(page, width=1280)
        nameless = browser.evaluate("""[...document.querySelectorAll('input:not([type=hidden]), select, button, progress')]
          .filter((e) => !(e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label'))).map((e) => e.outerHTML)""")
        assert nameless == [], page
        assert browser.evaluate("[...document.querySelectorAll('a, button, input')].every((e) => e.tabIndex >= 0)"), page


@pytest.mark.timing
def test_a_run_that_is_watched_changes_on_the_page_until_it_is_over(browser: Chromium, address: str, runs: Path) -> None:
    run = runs / "live-run"
    browser.open(f"{address}runs/live-run/live", width=1280)
    assert eventually(lambda: "nat sweep 64 a #1" in browser.evaluate(NOW) and "590.0 kpps" in browser.evaluate(NOW), 60)
    assert browser.evaluate("document.querySelectorAll('#now svg polyline').length") == 18
    tell(run, {"event": "reading", "trial": 1, "where": "a", "who": "engine", "values": {"offered_pps": 777e3}})
    assert eventually(lambda: "777.0 kpps" in browser.evaluate(NOW), 60)
    tell(run, {"event": "note", "text": "<img src=x onerror=alert(1)>"})
    assert eventually(lambda: "<img src=x" in browser.evaluate(NOW), 60), "told as text"
    assert browser.evaluate("document.querySelectorAll('#now img').length") == 0
    tell(run, {"event": "run-ended", "status": "finished", "measured": 2, "failed": 0, "refused": 0, "disturbed": 0})
    assert eventually(lambda: "Finished" in browser.evaluate(NOW), 60)
    time.sleep(2)
    assert browser.evaluate("document.getElementById('silent').hidden"), "the stream has ended, it is not lost"
    assert browser.complaints == []
