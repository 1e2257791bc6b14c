"""A published site: every run with its files and hashes, claims checked against raw files, sites merged, and nothing of it ever a script."""

from __future__ import annotations

import hashlib
import html as markup
import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import duckdb
import pytest
from click.testing import CliRunner

from cells import cell_of
from dutlab.cli.claims import verify_claim
from dutlab.errors import InputError
from dutlab.interop.figure_table import imported
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.publish import site_run
from dutlab.publish.compared_devices import amount_of
from dutlab.publish.devices import read_devices
from dutlab.publish.verified import verified
from dutlab.report.questions.claims import read_card
from dutlab.store.manifest import ManifestDifference
from dutlab.store.run_folder import RunFolder
from fake_run import Wanted, build
from published_sites import PUBLISHED, dead_links, index_of, links_of, said
from run_records import new_run, trial_record
from scripts_of_pages import foreign_scripts

ATOM = {"a": "http://www.w3.org/2005/Atom"}


@pytest.fixture(scope="module")
def reviews(corpus: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site") / "reviews"
    done = said(*corpus, site, "--devices", PUBLISHED / "devices.yaml", "--title", "Reviews", "--url", "https://bench.example/x")
    assert done.exit_code == 0, done.output
    return site


def test_the_published_reviews_make_a_site_of_their_devices(reviews: Path) -> None:
    text = markup.unescape((reviews / "index.html").read_text())
    assert all(sheet.title in text for sheet in read_devices(PUBLISHED / "devices.yaml").values())
    assert "Xeon D-2123IT" in text
    assert [page for page in reviews.rglob("*.html") if "not stated" in page.read_text()] == [], "what is not known has no place"
    device = markup.unescape((reviews / "devices" / "e302-9d.html").read_text())
    assert "17.44" in device and "figures-e302" not in device  # the runs are called as their files
    assert all(f'class="show-{n}"' in device for n in range(4))
    assert len(list((reviews / "runs").iterdir())) == len(list(PUBLISHED.glob("*.csv")))


def test_no_link_of_a_site_is_dead_and_no_page_has_a_script_but_that_of_its_figures(reviews: Path) -> None:
    assert list(dead_links(reviews)) == []
    tags = set().union(*(links_of(page).tags for page in reviews.rglob("*.html")))
    assert tags & {"iframe", "object", "embed", "form", "link"} <= {"link"}  # of the feed
    assert [page for page in reviews.rglob("*.html") if foreign_scripts(page.read_text())] == []
    assert "script" not in links_of(reviews / "index.html").tags  # it has no figures


def ends_in(page: Path) -> dict[str, str]:
    """Device → the best and worst that its row on a first page says, without tags."""
    rows = re.findall(r'<tr><th scope="row"><a href="devices/([\w.-]+)\.html">.*?</th><td>(.*?)</td>', page.read_text(), re.DOTALL)
    return {name: markup.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", cell))).strip() for name, cell in rows}


def test_the_first_page_has_each_devices_best_and_worst_with_its_mode_and_run(reviews: Path) -> None:
    found = ends_in(reviews / "index.html")
    assert "best 2.300 Mpps danos, worst 96.9 kpps linux" in found["apu6"]
    assert "best 9.86 Gb/s after, worst 2.44 Gb/s before" in found["home-10g"], "the run after the tuning is the better one"
    assert "W" not in re.findall(r"[A-Za-z/]+", found["e302-9d"]) and "7.90 Gb/s baseline" in found["e302-9d"], "watts are no speed"
    text = (reviews / "index.html").read_text()
    (linked,) = re.findall(r'<a href="([^"]+)">9\.86 Gb/s after</a>', text)
    assert "tengig-after" in linked and (reviews / unquote(linked)).is_file()
    device = (reviews / "devices" / "apu6.html").read_text()
    assert device.index("2.300 Mpps danos") < device.index("<dl"), "figures come first"


def test_devices_are_compared_by_workload_and_mode_with_prices_and_watts(corpus: list[Path], tmp_path: Path) -> None:
    sheet = tmp_path / "devices.yaml"
    sheet.write_text(
        'devices:\n  e302-9d: {runs: ["*e302-9d*"], price: "1,079 USD (May 2020)"}\n  apu6: {runs: ["*apu6*"], price: "179 EUR"}\n'
    )
    assert said(*corpus, tmp_path / "site", "--devices", sheet).exit_code == 0
    page = tmp_path / "site" / "compare.html"
    table = re.search(r'<h2 id="[\w-]+">iperf3: goodput</h2>(.*?)</table>', page.read_text(), re.DOTALL)
    assert table is not None
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in re.findall(r"<tr>(.*?)</tr>", table[1], re.DOTALL)]
    head, cells = rows[0], [[markup.unescape(re.sub(r"<[^>]+>", " ", cell)).split() for cell in row] for row in rows[1:]]
    assert head == ["device", "mode", "result", "links and settings", "repeats", "price", "watts", "measured"]
    assert len(cells) == 12 + 15, "every mode and link of both runs"
    values = [float(value) * {"Gb/s": 1e9, "Mb/s": 1e6}[unit] for _, _, (value, unit, *_), *_ in cells]
    assert values == sorted(values, reverse=True) and values[0] == 17.44e9
    first = cells[0]
    assert first[1] == ["router"] and first[3] == ["2", "links", "at", "once"] and first[5][:2] == ["1,079", "USD"]
    assert first[6] == ["90.0", "at", "most,", "full-load"], "the most that its power run has"
    assert 'data-sort="1079.0"' in table[1] and 'data-sort="90.0"' in table[1]
    assert "<script" in page.read_text() and foreign_scripts(page.read_text()) == []


@pytest.mark.parametrize(
    ("price", "amount"),
    [("1,079 USD (May 2020)", 1079), ("179 EUR", 179), ("1.299,50 EUR", 1299.5), ("$ 12.5", 12.5), ("CHF 1'200", 1200), ("2020s", 2020),
     ("", None), ("on request", None), ("1 079,00 €", 1079)],
)  # fmt: skip
def test_a_price_is_sorted_by_its_number(price: str, amount: float | None) -> None:
    assert amount_of(price) == amount


def test_watts_of_the_trials_themselves_are_those_of_the_dut(tmp_path: Path) -> None:
    cells = [cell_of("sweep", mode=mode, warmup_s=0) for mode in ("router", "nat")]
    run = new_run(tmp_path / "runs", cells)
    for n, (cell, watts) in enumerate(zip(cells, (20.0, 25.0), strict=True), 1):
        watched = {"wall": {"dut": {"W": {"wall": watts, "board": 5.0}}, "sink": {"W": {"wall": 99.0}}}}
        run.write_trial(trial_record(n, cell, {"a": {"received_pps": n * 1e5}}, watched=watched), {}, [])
    run.write_manifest()
    assert said(run.path, tmp_path / "site").exit_code == 0
    assert re.findall(r'data-sort="(2\d\.0)">', (tmp_path / "site" / "compare.html").read_text()) == ["25.0", "20.0"]


def test_claims_that_hold_are_listed_with_their_cards(theirs: Path) -> None:
    text = (theirs / "claims.html").read_text()
    held = text[text.index('id="holding"') : text.index('id="contradictions"')]
    cards = [unquote(to) for to in re.findall(r'href="([^"]+\.json)"', held)]
    assert cards and all((theirs / card).is_file() for card in cards)
    assert all(markup.escape(read_card(theirs / card).claim, quote=False) in held.replace("&#39;", "'") for card in cards)


def test_every_file_is_listed_with_its_hash_but_the_journal_which_stays_at_home(reviews: Path, theirs: Path) -> None:
    assert not list(theirs.rglob("journal.jsonl"))
    for page in [*reviews.glob("runs/*/report/files.html"), *theirs.glob("runs/*/report/files.html")]:
        rows = re.findall(r'<td><a href="\.\./([^"]+)">.*?<code>([0-9a-f]{64})</code>', page.read_text())
        run = page.parents[1]
        there = {p.relative_to(run).as_posix() for p in run.rglob("*") if p.is_file() and p.parent != page.parent}
        assert {unquote(name) for name, _ in rows} == {n for n in there if not n.startswith("additions/") or "README" in n} - {
            "MANIFEST.sha256"
        }
        assert all(hashlib.sha256((run / unquote(name)).read_bytes()).hexdigest() == told for name, told in rows)


def test_the_feed_and_the_pictures_name_the_address_of_the_site(reviews: Path) -> None:
    feed = ET.parse(reviews / "feed.xml")
    entries = feed.findall("a:entry", ATOM)
    assert len(entries) == 10
    for entry in entries:
        assert entry.find("a:id", ATOM).text.startswith("urn:sha256:")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry.find("a:updated", ATOM).text)
        address = entry.find("a:link", ATOM).get("href")
        assert (reviews / unquote(address.removeprefix("https://bench.example/x/"))).is_file()
    page = (reviews / "devices" / "apu2-openbsd.html").read_text()
    picture = re.search(r'property="og:image" content="https://bench.example/x/([^"]+)"', page)[1]
    assert (reviews / picture).read_bytes().startswith(b"\x89PNG")


