"""What a report says: the published numbers, the spread, every doubt and every gap, in each of its four forms."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from dutlab.errors import InputError, StoreError
from dutlab.report.gather import gather
from dutlab.report.model.glossary import meaning
from dutlab.report.model.run_report import RunReport
from dutlab.report.model.table import Figure, Missing, number_text, spread_text
from dutlab.report.model.words import KPPS, Unit, bit_rate_unit
from dutlab.report.pages.html import html
from dutlab.report.pages.markdown import markdown
from dutlab.report.write import write_plots, write_report
from dutlab.store.record_files import NewerRun
from dutlab.store.run_folder import RunFolder
from fake_run import PPS, PUBLISHED, Wanted, build
from golden import Golden
from scripts_of_pages import foreign_scripts

ALL = ("html", "md", "csv", "json")
EVIL = "<script>alert(1)</script>"


class Page(HTMLParser):
    """Elements, links and the text of tables of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.rows: list[list[str]] = []
        self._skip = 0
        self.text, self.whole = "", text
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {k: v or "" for k, v in attrs}))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
        self._skip += tag in {"style", "script"}

    def handle_endtag(self, tag: str) -> None:
        self._skip -= tag in {"style", "script"}

    def handle_data(self, data: str) -> None:
        if self._skip:
            return
        self.text += data
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

    @property
    def links(self) -> list[str]:
        return [a["href"] for tag, a in self.tags if "href" in a]

    @property
    def ids(self) -> list[str]:
        return [a["id"] for _, a in self.tags if "id" in a]


def report(run: Path, out: Path, name: str = "html") -> str:
    return write_report([run], formats=[name], out=out)[0].read_text()


def forms(run: Path, out: Path) -> dict[str, str]:
    """The report in all its forms, read and written once."""
    return {path.suffix[1:]: path.read_text() for path in write_report([run], formats=ALL, out=out)}


