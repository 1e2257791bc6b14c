"""`dutlab serve` in a real browser: every page at three widths in both schemes, and a run that is watched while it goes."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.chromium import Chromium
from browser.looks import CONTRASTS, UNSEEN_FOCUS, USABLE_COUNT, faults_everywhere, press, reached_by_tab
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
EXPERIMENTS = Path(__file__).parents[2] / "examples" / "firewall-modes"


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
    argv = [
        sys.executable,
        "-m",
        "dutlab",
        "serve",
        "--json",
        "--port",
        "0",
        "--runs",
        str(runs),
        "--control",
        "--experiments",
        str(EXPERIMENTS),
    ]
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
             "history?experiment=firewall-modes", "testbeds", "limits", "limits?read_iops=1&write_iops=1",
             "control", "control?file=quick.yaml"]  # fmt: skip
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


def test_axe_finds_nothing_at_any_width_in_any_scheme(browser: Chromium, pages: list[str], address: str) -> None:
    others = [f"{address}{path}" for path in ("login", "nothing")]
    assert faults_everywhere(browser, [*pages[:-1], *others]) == {}  # the last is a report, see test_report_page


def test_the_tab_key_reaches_all_that_a_mouse_can_use_and_shows_where_it_is(browser: Chromium, pages: list[str]) -> None:
    for page in (page for page in pages[:-1] if "live-run" not in page):  # its boxes are new ones each second, see below
        browser.open(page, width=1280)
        assert reached_by_tab(browser) == set(range(browser.evaluate(USABLE_COUNT))), page
        assert not browser.evaluate(UNSEEN_FOCUS), page


def test_a_run_is_found_filtered_and_its_plan_seen_with_the_keyboard_alone(browser: Chromium, address: str) -> None:
    browser.open(address, width=1280)
    browser.evaluate("document.querySelector('.filters summary').focus()")
    press(browser, "Enter")
    assert browser.evaluate("document.querySelector('.filters').open && document.querySelector('[name=status]').checkVisibility()")
    browser.open(f"{address}control", width=1280)
    browser.evaluate("document.querySelector('select').focus(); document.querySelector('select').value = 'quick.yaml'; 0")
    press(browser, "Tab")
    press(browser, "Enter")
    assert eventually(lambda: "Start quick.yaml?" in browser.evaluate("document.body?.innerText ?? ''"), 60)
    assert "changes: mode" in browser.evaluate("document.querySelector('pre').innerText")


@pytest.mark.timing
def test_the_keyboard_stays_where_it_is_while_the_page_of_a_run_changes(browser: Chromium, address: str, runs: Path) -> None:
    (runs / "held").mkdir()
    (runs / "held" / "plan.json").write_text("{}")
    tell(runs / "held", *BEGUN)
    browser.open(f"{address}runs/held/live", width=390)
    assert eventually(lambda: browser.evaluate("!!document.querySelector('#readings')"), 60)
    browser.evaluate("(() => { const box = document.getElementById('readings'); box.focus(); box.scrollLeft = 40; box.old = true; })()")
    tell(runs / "held", {"event": "reading", "trial": 1, "where": "dut", "who": "cpu", "values": {"cpu0_busy_percent": 77}})
    assert eventually(lambda: "77 %" in browser.evaluate(NOW), 60)
    assert browser.evaluate("document.activeElement.id") == "readings" and not browser.evaluate("document.activeElement.old")
    assert browser.evaluate("document.activeElement.scrollLeft") == 40


@pytest.mark.timing
def test_the_buttons_follow_the_run_to_its_end(browser: Chromium, address: str, runs: Path) -> None:
    shown = "[...document.querySelectorAll('[data-stages]')].filter((f) => f.checkVisibility()).map((f) => f.innerText.trim())"
    run = runs / "controlled"
    run.mkdir()
    (run / "plan.json").write_text("{}")
    with (run / "journal.jsonl").open("w") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        tell(run, *BEGUN)
        browser.open(f"{address}runs/controlled/live", width=1280)
        assert browser.evaluate(shown) == ["Pause after this trial", "Cancel"]
        (run / "pause-asked").touch()
        assert eventually(lambda: browser.evaluate(shown) == ["Cancel"], 60)
        assert "ends after this trial" in browser.evaluate("document.getElementById('told').textContent"), "said to screen readers too"
    assert eventually(lambda: browser.evaluate(shown) == ["Resume"], 60)
    (run / "MANIFEST.sha256").touch()
    tell(run, {"event": "run-ended", "status": "finished", "measured": 2, "failed": 0, "refused": 0, "disturbed": 0})
    assert eventually(lambda: browser.evaluate(shown) == [], 60)
    assert "finished run" in browser.evaluate(NOW)


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
    assert browser.evaluate("document.querySelectorAll('#now svg polyline').length") == 16, "a line for each core"
    assert browser.evaluate("document.querySelectorAll('#now figure svg[role=img]').length") == 1
    assert "offered 590" in browser.evaluate("document.querySelector('#now figure svg').getAttribute('aria-label')")
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