def test_runs_parquet_has_every_figure_that_counts(reviews: Path, corpus: list[Path]) -> None:
    (found,) = duckdb.sql(
        f"SELECT count(*), count(DISTINCT run), max(value) FILTER (figure = 'goodput_bps') FROM '{reviews}/runs.parquet'"
    ).fetchall()
    there = [value for run in corpus for r in RunFolder.open(run).records() for of in r.figures.values() for value in of.values()]
    assert found[0] == len(there) and found[1] == len(corpus) and found[2] == pytest.approx(17.44e9)


def test_a_run_is_taken_once_and_a_site_grows(theirs: Path, measured: Path, corpus: list[Path], tmp_path: Path) -> None:
    site = shutil.copytree(theirs, tmp_path / "site")
    again = said(measured, corpus[0], site)
    assert "1 run skipped" in again.output and index_of(site)["title"] == "Theirs"
    assert len(index_of(site)["runs"]) == 2
    shutil.rmtree(site / "runs" / corpus[0].name)
    said(site)
    assert [r["name"] for r in index_of(site)["runs"]] == [measured.name]


def test_a_claim_of_a_site_holds_and_can_be_checked_there(theirs: Path) -> None:
    claims = [c for r in index_of(theirs)["runs"] for c in r["claims"]]
    assert claims and {c["state"] for c in claims} == {"holds"}
    for claim in claims:
        found = CliRunner().invoke(verify_claim, [str(theirs / claim["file"])])
        assert found.exit_code == 0, found.output