@pytest.fixture(scope="module")
def metal(built: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(run := built(), tmp_path_factory.mktemp("metal") / run.name)


@pytest.fixture(scope="module")
def written(metal: Path) -> dict[str, str]:
    return forms(metal, metal / "report")


@pytest.fixture(scope="module")
def gathered(metal: Path) -> RunReport:
    return gather(metal, metal)


@pytest.fixture(scope="module")
def page(written: dict[str, str]) -> Page:
    return Page(written["html"])


def test_the_goodput_table_shows_the_published_figures_in_their_place(page: Page) -> None:
    shown = {row[0]: row[1:] for row in page.rows if row and row[0] in PPS and len(row) == 6}
    with PUBLISHED.open() as f:
        for published in csv.DictReader(f):
            if published["mode"] != "nat":  # its third repeat was refused, so its medians are of two
                a, b, both_a, both_b = (f"{float(v):.2f}" for k, v in published.items() if k != "mode")
                assert [cell[:4] for cell in shown[published["mode"]][:4]] == [a, b, both_a, both_b]
    assert shown["router"][4].startswith("17.44")
    assert shown["router"][0] == "9.409.34–9.46"


def test_a_report_as_markdown_is_the_golden_page(built: Callable[..., Path], tmp_path: Path, golden: Golden) -> None:
    modes = {mode: mode for mode in ("router", "filter-empty", "nat")}
    run = built(repeats=2, seconds=2, cores=1, sizes=(64, 128, 512), lab=True, modes=modes)
    text = report(run, tmp_path, "md").replace(str(run), "RUN").replace(os.path.relpath(run, tmp_path), "RUN")
    golden.check("report-firewall-modes.md", re.sub(r"dutlab \d[\w.+]*", "dutlab VERSION", re.sub(r"\b[0-9a-f]{64}\b", "SHA256", text)))


def test_every_section_is_there_after_the_answer_and_every_link_has_its_end(page: Page, metal: Path) -> None:
    assert {"answer", "iperf3", "sweep", "cores", "doubts", "conditions", "repeat", "trials", "unsuccessful"} <= set(page.ids)
    first = page.text.index("router (17.44 Gb/s) and ")
    assert page.text.index("how fast") < first < page.text.index("why not faster") < page.text.index("what next")
    assert first < page.text.index("TCP goodput, Gb/s: ")
    assert f'title="{meaning("lost")}; lower is better"' in page.whole, "a head of a column explains its term"
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        assert link[1:] in page.ids if link.startswith("#") else (metal / "report" / unquote(link)).exists(), link
    assert sum("record.json" in link for link in page.links) == 132


@pytest.mark.parametrize("most", [0, 10])
def test_a_page_of_very_many_trials_lists_the_first_of_each_cell_and_status(
    gathered: RunReport, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    for module in ("run_report", "run_tables"):
        monkeypatch.setattr(f"dutlab.report.model.{module}.MOST_LISTED", most)
    found = replace(gathered)
    page = Page(html([found]))
    alike = {(t.group, t.status) for t in found.trials}
    assert {(t.group, t.status) for t in found.listed} == alike and (most == 0 or {*found.unsuccessful} <= {*found.listed})
    assert len(page.ids) == len(set(page.ids))
    assert [link for link in page.links if link.startswith("#") and link[1:] not in page.ids] == []
    left_out = f"{len(found.trials) - len(found.listed)} more of {len(found.trials)} trials"
    assert left_out in page.text and left_out in markdown([found])


def test_nothing_is_loaded_and_nothing_runs_but_the_script_of_figures(page: Page) -> None:
    assert foreign_scripts(page.whole) == []
    assert sum(a == {"type": "application/json"} for tag, a in page.tags if tag == "script") > 4
    assert not {tag for tag, _ in page.tags} & {"img", "iframe", "link", "object", "embed", "form"}
    assert not [a for _, a in page.tags if "src" in a or any(name.startswith("on") for name in a)]
    assert not [link for link in page.links if "://" in link or link.startswith(("javascript:", "data:"))]
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy


def test_a_severe_doubt_stands_at_the_top_and_each_doubt_marks_its_figures_only(page: Page, gathered: RunReport) -> None:
    html = page.whole
    assert html.index('class="banner severe"') < html.index('id="answer"')
    cells = [row for row in page.rows if row and row[0] == "router" and len(row) == 9]
    assert "⚠[1]" in cells[0][2]  # 128-byte frames
    assert not any("⚠" in cell for cell in cells[0][3:])
    assert "(trial 108)" in page.text
    goodput = {row[0]: row[1:] for row in page.rows if row and len(row) == 6}
    assert not any("[" in cell for cell in goodput["router"]), "doubts about every figure are said once"
    assert all("[2]" in cell for cell in goodput["nat"])
    table = gathered.sections[1].tables[1]
    row = next(row for row in table.rows if row.size == "1518")
    dropped = next(n.number for n in gathered.notes if n.kind == "RX_DROPPED")
    touched = {c.figure for c, v in zip(table.columns, row.cells, strict=True) if isinstance(v, Figure) and dropped in v.marks}
    assert touched == {"loss_ratio", "delivered_ratio"}  # which is what was not lost


def test_a_gap_says_why_in_every_form(gathered: RunReport, written: dict[str, str]) -> None:
    why = "ended with 1 before the trial was over: link in-a went down"
    for name, text in written.items():
        assert why in text.replace("\\", ""), name
    table = gathered.sections[1].tables[1]
    (row,) = [row for row in table.rows if (row.label, row.size) == ("filter-empty", "512")]
    value = row.cells[[c.figure for c in table.columns].index("received_pps")]
    assert isinstance(value, Missing)
    assert value.why.startswith("failed: sink: engine")


def test_an_embedded_lab_is_said_before_any_figure(built: Callable[..., Path], tmp_path: Path) -> None:
    made = forms(built(lab=True, repeats=1, seconds=2, cores=0), tmp_path)
    assert made["html"].index("Embedded lab: relative figures") < made["html"].index('id="answer"')
    assert "ceiling of the link" not in made["html"]
    for name in ("md", "json"):
        assert "mbedded lab: relative figures" in made[name]
    assert "EMBEDDED_LAB" in made["csv"]


@pytest.mark.parametrize("hostile", [EVIL, '"><svg onload=x>', "a|b\n# head", "'; }</style>", "{{ 7 * 7 }}", "](javascript:x)"])
def test_names_from_outside_stay_text(tmp_path: Path, hostile: str) -> None:
    modes = {"router": f"{hostile}1", "filter-empty": "=1+1"}
    run = build(tmp_path, Wanted(repeats=1, seconds=2, cores=1, sizes=(64, 512, "imix"), modes=modes, hostile=hostile, experiment=hostile))
    made = forms(run, tmp_path / "out")
    page = Page(made["html"])
    assert foreign_scripts(page.whole) == []
    assert "img" not in {tag for tag, _ in page.tags}
    assert not [a for _, a in page.tags if any(name.startswith("on") for name in a)]
    assert not [link for link in page.links if not link.startswith(("#", ".."))]
    assert " ".join(f"{hostile}1".split()) in " ".join(page.text.split())
    for drawn in write_plots([run], format="svg", out=tmp_path / "plots"):
        assert not {tag for tag, _ in Page(drawn.read_text()).tags} & {"script", "img"}
    rows = list(csv.DictReader(io.StringIO(made["csv"])))
    assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "@"))]
    for table in re.findall(r"(?:^\|.*\n)+", made["md"], re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table
    assert "<script" not in made["md"]
    assert "](javascript" not in made["md"]
    json.loads(made["json"])


def test_six_repeats_give_an_interval_and_five_do_not(tmp_path: Path) -> None:
    for repeats, said in ((6, "the 95 % interval where six or more"), (5, "no 95 % interval exists below six")):
        folder = tmp_path / str(repeats)
        made = forms(build(folder, Wanted(repeats=repeats, seconds=2, bad_luck=False, cores=0, sizes=(64,))), folder)
        assert said in Page(made["html"]).text
        assert ("95 % interval" in made["csv"]) == (repeats == 6)


def test_a_run_that_was_cut_reports_what_there_is_and_one_without_any_trial_is_a_page_too(tmp_path: Path) -> None:
    made = forms(build(tmp_path, Wanted(cut_after=20, repeats=1, seconds=2, cores=0)), tmp_path / "out")
    page = Page(made["html"])
    assert "24 not done" in page.text
    assert "has not finished" in page.text
    assert any("no result: not measured" in cell for row in page.rows for cell in row)
    (row,) = [line for line in made["md"].splitlines() if line.startswith("| nat | 1518 | ")]
    assert row.count("no result: not measured") == 1
    empty = build(tmp_path / "empty", Wanted(cut_after=0, repeats=1, seconds=2))
    assert "44 of 44 trials" in Page(forms(empty, tmp_path / "out")["html"]).text
    assert write_plots([empty], format="svg", out=tmp_path / "plots") == []


def test_a_damaged_record_is_named_and_one_of_a_newer_version_stops_the_report(built: Callable[..., Path], tmp_path: Path) -> None:
    run = shutil.copytree(built(repeats=1, seconds=2, cores=0, sizes=(64,)), tmp_path / "run")
    path = run / "trials/0003/record.json"
    whole = json.loads(path.read_text())
    path.write_text("{")
    page = Page(report(run, tmp_path / "out"))
    assert "trials/0003/record.json" in page.text
    path.write_text(json.dumps(whole | {"schema_version": 9}))
    with pytest.raises(NewerRun, match="reads up to 4"):
        report(run, tmp_path / "out")


def test_what_is_no_run_and_what_is_no_format_are_refused(metal: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run"):
        write_report([tmp_path], formats=["html"], out=tmp_path / "out")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(StoreError, match=r"notes\.txt/report\.html: "):
        write_report([metal], formats=["html"], out=tmp_path / "notes.txt")
    with pytest.raises(InputError, match="pdf: no such format"):
        write_report([metal], formats=["pdf"], out=tmp_path)
    with pytest.raises(InputError, match="no run is named"):
        write_report([], formats=["html"], out=None)


def test_the_report_lies_in_the_run_or_where_it_was_asked_for_and_replaces_the_last_one(metal: Path, tmp_path: Path) -> None:
    assert write_report([metal], formats=["csv"], out=None) == [metal / "report" / "report.csv"]
    for _ in range(2):
        assert write_report([metal], formats=["md"], out=tmp_path / "x.md") == [tmp_path / "x.md"]
    assert RunFolder.open(metal).verify_manifest().none
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.md"]


def test_two_runs_on_a_page_keep_their_anchors_and_doubts_apart(built: Callable[..., Path], tmp_path: Path) -> None:
    metal, other = (
        built(repeats=1, seconds=2, cores=0, sizes=(64,)),
        build(tmp_path, Wanted(repeats=1, seconds=2, cores=0, experiment="second")),
    )
    page = Page(write_report([metal, other, metal], formats=["html"], out=tmp_path / "out")[0].read_text())
    assert len(page.ids) == len(set(page.ids))
    assert {"r1-answer", "r2-answer"} <= set(page.ids)
    assert "r3-answer" not in page.ids
    assert all(link[1:] in page.ids for link in page.links if link.startswith("#"))


def _printed(value: dict[str, Any], unit: Unit) -> str:
    """As a page prints it, in the digits that tests/unit/test_report_words.py holds."""
    figure = Figure(**{k: v for k, v in value.items() if k not in {"marks", "trials"}}, trials=())
    spread = spread_text(figure, unit)
    return f"{number_text(figure, unit)}{f' ({spread})' if spread else ''}"


def test_all_four_forms_hold_the_same_medians(written: dict[str, str], page: Page) -> None:
    found = json.loads(written["json"])["runs"][0]
    rows = list(csv.DictReader(io.StringIO(written["csv"])))
    text = written["md"]
    medians = {float(row["median"]) for row in rows if row["median"]}
    cells = {cell for row in page.rows for cell in row}
    goodput, (_, every) = found["sections"][0]["tables"][0], found["sections"][1]["tables"]
    for goodput_row in (row for row in goodput["rows"] if row["label"]):
        for value in goodput_row["cells"]:
            assert value["median"] in medians
            assert (printed := _printed(value, bit_rate_unit([9e9]))) in text
            assert any(cell.startswith(printed.partition(" ")[0]) for cell in cells)
    at = [column["figure"] for column in every["columns"]].index("received_pps")
    for value in (row["cells"][at] for row in every["rows"]):
        if "median" in value:
            assert value["median"] in medians
            assert _printed(value, KPPS) in text


def test_the_manifest_is_on_the_page(metal: Path, page: Page) -> None:
    assert hashlib.sha256((metal / "MANIFEST.sha256").read_bytes()).hexdigest() in page.text
