"""The report in a real browser: on a laptop and a phone, in the light and the dark, without a network."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

import fake_run
from browser.chromium import Chromium
from browser.looks import CONTRASTS, UNFOLD, faults_everywhere, faults_of_access
from dutlab.interop.figure_table import imported
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.report.write import write_plots, write_report
from dutlab.sensors.sensor import Sample
from dutlab.store.additions import add
from fake_run import Wanted, build

PUBLISHED = Path(__file__).parents[2] / "examples" / "published"
OVERFLOWING = """[...document.querySelectorAll('.box')].filter((b) => b.scrollWidth > b.clientWidth)
  .map((b) => `${document.title}, ${b.ariaLabel}: ${b.scrollWidth} of ${b.clientWidth} px`)"""
CUT = """[...document.querySelectorAll('table')].filter((t) => t.getBoundingClientRect().right > innerWidth + 1)
  .map((t) => `${document.title}, ${t.parentElement.ariaLabel}: cut in print`)"""

EXPLORE = "document.querySelectorAll('.explore[aria-expanded=false]').forEach((b) => b.click())"
FIRST = "document.querySelector('#sweep figure')"
PRESS = f"(words) => [...{FIRST}.querySelectorAll('.controls button')].find((b) => b.textContent === words).click()"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = build(tmp_path_factory.mktemp("runs"), Wanted(seconds=2, lab=True))
    return write_report([run], formats=["html"], out=None)[0]


@pytest.mark.timing
@pytest.mark.parametrize("width", [360, 390, 768, 1280, 1920])
def test_the_page_is_never_wider_than_the_window(browser: Chromium, page: Path, width: int) -> None:
    browser.open(page, width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    browser.evaluate(UNFOLD)
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    if width < 600:  # and yet the wide tables are all there, each in a box of its own that scrolls
        assert browser.evaluate("[...document.querySelectorAll('.box')].some((b) => b.scrollWidth > b.clientWidth)")


def test_no_table_scrolls_on_a_laptop_and_print_has_pages_in_landscape(browser: Chromium, page: Path) -> None:
    browser.open(page, width=1280)
    browser.evaluate(UNFOLD)
    assert browser.evaluate(OVERFLOWING) == []
    browser.send("Emulation.setEmulatedMedia", media="print")
    browser.send("Emulation.setDeviceMetricsOverride", width=1032, height=703, deviceScaleFactor=1, mobile=False)  # A4 landscape less 12 mm
    cut = browser.evaluate(CUT)
    printed = base64.b64decode(browser.send("Page.printToPDF", preferCSSPageSize=True)["data"])
    browser.send("Emulation.setEmulatedMedia", media="")
    assert cut == []
    assert re.search(rb"/MediaBox \[0 0 84[12][.\d]* 59[45]", printed)


@pytest.fixture(scope="module")
def pages_of_kinds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Reports with wide tables: one whose sensors have long names and places, as those of fio on drives have, and every published table."""
    runs = tmp_path_factory.mktemp("kinds")
    names = ("bytes_per_s.read", "clat_mean_ns.read", "iops.read", "bytes_per_s.write", "clat_mean_ns.write", "iops.write")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            fake_run,
            "_samples",
            lambda *_: [Sample(0.0, "server:d1+server:d2", "fio", name, "", 12_345_678.0 + n) for n, name in enumerate(names)],
        )
        made = [build(runs, Wanted(seconds=2, modes={m: f"filter-many-states-{m}" for m in fake_run.PPS}))]
    for table in sorted(PUBLISHED.glob("*.csv")):
        if "drive-spec" not in table.name:  # ratings of drives, no results
            trials = imported(table.name, table.read_bytes(), ImportOptions(None))
            made.append(write_imported(runs, table.stem, trials, command=("dutlab", "import"), now=datetime(2026, 11, 21, tzinfo=UTC)).path)
    return [write_report([run], formats=["html"], out=None)[0] for run in made]


def test_no_table_of_a_drive_or_a_publication_is_wider_than_its_column(browser: Chromium, pages_of_kinds: list[Path]) -> None:
    too_wide = []
    for page in pages_of_kinds:
        browser.open(page, width=1280)
        browser.evaluate(UNFOLD)
        too_wide += browser.evaluate(OVERFLOWING)
        browser.send("Emulation.setEmulatedMedia", media="print")
        browser.send("Emulation.setDeviceMetricsOverride", width=1032, height=703, deviceScaleFactor=1, mobile=False)
        too_wide += browser.evaluate(CUT)
        browser.send("Emulation.setEmulatedMedia", media="")
    assert too_wide == []