def test_raw_files_behind_a_link_prove_no_claim(theirs: Path, tmp_path: Path) -> None:
    (made,) = (theirs / "runs").iterdir()
    run = shutil.copytree(made, tmp_path / made.name)
    claim = read_card(min((run / "report").glob("claim-*iperf3*.json")))
    unchanged = ManifestDifference((), (), ())
    assert verified(claim, RunFolder(run), changed=unchanged).state == "holds"
    raw = run / "trials" / f"{claim.cells[0].trials[0]:04d}" / "raw"
    raw.rename(tmp_path / "elsewhere")
    raw.symlink_to(tmp_path / "elsewhere")
    assert verified(claim, RunFolder(run), changed=unchanged).state == "differs"


@pytest.mark.parametrize("tampered", ["card", "raw file", "raw file and manifest"])
def test_a_claim_that_its_raw_files_do_not_give_is_marked(theirs: Path, tmp_path: Path, tampered: str) -> None:
    shutil.copytree(theirs, tmp_path / "theirs")
    (run,) = (tmp_path / "theirs" / "runs").iterdir()
    card = min((run / "report").glob("claim-*iperf3*.json"))
    if tampered == "card":
        told = json.loads(card.read_text())
        told["cells"][0]["median"] *= 1.5
        card.write_text(json.dumps(told))
    else:
        raw = next(p for p in run.rglob("iperf3-*-client.json") if int(p.parts[-3]) in json.loads(card.read_text())["cells"][0]["trials"])
        data = json.loads(raw.read_text())
        data["end"]["sum_received"]["bits_per_second"] *= 1.5
        data["end"]["sum_received"]["bytes"] = int(data["end"]["sum_received"]["bytes"] * 1.5)
        raw.write_text(json.dumps(data))
        if tampered == "raw file and manifest":
            shutil.rmtree(run / "report")
            (run / "MANIFEST.sha256").unlink()
            RunFolder(run).write_manifest()
    done = said("--merge", tmp_path / "theirs", tmp_path / "corpus")
    assert done.exit_code == 0
    page = markup.unescape((tmp_path / "corpus" / "claims.html").read_text())
    assert 'class="claim differs"' in page and ("by its raw files" in page or "the card claims" in page)


def test_sites_are_merged_and_the_same_run_is_shown_once_with_both_its_sites(measured: Path, corpus: list[Path], tmp_path: Path) -> None:
    said(measured, corpus[0], tmp_path / "a", "--title", "Ann's bench")
    said(measured, corpus[1], tmp_path / "b", "--title", "Bob's bench")
    done = said("--merge", tmp_path / "a", tmp_path / "b", tmp_path / "corpus")
    assert done.exit_code == 0, done.output
    found = index_of(tmp_path / "corpus")
    assert sorted(r["name"] for r in found["runs"]) == sorted(p.name for p in (measured, *corpus[:2]))
    assert {tuple(r["sites"]) for r in found["runs"]} == {("Ann's bench", "Bob's bench"), ("Ann's bench",), ("Bob's bench",)}
    assert "Ann's bench, Bob's bench" in markup.unescape((tmp_path / "corpus" / "claims.html").read_text())
    assert list(dead_links(tmp_path / "corpus")) == []


