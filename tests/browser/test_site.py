"""A published site in a real browser: every page of it at three widths in both schemes, without a network."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from browser.chromium import Chromium
from browser.looks import CONTRASTS, UNSEEN_FOCUS, USABLE_COUNT, faults_everywhere, press, reached_by_tab
from dutlab.cli.publish import publish
from dutlab.interop.figure_table import imported
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.store.additions import add
from fake_run import Wanted, build

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "examples" / "published"
NOW = datetime(2026, 11, 21, tzinfo=UTC)
SEEN = """(() => { const f = document.querySelector('[class^="run-"]');
  const drawn = [...f.querySelectorAll('figure [fill], figure [stroke]')].filter((e) => e.getBoundingClientRect().width > 0).length;
  return [drawn, [...f.querySelectorAll('tbody tr')].filter((r) => r.offsetHeight > 0).length]; })()"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published reviews, a run with every section and a picture, and one so large that its trials have pages of their own."""
    runs, out = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("out") / "site"
    made = [build(runs, Wanted(seconds=2, lab=True)), build(runs, Wanted(repeats=12, seconds=1, cores=0, experiment="large"))]
    add(made[0], "The box after an hour", now=NOW, file=ROOT / "docs" / "images" / "report.png")
    for f in sorted(PUBLISHED.glob("*.csv")):
        trials = imported(f.name, f.read_bytes(), ImportOptions())
        made.append(write_imported(runs, f.stem, trials, command=("dutlab", "import"), now=NOW).path)
    done = CliRunner().invoke(publish, [*map(str, made), str(out), "--devices", str(PUBLISHED / "devices.yaml")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> list[Path]:
    found = sorted(site.rglob("*.html"))
    assert {"index.html", "compare.html", "claims.html", "files.html", "commands.html", "trials-2.html"} <= {p.name for p in found}
    return found


@pytest.fixture(scope="module")
def of_each(pages: list[Path]) -> list[Path]:
    """A page of each template, one that has many parts."""
    found = {
        page.parent.name if page.parent.name == "devices" else re.sub(r"-\d+$", "", page.stem) + page.parent.name: page for page in pages
    }
    assert len(found) == 8, found
    return list(found.values())


@pytest.mark.timing
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_page_is_wider_than_the_window_and_none_complains(
    browser: Chromium, site: Path, pages: list[Path], of_each: list[Path], width: int
) -> None:
    for page in pages if width == 390 else of_each:  # what is too wide is so on the narrowest first
        browser.open(page, width=width)
        assert browser.evaluate("document.documentElement.scrollWidth") == width, page
        assert browser.complaints == [], page
        assert all(address.startswith((site.resolve().as_uri(), "data:")) for address in browser.requested), page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_can_be_read_in_both_schemes(browser: Chromium, of_each: list[Path], scheme: str) -> None:
    for page in of_each:
        browser.open(page, width=1280, scheme=scheme)
        faint = [(page, round(ratio, 2), text) for ratio, text in browser.evaluate(CONTRASTS) if ratio < 4.5]
        assert faint == []


def test_a_box_takes_its_mode_out_of_tables_and_plots_without_a_script(browser: Chromium, site: Path) -> None:
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(site / "devices" / "e302-9d.html", width=1280)
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.evaluate("document.querySelectorAll('.explore').length") == 0
    drawn, rows = browser.evaluate(SEEN)
    browser.evaluate("document.querySelector('[class^=run-] .show-1').click()")
    fewer_drawn, fewer_rows = browser.evaluate(SEEN)
    assert 0 < fewer_drawn < drawn and 0 < fewer_rows < rows
    browser.evaluate("document.querySelector('[class^=run-] .show-1').click()")
    assert browser.evaluate(SEEN) == [drawn, rows]


def test_figures_of_a_page_can_be_explored_from_a_folder(browser: Chromium, pages: list[Path], of_each: list[Path]) -> None:
    explored = 0
    for page in (p for p in pages if p.parent.name == "devices" or (p in of_each and "</svg>" in p.read_text())):
        browser.open(page, width=390)
        browser.evaluate("document.querySelectorAll('.explore').forEach((b) => b.click())")
        explored += browser.evaluate("document.querySelectorAll('.redrawn').length")
        assert browser.evaluate("document.documentElement.scrollWidth") == 390, page
        assert browser.complaints == [], page
    assert explored > 10


def test_the_boxes_can_be_reached_and_changed_by_the_keyboard(browser: Chromium, site: Path) -> None:
    browser.open(site / "devices" / "e302-9d.html", width=1280)
    browser.evaluate("document.querySelector('[class^=run-] .show-0').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.send("Input.dispatchKeyEvent", type=kind, key=" ", code="Space", text=" ", windowsVirtualKeyCode=32)
    assert browser.evaluate("document.querySelector('[class^=run-] .show-0').checked") is False


def test_pictures_beside_a_page_are_seen_from_a_folder_too(browser: Chromium, pages: list[Path]) -> None:
    seen = 0
    for page in (p for p in pages if p.parent.name == "report" and p.name == "index.html"):
        browser.open(page, width=1280)
        browser.evaluate("[...document.images].forEach((i) => { i.loading = 'eager'; })")
        found = browser.send(
            "Runtime.evaluate", awaitPromise=True, returnByValue=True,
            expression="Promise.all([...document.images].map((i) => i.decode().then(() => i.naturalWidth > 50)))",
        )  # fmt: skip
        assert "exceptionDetails" not in found and all(found["result"]["value"]), page
        seen += len(found["result"]["value"])
    assert seen > 5


def test_axe_finds_nothing_on_a_page_of_each_template_and_on_every_device(
    browser: Chromium, pages: list[Path], of_each: list[Path]
) -> None:
    devices = [page for page in pages if page.parent.name == "devices"]
    assert faults_everywhere(browser, dict.fromkeys([*of_each, *devices])) == {}


def test_the_tab_key_reaches_all_that_a_mouse_can_use(browser: Chromium, of_each: list[Path]) -> None:
    for page in (p for p in of_each if p.parent.name != "report"):
        browser.open(page, width=1280)
        wanted = browser.evaluate(USABLE_COUNT)
        assert reached_by_tab(browser, 2 * wanted + 50) == set(range(wanted)), page
        assert not browser.evaluate(UNSEEN_FOCUS), page


def test_devices_are_sorted_by_the_keyboard_and_the_order_is_said(browser: Chromium, site: Path) -> None:
    browser.open(site / "compare.html", width=1280)
    column = "[...document.querySelector('table').tBodies[0].rows].map((r) => r.cells[2].dataset.sort === '' ? null : Number(r.cells[2].dataset.sort))"
    best = browser.evaluate(column)
    assert len(best) > 20 and best == sorted(best, reverse=True)
    browser.evaluate("document.querySelectorAll('th .sort')[2].focus()")
    press(browser, "Enter")
    assert browser.evaluate(column) == sorted(best)
    assert browser.evaluate("document.querySelectorAll('th')[2].getAttribute('aria-sort')") == "ascending"
    browser.evaluate("document.querySelectorAll('th .sort')[1].focus()")
    press(browser, " ")
    modes = browser.evaluate("[...document.querySelector('table').tBodies[0].rows].map((r) => r.cells[1].textContent.trim())")
    assert modes == sorted(modes) and len(set(modes)) > 1
    assert browser.evaluate("document.querySelectorAll('[aria-sort]').length") == browser.evaluate(
        "document.querySelectorAll('table').length"
    )
    browser.evaluate("document.querySelectorAll('th .sort').forEach((b) => b.click())")
    assert browser.complaints == []


def test_without_scripts_the_comparison_is_whole_and_has_no_dead_buttons(browser: Chromium, site: Path) -> None:
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(site / "compare.html", width=1280)
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.evaluate("document.querySelectorAll('button').length") == 0
    assert browser.evaluate("document.querySelectorAll('tbody tr').length") > 50


def test_a_phone_shows_figures_on_the_first_screen(browser: Chromium, pages: list[Path], site: Path) -> None:
    first = "Math.min(...[...document.querySelectorAll('.ends a')].map((a) => a.getBoundingClientRect().bottom))"
    for page in (p for p in pages if p == site / "index.html" or p.parent.name == "devices"):
        browser.open(page, width=390, height=844)
        assert browser.evaluate(first) < 844, page
        assert browser.evaluate("[...document.querySelectorAll('.ends a')].every((a) => a.getBoundingClientRect().right <= 390)"), page