def test_marks_beside_the_last_column_stay_inside_its_table(browser: Chromium, page: Path, tmp_path: Path) -> None:
    two = '495.0<sup><a class="mark">[1]</a> <a class="mark">[3]</a></sup>'
    text = page.read_text(encoding="utf-8")
    style = text[text.index("<style") : text.index("</style>")]
    rows = f'<tr><th scope="row">router</th><td class="num">{two}</td></tr><tr><th scope="row">nat</th><td class="num">413.3</td></tr>'
    (tmp_path / "marks.html").write_text(f'{style}</style><main><div class="box"><table>{rows}</table></div></main>', encoding="utf-8")
    browser.open(tmp_path / "marks.html", width=1280)
    ends = browser.evaluate("[...document.querySelectorAll('.mark')].map((m) => m.getBoundingClientRect().right)")
    table = browser.evaluate("document.querySelector('table').getBoundingClientRect().right")
    assert len(ends) == 2 and max(ends) <= table, (ends, table)


def test_only_the_file_itself_is_asked_for_and_nothing_is_complained_about(browser: Chromium, page: Path) -> None:
    browser.open(page, width=1280)
    browser.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    assert browser.requested == [page.resolve().as_uri()]
    assert browser.complaints == []


@pytest.mark.parametrize("section", ["answer", "iperf3", "sweep", "cores", "doubts", "conditions", "repeat", "trials"])
def test_every_section_is_seen(browser: Chromium, page: Path, section: str) -> None:
    browser.open(page, width=1280)
    browser.evaluate(UNFOLD)
    assert browser.evaluate(f"document.getElementById('{section}').getBoundingClientRect().height") > 100


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_can_be_read_in_both_schemes(browser: Chromium, page: Path, scheme: str) -> None:
    browser.open(page, width=1280, scheme=scheme)
    browser.evaluate(UNFOLD)
    found = browser.evaluate(CONTRASTS)
    assert len(found) > 1000
    faint = [(round(ratio, 2), text) for ratio, text in found if ratio < 4.5]
    assert faint == []
    paper = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}[scheme]


def test_words_in_plots_do_not_cover_one_another_and_stay_inside(browser: Chromium, page: Path) -> None:
    browser.open(page, width=1280)
    touching = browser.evaluate(
        """[...document.querySelectorAll('figure svg')].flatMap((svg) => {
             const frame = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll('text')].filter((t) => t.getClientRects().length), boxes = texts.map((t) => t.getBoundingClientRect());
             const hit = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4;
             const pairs = boxes.flatMap((a, i) => boxes.slice(i + 1).flatMap((b, j) => hit(a, b) ? [texts[i].textContent + ' | ' + texts[i + 1 + j].textContent] : []));
             const out = boxes.flatMap((a, i) => a.left < frame.left - 1 || a.right > frame.right + 1 ? [texts[i].textContent + ' leaves the plot'] : []);
             return [...pairs, ...out];
           })"""
    )
    assert touching == []


def test_words_in_plots_are_large_enough_on_a_phone(browser: Chromium, page: Path) -> None:
    browser.open(page, width=390)
    smallest = browser.evaluate(
        "Math.min(...[...document.querySelectorAll('figure svg text')].map((t) => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().d || 99))"
    )
    assert smallest > 7.5


def test_a_figure_leads_to_its_trials(browser: Chromium, page: Path) -> None:
    browser.open(page, width=1280)
    assert not browser.evaluate("document.querySelector('#trials details').open"), "the trials are folded"
    browser.evaluate("document.querySelector('#answer td a.figure').click()")
    row = browser.evaluate("document.querySelector('tr:target').innerText")
    assert browser.evaluate("document.querySelector('#trials details').open"), "a link to a trial unfolds them"
    assert "record.json" in row and " Gb/s" in row
    assert "iperf3.json" in row


