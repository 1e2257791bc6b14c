"""Published sites under attack: hostile names, links and sizes lead nowhere, and neither a kill nor a second publisher breaks a site."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dutlab.errors import InputError
from dutlab.outside import Unfit, UnfitFile
from dutlab.store.beneath import NameFault, OutsideFolder
from dutlab.store.manifest import files_of
from fake_run import Wanted, build
from processes import eventually
from published_sites import dead_links, index_of, said
from scripts_of_pages import foreign_scripts


def test_hostile_names_stay_text_and_lead_nowhere(tmp_path: Path) -> None:
    evil = '"><script>alert(1)</script>\u202e../../../etc\x1b[31m'
    run = build(tmp_path / "runs", Wanted(repeats=1, seconds=1, sizes=(64,), cores=0, bad_luck=False, hostile=evil))
    assert said(run, tmp_path / "site", "--title", evil).exit_code == 0
    assert {p.name for p in tmp_path.iterdir()} == {"runs", "site"}
    for page in (tmp_path / "site").rglob("*.html"):
        assert foreign_scripts(page.read_text()) == []
    assert list(dead_links(tmp_path / "site")) == []
    ET.parse(tmp_path / "site" / "feed.xml")


def test_hostile_folders_of_other_peoples_sites_lead_nowhere(measured: Path, corpus: list[Path], tmp_path: Path) -> None:
    said(measured, *corpus[:2], tmp_path / "theirs", "--title", "Theirs")
    runs = tmp_path / "theirs" / "runs"
    (runs / measured.name).rename(runs / '2026"><script>alert(1)<?x=1#y %41')
    os.rename(runs / corpus[0].name, os.fsencode(runs) + b"/2026\xff")  # noqa: PTH104 - bytes
    (runs / corpus[1].name / "report" / "claim-9-x.json").write_text('{"claim": 1}')
    done = said("--merge", tmp_path / "theirs", tmp_path / "corpus")
    assert done.exit_code == 0 and "not UTF-8" in done.output and "claim-9-x.json" in done.output
    assert len(index_of(tmp_path / "corpus")["runs"]) == 2
    for page in (tmp_path / "corpus").rglob("*.html"):
        assert foreign_scripts(page.read_text()) == []
    assert list(dead_links(tmp_path / "corpus")) == []


def test_a_link_in_a_run_is_not_followed(measured: Path, tmp_path: Path) -> None:
    run = shutil.copytree(measured, tmp_path / measured.name)
    (tmp_path / "secret").write_text("secret")
    raw = next((run / "trials").glob("*/raw/*"))
    raw.unlink()
    raw.symlink_to(tmp_path / "secret")
    done = said(run, tmp_path / "site")
    assert run.name in done.output and "manifest" in done.output
    assert not any(p.read_bytes() == b"secret" for p in (tmp_path / "site").rglob("*") if p.is_file())


def test_a_folder_that_is_swapped_for_a_link_while_a_run_is_copied_is_not_followed(measured, tmp_path, monkeypatch) -> None:
    run = shutil.copytree(measured, tmp_path / measured.name)
    raw = next((run / "trials").glob("*/raw/*")).parent
    shutil.copytree(raw, tmp_path / "elsewhere")
    for path in (tmp_path / "elsewhere").iterdir():
        path.write_text("secret")

    def listed(path: Path) -> Iterator[tuple[str, Path]]:
        names = files_of(path)
        if not raw.is_symlink():
            shutil.rmtree(raw)
            raw.symlink_to(tmp_path / "elsewhere")
        return names

    monkeypatch.setattr("dutlab.publish.copied_run.files_of", listed)
    with pytest.raises(OutsideFolder) as refused:
        said(run, tmp_path / "site")
    assert refused.value.kind is NameFault.LINK
    assert not [p for p in (tmp_path / "site").rglob("*") if p.is_file() and p.read_bytes() == b"secret"]


def test_a_link_in_the_place_of_the_runs_of_a_site_is_not_written_through(measured: Path, tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    said(measured, site)
    shutil.rmtree(site / "runs")
    elsewhere.mkdir()
    (site / "runs").symlink_to(elsewhere)
    with pytest.raises(OutsideFolder) as refused:
        said(measured, site)
    assert (refused.value.kind, refused.value.name) == (NameFault.LINK, "runs")
    assert not list(elsewhere.iterdir())


@pytest.mark.timing
def test_a_publisher_that_is_killed_leaves_a_site_that_the_next_one_finishes(corpus: list[Path], tmp_path: Path) -> None:
    site, some = tmp_path / "site", corpus[:4]
    words = [sys.executable, "-m", "dutlab", "publish", *map(str, some), str(site)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        assert eventually(lambda: bool(list(site.glob("runs/2*"))) or process.poll() is not None)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    (site / "runs" / f".{some[0].name}.{process.pid}.part").mkdir(exist_ok=True)
    assert said(*some, site).exit_code == 0
    assert len(index_of(site)["runs"]) == len(some) and not list(site.glob("runs/.*"))
    assert list(dead_links(site)) == []


def test_two_publishers_do_not_write_into_one_site(measured: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    handle = os.open(tmp_path / "site", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        with pytest.raises(InputError, match="another process publishes there"):
            said(measured, tmp_path / "site")
    finally:
        os.close(handle)
    assert said(measured, tmp_path / "site").exit_code == 0


def test_cards_and_indexes_of_strangers_have_a_largest_size(theirs: Path, tmp_path: Path) -> None:
    site = shutil.copytree(theirs, tmp_path / "site")
    card = next(site.glob("runs/*/report/claim-*.json"))
    with card.open("ab") as f:
        f.truncate(5 << 20)
    done = said("--merge", site, tmp_path / "merged")
    assert done.exit_code == 0 and card.name in done.output
    with (site / "index.json").open("ab") as f:
        f.truncate(257 << 20)
    with pytest.raises(UnfitFile) as refused:
        said("--merge", site, tmp_path / "again")
    assert (refused.value.path, refused.value.kind) == (site / "index.json", Unfit.TOO_LARGE)
