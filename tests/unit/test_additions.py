"""Notes and files that people add to a run: kept with their hash, shown in every form of the report, and no part of the manifest."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli.add import attach, note
from dutlab.cli.compare import compare
from dutlab.cli.report import report
from dutlab.errors import InputError
from dutlab.store.run_folder import RunFolder
from fake_run import Wanted, build

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = build(tmp_path, Wanted(seconds=2, cores=0, sizes=(64,)))
    folder = RunFolder.open(made)
    folder.write_manifest()
    return made


def invoke(command, *words: object):
    return CliRunner().invoke(command, [str(word) for word in words])


def test_a_picture_and_a_note_are_in_the_report_with_hash_and_name(run: Path, tmp_path: Path) -> None:
    (tmp_path / "heat <b>.png").write_bytes(PIXEL)
    assert invoke(attach, run, tmp_path / "heat <b>.png", "--caption", "After <script>an hour</script>").exit_code == 0
    assert invoke(note, run, "The vendor lent it.", "--by", "A. Reviewer").exit_code == 0
    assert RunFolder.open(run).verify_manifest().none, "what people add is no change of what was measured"
    assert invoke(report, run).exit_code == 0
    html, markdown = ((run / "report" / f"report.{ending}").read_text() for ending in ("html", "md"))
    digest = hashlib.sha256(PIXEL).hexdigest()
    assert f'src="data:image/png;base64,{base64.b64encode(PIXEL).decode()}"' in html
    assert "After &lt;script&gt;an hour" in html and "<script>an hour" not in html
    for said in (digest, "0001-heat-b-.png", "The vendor lent it.", "A. Reviewer"):
        assert said in html and said in markdown
    (first, second) = json.loads((run / "report" / "report.json").read_text())["runs"][0]["additions"]
    assert (first["sha256"], first["size_bytes"], second["by"]) == (digest, len(PIXEL), "A. Reviewer")


def test_a_file_that_is_no_picture_is_linked_and_not_shown(run: Path, tmp_path: Path) -> None:
    (tmp_path / "page.png").write_text("<svg onload=alert(1)>")
    assert invoke(attach, run, tmp_path / "page.png", "--caption", "a-picture").exit_code == 0
    assert invoke(report, run).exit_code == 0
    html = (run / "report" / "report.html").read_text()
    assert "a-picture" in html and "<img" not in html.partition('id="r0-added"')[2].partition("</section>")[0]


def test_a_file_that_was_changed_afterwards_is_a_fault_and_is_not_shown(run: Path, tmp_path: Path) -> None:
    (tmp_path / "heat.png").write_bytes(PIXEL)
    invoke(attach, run, tmp_path / "heat.png", "--caption", "one hour")
    (run / "additions" / "0001-heat.png").write_bytes(PIXEL + b"x")
    (run / "additions" / "0002.json").write_text("{not JSON")
    assert invoke(report, run).exit_code == 0
    html = (run / "report" / "report.html").read_text()
    assert "0001-heat.png" in html and "0002.json" in html, "both faults"
    assert "data:image/png" not in html


def test_what_cannot_be_added_is_refused_and_leaves_nothing(run: Path, tmp_path: Path) -> None:
    assert isinstance(invoke(note, run, "  ").exception, InputError)
    assert isinstance(invoke(note, run, "x" * 20_001).exception, InputError)
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(65 * 2**20)
    assert "at most 64 MiB" in str(invoke(attach, run, large, "--caption", "x").exception)
    assert not list((run / "additions").glob("*"))
    assert invoke(note, tmp_path, "no run").exit_code != 0


def test_settings_of_a_bios_are_facts_that_compare_knows(run: Path, tmp_path: Path) -> None:
    other = build(tmp_path / "other", Wanted(seconds=2, cores=0, sizes=(64,)))
    for folder, boost in ((run, "disabled"), (other, "enabled")):
        (tmp_path / "bios.txt").write_text(f"# read by hand\n[CPU]\nCore Performance Boost: {boost}\nC6 = off\n[PCIe]\nASPM,off\n")
        added = invoke(attach, folder, tmp_path / "bios.txt", "--facts", "dut", "--caption", "BIOS")
        assert added.exit_code == 0, added.output
    (pair,) = json.loads(invoke(compare, run, other, "--json").output)["compared"]
    attached = [d for d in pair["differences"] if d["path"].startswith("attached.")]
    assert attached == [{"path": "attached.dut.CPU: Core Performance Boost", "first": "disabled", "second": "enabled"}]
    assert invoke(report, run).exit_code == 0
    for form in ("html", "md"):
        assert "Core Performance Boost" in (run / "report" / f"report.{form}").read_text()


@pytest.mark.parametrize("data", [b"", b"Boost\n", b"a: 1\na: 2\n", b"{", b"\xff\xfe", b"x: " + b"y" * 300])
def test_a_file_that_is_no_list_of_settings_is_refused(run: Path, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bios.txt").write_bytes(data)
    refused = invoke(attach, run, tmp_path / "bios.txt", "--facts", "dut", "--caption", "BIOS")
    assert isinstance(refused.exception, InputError) and not list((run / "additions").glob("*.json"))


def test_facts_of_a_host_that_the_run_lacks_are_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "bios.txt").write_text("Boost: on\n")
    refused = invoke(attach, run, tmp_path / "bios.txt", "--facts", "router-7", "--caption", "BIOS")
    assert isinstance(refused.exception, InputError)