def test_hostile_names_run_nothing(browser: Chromium, tmp_path: Path) -> None:
    evil = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
    modes = {"router": evil, "filter-empty": "fe", "filter-default": "fd", "nat": "nat"}
    run = build(tmp_path, Wanted(repeats=1, seconds=2, cores=1, sizes=(64, "imix"), modes=modes, hostile=evil, experiment=evil))
    browser.open(write_report([run], formats=["html"], out=None)[0], width=390)
    assert browser.evaluate("document.title") != "broken"
    assert browser.evaluate("document.querySelectorAll('img, script:not(#figures, [type=\"application/json\"])').length") == 0
    browser.evaluate(EXPLORE)
    assert browser.evaluate("document.querySelectorAll('figure img, figure b').length") == 0
    assert browser.evaluate("document.title") != "broken"
    assert browser.evaluate("document.documentElement.scrollWidth") == 390
    assert len(browser.requested) == 1


def test_a_picture_that_was_added_is_seen_and_nothing_else_is_asked_for(browser: Chromium, tmp_path: Path) -> None:
    run = build(tmp_path, Wanted(repeats=1, seconds=2, cores=1))
    picture = Path(__file__).parents[2] / "docs" / "images" / "report.png"
    add(run, "The box after an hour", now=datetime(2026, 11, 23, tzinfo=UTC), file=picture)
    browser.open(write_report([run], formats=["html"], out=None)[0], width=390)
    seen = browser.evaluate(
        "(() => { const i = document.querySelector('.added img'); return [i.naturalWidth > 100, i.clientWidth > 100]; })()"
    )
    assert seen == [True, True]
    assert browser.evaluate("document.documentElement.scrollWidth") == 390
    assert len([url for url in browser.requested if not url.startswith("data:")]) == 1
    assert browser.complaints == []


def test_a_plot_of_its_own_opens_in_both_schemes(browser: Chromium, tmp_path: Path) -> None:
    run = build(tmp_path, Wanted(repeats=1, seconds=2, cores=1))
    for drawn in write_plots([run], format="svg", out=tmp_path / "plots"):
        browser.open(drawn, width=800, scheme="dark")
        assert browser.evaluate("getComputedStyle(document.querySelector('rect')).fill") == "rgb(20, 24, 29)"
        assert browser.complaints == []


def test_a_figure_tells_its_values_under_the_pointer_and_beside_the_slider_with_its_peers(browser: Chromium, page: Path) -> None:
    browser.open(page, width=1280)
    browser.evaluate(f"{FIRST}.scrollIntoView()")
    x, y = browser.evaluate(
        f"(() => {{ const r = {FIRST}.querySelector('svg').getBoundingClientRect(); return [r.x + r.width / 2, r.y + 90]; }})()"
    )
    browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    told = browser.evaluate(f"{FIRST}.querySelector('.tip').innerText")
    assert re.search(r"router [\d.]+ kpps", told) and "bytes" in told
    assert browser.evaluate("document.querySelectorAll('#sweep .cursor').length") > 3
    browser.evaluate(f"{FIRST}.querySelector('.explore').click(); {FIRST}.querySelector('input').focus()")
    for _ in range(2):
        for kind in ("keyDown", "keyUp"):
            browser.send("Input.dispatchKeyEvent", type=kind, key="End", code="End", windowsVirtualKeyCode=35)
    heard = browser.evaluate(f"{FIRST}.querySelector('input').ariaValueText")
    assert heard.startswith("imix") and "nat" in heard
    browser.evaluate(UNFOLD)
    of_table = browser.evaluate(
        "[...document.querySelectorAll('#sweep tbody tr')].map((r) => r.innerText).find((t) => t.includes('nat') && t.includes('imix'))"
    )
    assert re.search(r"nat ([\d.]+) kpps", heard)[1] in of_table  # type: ignore[index]
    assert browser.complaints == []


