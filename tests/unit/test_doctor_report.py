"""How findings are told: on the terminal, in a run's folder, and in each form of its report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.analysis.doctor import CureStep, Evidence, Finding, Price
from dutlab.cli.doctor import finding_lines
from dutlab.cli.main import dutlab
from dutlab.doubts import Grade
from dutlab.report.gather import gather
from dutlab.report.pages.html import html
from dutlab.report.pages.json_data import json_data
from dutlab.report.pages.markdown import markdown
from dutlab.runner.examine import doubts_of
from dutlab.store.run_folder import RunFolder
from golden import Golden

EVIL = "<script>alert(1)</script>|`x`\x1b[2J\n| forged | row |"
FINDING = Finding(
    "narrow-slot",
    "the card is on a PCI Express link of Gen2 x1",
    Price(65.7, "line rate with 1518-byte frames", "computed: 1 - 0.421 / 1.23"),
    ("dut:in0",),
    (Evidence("dut", "/sys/bus/pci/devices/0000:03:00.0/current_link_width", "1 of 8"),),
    (CureStep("dut", "by hand: move the card"),),
    (CureStep("dut", "by hand: put it back"),),
)
HOSTILE = Finding(
    "governor", f"the frequency governor of the cores is {EVIL}", Price(None, "", "not known"), (EVIL,),
    (Evidence("dut", EVIL, EVIL),), (CureStep("dut", f"echo '{EVIL}'"),), (),
)  # fmt: skip


SMALL = {"repeats": 1, "seconds": 2, "cores": 0, "sizes": (64,)}


@pytest.fixture(scope="module")
def run(built: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = shutil.copytree(built(**SMALL), tmp_path_factory.mktemp("runs") / "run")
    kept = RunFolder.open(folder)
    kept.write_findings([f.to_json() for f in (HOSTILE, FINDING)])
    kept.write_findings([FINDING.to_json()])  # what a resumed run found
    return folder


def test_the_report_has_each_finding_once_and_the_largest_impact_first(run: Path) -> None:
    report = gather(run, run)
    assert [f.kind for f in report.findings] == ["narrow-slot", "governor"]
    page = html([report], {report.name: []})
    assert page.index("65.7 % of line rate") < page.index("frequency governor")
    assert "<code>/sys/bus/pci/devices/0000:03:00.0/current_link_width</code>: 1 of 8" in page
    (told,) = [row for row in json.loads(json_data([report]))["runs"][0]["findings"] if row["kind"] == "narrow-slot"]
    assert told["price"] == {"percent": 65.7, "of": "line rate with 1518-byte frames", "source": "computed: 1 - 0.421 / 1.23"}


def test_what_a_host_says_of_itself_is_text_in_every_form(run: Path) -> None:
    report = gather(run, run)
    assert "<script>" not in html([report], {report.name: []})
    text = markdown([report])
    assert "<script>" not in text
    (row,) = [line for line in text.splitlines() if "frequency governor" in line]
    assert row.replace("\\|", "").count("|") == 7  # six cells, whatever is in them
    assert not any(line.startswith("| forged") for line in text.splitlines())
    assert not any("\x1b" in line or "\n" in line for line in finding_lines([HOSTILE]))


def test_a_damaged_file_of_findings_is_a_fault_and_without_one_there_is_no_section(built: Callable[..., Path], tmp_path: Path) -> None:
    run = shutil.copytree(built(**SMALL), tmp_path / "run")
    report = gather(run, run)
    assert "What distorts results" not in html([report], {report.name: []}) + markdown([report])
    (run / "doctor.json").write_text('{"schema_version": 1, "findings": [{"kind": "governor"}]}')
    report = gather(run, run)
    assert report.findings == ()
    assert any("doctor.json" in fault for fault in report.faults)


def test_what_costs_more_than_noise_is_a_warning_in_every_record_and_the_rest_a_note() -> None:
    cheap = replace(FINDING, price=Price(0.4, "TCP goodput", "computed"))
    assert [d.kind.grade for d in doubts_of([FINDING, cheap, HOSTILE])] == [Grade.WARNING, Grade.NOTE, Grade.NOTE]
    assert "65.7 % of line rate" in doubts_of([FINDING])[0].detail


def test_the_terminal_has_evidence_price_cure_and_undo_as_on_the_golden_page(golden: Golden) -> None:
    golden.check("doctor.txt", "\n".join([*finding_lines([FINDING, HOSTILE]), *finding_lines([])]) + "\n")


def test_a_testbed_and_a_lab_exclude_one_another(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("testbed: t\n")
    done = CliRunner().invoke(dutlab, ["doctor", "--testbed", str(tmp_path / "t.yaml"), "--lab", "three-node"])
    assert done.exit_code == 2 and "exclude one another" in done.output


def test_this_machine_is_examined_without_a_testbed() -> None:
    done = CliRunner().invoke(dutlab, ["doctor", "--json"])
    findings = json.loads(done.stdout)["findings"]
    assert done.exit_code == (1 if findings else 0), done.output
    assert json.loads(json.dumps([Finding.from_json(f).to_json() for f in findings])) == findings