def test_claims_that_contradict_each_other_are_shown(corpus: list[Path], tmp_path: Path) -> None:
    table = next(f for f in PUBLISHED.glob("e302-9d-iperf3.csv"))
    other = tmp_path / "runs"
    text = re.sub(r"(?m)^(router,.*?)(\d+\.\d+)", lambda m: f"{m[1]}{float(m[2]) / 2:.2f}", table.read_text())
    trials = imported(table.name, text.encode(), ImportOptions())
    slower = write_imported(other, "e302-9d-again", trials, command=("dutlab", "import"), now=datetime(2026, 11, 22, tzinfo=UTC)).path
    first = next(run for run in corpus if "e302-9d-iperf3" in run.name)
    for name, run in (("a", first), ("b", slower)):
        said(run, tmp_path / name, "--title", name, "--devices", PUBLISHED / "devices.yaml")
    done = said("--merge", tmp_path / "a", tmp_path / "b", tmp_path / "corpus")
    assert "contradiction between runs" in done.output
    (found, *_) = index_of(tmp_path / "corpus")["contradictions"]
    assert found["device"] == "e302-9d" and found["claims"][0]["median"] < found["claims"][1]["median"]
    assert 'class="contradiction"' in (tmp_path / "corpus" / "devices" / "e302-9d.html").read_text()


def test_what_sites_say_differently_of_a_device_stays_visible(corpus: list[Path], tmp_path: Path) -> None:
    for name, price in (("a", "500 EUR"), ("b", "700 EUR")):
        (tmp_path / f"{name}.yaml").write_text(f'devices:\n  box: {{runs: ["*"], price: {price}, specification: {{cores: "4"}}}}\n')
        said(corpus[0], tmp_path / name, "--title", name, "--devices", tmp_path / f"{name}.yaml")
    said("--merge", tmp_path / "a", tmp_path / "b", tmp_path / "corpus")
    text = (tmp_path / "corpus" / "devices" / "box.html").read_text()
    assert "500 EUR" in text and "700 EUR" in text


def test_what_is_not_a_finished_run_or_a_site_is_refused_and_all_of_it_at_once(measured: Path, tmp_path: Path) -> None:
    cut = build(tmp_path / "runs", Wanted(repeats=1, seconds=1, sizes=(64,), cut_after=1))
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InputError) as refused:
        said(cut, tmp_path / "nothing", measured, tmp_path / "site")
    assert cut.name in str(refused.value) and str(tmp_path / "nothing") in str(refused.value)
    assert not (tmp_path / "site").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(InputError, match=re.escape(str(tmp_path / "mine"))):
        said(measured, tmp_path / "mine")
    with pytest.raises(InputError, match="not a site"):
        said("--merge", tmp_path / "nothing", tmp_path / "corpus")


def test_a_damaged_run_of_a_site_hinders_no_other(measured: Path, corpus: list[Path], tmp_path: Path) -> None:
    said(measured, corpus[0], tmp_path / "site")
    (tmp_path / "site" / "runs" / corpus[0].name / "plan.json").write_text("{")
    done = said(tmp_path / "site")
    assert done.exit_code == 0 and "plan.json" in done.output
    assert "plan.json" in (tmp_path / "site" / "claims.html").read_text()
    assert list(dead_links(tmp_path / "site")) == []


def test_a_large_run_has_its_trials_and_pictures_beside_its_page(built, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(site_run, "LARGEST_PAGE", 200_000)
    monkeypatch.setattr(site_run, "TRIALS_A_PAGE", 100)
    said(built(repeats=3, seconds=1, cores=0, bad_luck=False), tmp_path / "site")
    pages = {p.name: p.stat().st_size for p in (tmp_path / "site").rglob("*.html")}
    assert "trials-2.html" in pages and pages["index.html"] < 200_000
    assert list(dead_links(tmp_path / "site")) == []


def test_faults_of_the_file_of_devices_are_told_at_once_with_their_places(tmp_path: Path) -> None:
    file = tmp_path / "devices.yaml"
    file.write_text("devices:\n  box:\n    prize: 5 EUR\n    runs: all\n")
    with pytest.raises(InputError) as refused:
        read_devices(file)
    assert f"{file}:3:" in str(refused.value) and f"{file}:4:" in str(refused.value)