def test_modes_axes_units_zoom_and_the_table_of_a_figure_answer(browser: Chromium, page: Path) -> None:
    browser.open(page, width=390)
    browser.evaluate(f"{FIRST}.querySelector('.explore').click()")
    strokes = f"{FIRST}.querySelectorAll('.redrawn g > path[stroke=\"#0067a8\"]').length"
    before = browser.evaluate(strokes)
    browser.evaluate(f"({PRESS})('router')")
    assert browser.evaluate(strokes) == 0 < before
    browser.evaluate(f"({PRESS})('router')")
    assert browser.evaluate(strokes) == before
    words = f"[...{FIRST}.querySelectorAll('.redrawn > text')].map((t) => t.textContent)"
    assert "0" in browser.evaluate(words)
    browser.evaluate(f"({PRESS})('Log y')")
    assert "0" not in browser.evaluate(words)
    browser.evaluate(
        f"{{ const s = {FIRST}.querySelector('select'); s.value = s.options.length - 1; s.dispatchEvent(new Event('change')); }}"
    )
    assert "Mb/s, L2" in browser.evaluate(words)
    browser.evaluate(f"({PRESS})('Zoom in')")
    assert "64" not in browser.evaluate(words)
    browser.evaluate(f"({PRESS})('Whole')")
    browser.evaluate(f"({PRESS})('Table')")
    assert browser.evaluate(f"{FIRST}.querySelectorAll('.tabled tbody tr').length") == 8
    assert browser.evaluate("document.documentElement.scrollWidth") == 390
    assert browser.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_of_explored_figures_can_be_read_and_print_has_the_drawings(browser: Chromium, page: Path, scheme: str) -> None:
    browser.open(page, width=1280, scheme=scheme)
    browser.evaluate(EXPLORE)
    assert [text for ratio, text in browser.evaluate(CONTRASTS) if ratio < 4.5] == []
    browser.send("Emulation.setEmulatedMedia", media="print")
    seen = browser.evaluate(
        "[...document.querySelectorAll('figure svg, .controls, .explore')].filter((e) => e.getClientRects().length).map((e) => e.className.baseVal ?? e.className)"
    )
    browser.send("Emulation.setEmulatedMedia", media="")
    assert set(seen) == {""} and len(seen) == browser.evaluate("document.querySelectorAll('figure').length")


def test_a_bar_without_a_script_tells_its_values_under_the_pointer(browser: Chromium, page: Path) -> None:
    browser.open(page, width=1280)
    browser.evaluate("document.querySelector('#cores figure').scrollIntoView()")
    area = "document.querySelector('#cores .told > rect').getBoundingClientRect()"
    x, y = browser.evaluate(f"[{area}.x + 20, {area}.y + {area}.height / 2]")
    shown = "[...document.querySelectorAll('#cores .told > g')].filter((g) => g.getClientRects().length).map((g) => g.textContent)"
    assert browser.evaluate(shown) == []
    browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    (told,) = browser.evaluate(shown)
    assert told.startswith("router, core 0: ") and "softirq" in told


def test_axe_finds_nothing_on_reports_at_any_width_in_any_scheme(browser: Chromium, page: Path, pages_of_kinds: list[Path]) -> None:
    assert faults_everywhere(browser, [page]) == {}
    assert faults_everywhere(browser, pages_of_kinds, looks=((390, "light"), (1280, "dark"))) == {}, "of each kind of workload"


def test_axe_finds_nothing_on_explored_figures(browser: Chromium, page: Path, pages_of_kinds: list[Path]) -> None:
    for shown, scheme in ((page, "light"), (page, "dark"), *((of_kind, "light") for of_kind in pages_of_kinds[:2])):
        browser.open(shown, width=1280, scheme=scheme)
        browser.evaluate(EXPLORE)
        browser.evaluate(UNFOLD)
        assert faults_of_access(browser) == [], (shown, scheme)


def test_the_answer_fits_one_screen_of_a_laptop_and_the_report_few_sheets(browser: Chromium, page: Path) -> None:
    browser.open(page, width=1280)
    assert browser.evaluate("document.querySelector('dl.first-screen').getBoundingClientRect().bottom") <= 900
    assert browser.evaluate("document.documentElement.scrollHeight") < 10_000
    printed = base64.b64decode(browser.send("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert len(re.findall(rb"/Type ?/Page[^s]", printed)) <= 11
    browser.open(page, width=390)
    assert browser.evaluate("document.documentElement.scrollHeight") < 15_000


def test_no_row_of_a_table_is_mostly_blank_on_a_phone(browser: Chromium, page: Path) -> None:
    browser.open(page, width=390)
    browser.evaluate(UNFOLD)
    tall = browser.evaluate(
        "[...document.querySelectorAll('tbody tr')].map((r) => [r.getBoundingClientRect().height, r.innerText]).filter(([h]) => h > 350)"
    )
    assert tall == []
