"""check for CI: one line, JUnit's XML, GitHub's annotations, and a claim card as the baseline."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from dutlab.analysis.verdict import CheckKind
from dutlab.cli.check import check
from dutlab.cli.claims import claims
from dutlab.cli.gate_runs import GateRuns
from dutlab.errors import InputError
from dutlab.report.questions.outcome import OVERALL
from fake_run import Wanted, build
from golden import Golden

MODES = {"router": "router", "nat": "nat"}
CALM = {"bad_luck": False, "repeats": 6, "cores": 0, "sizes": (64,)}
OLD, NEW, GONE, SAME = (f"2026-11-0{day}T0801Z-fw-000{day}" for day in (1, 2, 3, 4))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run; one in which `router` is as slow as `nat`; one that lacks `nat`; one that is as the first."""
    folder = tmp_path_factory.mktemp("runs")
    for name, modes in ((OLD, MODES), (NEW, {"nat": "router"}), (GONE, {"router": "router"}), (SAME, MODES)):
        build(folder, Wanted(**CALM, modes=modes, experiment="fw")).rename(folder / name)
    return folder


def run(*words: object, command: object = check) -> Result:
    return CliRunner().invoke(command, [str(w) for w in words])  # type: ignore[arg-type]


def said(*words: object) -> tuple[int, str, float | None]:
    """Exit status of a check, its kind, and the change that it would have seen."""
    done = run(*words, "--json")
    found = json.loads(done.output)
    assert (done.exit_code == 1) is found["failed"]
    return done.exit_code, found["kind"], found["seen"]


def test_the_first_line_says_the_verdict_and_what_would_have_been_seen(runs: Path, golden: Golden) -> None:
    words = [[runs / SAME, "--baseline", runs / OLD], [runs / SAME, "--baseline", runs / OLD, "--margin", "30%"],
             [runs / NEW, "--baseline", runs / OLD]]  # fmt: skip
    golden.check("check-verdicts.txt", "".join(f"{run(*of).output.splitlines()[0]}\n" for of in words))
    (status, kind, seen), (_, equivalent, within), failed = (said(*of) for of in words)
    assert (status, kind, equivalent, failed[:2]) == (0, "PASS", "PASS", (1, "FAIL"))
    assert seen is not None and 0.04 < seen < 0.12 and within is not None and within < 0.3


def test_a_check_that_could_have_seen_less_than_is_allowed_cannot_tell(runs: Path, tmp_path: Path) -> None:
    assert run(runs / OLD, "-o", tmp_path, command=claims).exit_code == 0
    (card,) = tmp_path.glob("claim-1-*.json")
    noisy = json.loads(card.read_text())
    for cell in noisy["cells"]:
        cell["values"] = [value * (0.4 if n % 2 else 1.6) for n, value in enumerate(cell["values"])]
    card.write_text(json.dumps(noisy))
    status, kind, seen = said(runs / OLD, "--baseline", card)
    assert (status, kind) == (2, "CANNOT_TELL") and seen is not None and seen > 0.3
    assert said(runs / OLD, "--baseline", card, "--threshold", "99%")[:2] == (2, "CANNOT_TELL")
    assert said(runs / SAME, "--baseline", runs / OLD, "--threshold", "5%")[:2] == (0, "PASS"), "calm repeats see less than 5 %"
    root = ET.fromstring(CliRunner().invoke(check, [str(runs / OLD), "--baseline", str(card), "--format", "junit"]).stdout)
    assert root[0].attrib["errors"] == "1" and len(root.findall(".//error")) == 1
    lines = CliRunner().invoke(check, [str(runs / OLD), "--baseline", str(card), "--format", "github"]).stdout.splitlines()
    assert lines[-1].startswith("::error title=dutlab check::CANNOT TELL")


@pytest.mark.parametrize("others", [[OLD], [SAME, "--baseline", OLD]])
def test_a_run_is_not_checked_against_itself(runs: Path, others: list[str]) -> None:
    done = run(runs / OLD, "--baseline", *(word if word.startswith("--") else runs / word for word in others))
    assert isinstance(done.exception, InputError) and OLD in done.exception.what


def test_a_missing_result_fails_and_is_named(runs: Path) -> None:
    line = run(runs / GONE, "--baseline", runs / OLD).output.splitlines()[0]
    assert line.startswith("FAIL: 4 results missing: nat · ") and " and 3 more; " in line


def test_a_threshold_that_fails_without_proof_is_named(runs: Path) -> None:
    line = run(runs / NEW, "--baseline", runs / OLD, "--threshold", "1%", "--least", "95%").output.splitlines()[0]
    assert line.startswith("FAIL: ") and "1 %" in line


def test_junit_has_what_its_readers_require_and_nothing_else(runs: Path) -> None:
    """Attributes and children by Jenkins' junit-10.xsd and by Ant's JUnitReport, as far as both agree."""
    required = {
        "testsuites": set(),
        "testsuite": {"package", "id", "name", "timestamp", "hostname", "tests", "failures", "errors", "skipped", "time"},
        "properties": set(), "property": {"name", "value"}, "testcase": {"name", "classname", "time"},
        "failure": {"message", "type"}, "system-out": set(), "system-err": set(),
    }  # fmt: skip
    done = CliRunner().invoke(check, [str(runs / NEW), "--baseline", str(runs / OLD), "--format", "junit"])
    root = ET.fromstring(done.stdout)
    assert {(e.tag, frozenset(e.attrib)) for e in root.iter()} == {(tag, frozenset(names)) for tag, names in required.items()}
    (suite,) = root
    tags = [e.tag for e in suite]
    cases = suite.findall("testcase")
    assert tags == ["properties", *["testcase"] * len(cases), "system-out", "system-err"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
    assert (suite.attrib["tests"], suite.attrib["failures"]) == (str(len(cases)), str(len(suite.findall("testcase/failure"))))
    failed = {case.attrib["name"] for case in cases if case.find("failure") is not None}
    assert OVERALL in failed and "router · sweep 64 · link a · received_pps" in failed
    assert sum("missing" in case.find("failure").attrib["message"] for case in cases if case.find("failure") is not None) == 4  # type: ignore[union-attr]
    assert len({case.attrib["name"] for case in cases}) == len(cases)
    assert done.stderr.startswith("FAIL: ") and done.exit_code == 1


def test_names_from_outside_cannot_leave_xml_or_an_annotation(tmp_path: Path) -> None:
    hostile = "a<b>&\"']]>\x1b[2J\n::error::x%0A,y:z\ufffe\U0001f600"
    modes = {"router": "router", "nat": hostile}
    old = build(tmp_path, Wanted(**CALM, modes=modes)).rename(tmp_path / OLD)
    new = build(tmp_path, Wanted(**CALM, modes={"router": "router"})).rename(tmp_path / NEW)
    root = ET.fromstring(CliRunner().invoke(check, [str(new), "--baseline", str(old), "--format", "junit"]).stdout)
    assert any("a<b>&" in case.attrib["name"] for case in root.iter("testcase"))
    lines = CliRunner().invoke(check, [str(new), "--baseline", str(old), "--format", "github"]).stdout.splitlines()
    assert all(re.match(r"::(error|warning|notice) title=[^:,]*::", line) for line in lines)
    assert any("%250A%2Cy%3Az" in line for line in lines)


def test_annotations_are_one_line_for_each_failure_and_the_verdict(runs: Path) -> None:
    done = CliRunner().invoke(check, [str(runs / NEW), "--baseline", str(runs / OLD), "--format", "github"])
    errors = [line for line in done.stdout.splitlines() if line.startswith("::error ")]
    assert errors[-1].startswith("::error title=dutlab check::FAIL: ")
    assert any(line.startswith("::error title=router · sweep 64 · link a · received_pps::") and "%25 slower" in line for line in errors)
    passed = CliRunner().invoke(check, [str(runs / SAME), "--baseline", str(runs / OLD), "--format", "github"])
    assert passed.stdout.splitlines()[-1].startswith("::notice title=dutlab check::PASS: ")


@pytest.mark.parametrize("second", CheckKind)
def test_what_fails_is_measured_again_where_that_is_asked_for(runs: Path, monkeypatch: pytest.MonkeyPatch, second: CheckKind) -> None:
    asked: list[tuple[str, str]] = []

    def again(_: GateRuns, paths: tuple[Path, Path], least: dict[tuple[str, str], float]) -> dict[tuple[str, str], CheckKind]:
        assert paths == (runs / GONE, runs / NEW)
        asked.extend(least)
        return dict.fromkeys(least, second)

    monkeypatch.setattr(GateRuns, "again", again)
    monkeypatch.setattr("dutlab.runner.recovery.builds_lab", lambda _: False)  # these runs have no testbed
    monkeypatch.setattr("dutlab.tools.engine.binary.find_engine", Path)
    status, kind, _ = said(runs / NEW, "--baseline", runs / GONE, "--confirm", "1min")
    assert asked and all(label.startswith("router · ") for label, _ in asked)
    assert kind in {CheckKind.PASS: {"PASS", "CANNOT_TELL"}}.get(second, {second.name})
    assert status == CheckKind[kind].exit_status
    asked.clear()
    assert said(runs / SAME, "--baseline", runs / OLD, "--confirm", "1min")[:2] == (0, "PASS") and not asked
    done = run(runs / NEW, runs / SAME, "--baseline", runs / OLD, "--confirm", "1min")
    assert isinstance(done.exception, InputError) and "--confirm" in done.exception.what


def cards(run_folder: Path, out: Path) -> list[Path]:
    assert run(run_folder, "-o", out, command=claims).exit_code == 0
    return sorted(out.glob("*.json"))


def test_a_run_is_checked_against_claim_cards_without_the_run_that_they_are_of(runs: Path, tmp_path: Path) -> None:
    files = cards(shutil.copytree(runs / OLD, tmp_path / OLD), tmp_path / "cards")
    shutil.rmtree(tmp_path / OLD)
    baseline = [word for file in files for word in ("--baseline", file)]
    assert run(runs / OLD, *baseline).output.splitlines()[0].startswith("PASS: none of ")
    slower = run(runs / NEW, *baseline)
    assert (slower.exit_code, "router · " in slower.output.splitlines()[0]) == (1, True)
    found = json.loads(run(runs / NEW, *baseline, "--json").output)
    assert found["kind"] == "FAIL" and found["failed"] and found["runs"][0] == [OLD]
    assert all(label.startswith("nat · ") for label in found["only_first"])


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--baseline", SAME], "one run"),
        (["--match-modes", "router=nat"], "one run"),
        ([NEW], "one run"),
        (["--figure", "received_pps"], "--figure"),
    ],
)
def test_a_claim_card_beside_what_it_cannot_be_with_is_refused(runs: Path, tmp_path: Path, more: list[str], why: str) -> None:
    (card, *_) = cards(runs / OLD, tmp_path / "cards")
    words = [str(runs / word) if word in {SAME, NEW} else word for word in more]
    done = run(runs / OLD, "--baseline", card, *words)
    assert isinstance(done.exception, InputError) and why in str(done.exception)


def test_a_file_that_is_no_card_and_a_card_of_something_else_are_refused(runs: Path, tmp_path: Path) -> None:
    (card, *_) = cards(runs / OLD, tmp_path / "cards")
    other = json.loads(card.read_text())
    for cell in other["cells"]:
        cell["params"] = {"duration_s": 1}
    (tmp_path / "other.json").write_text(json.dumps(other))
    (tmp_path / "none.json").write_text("{}")
    (tmp_path / "text.json").write_text("hello")
    for name, why in (("none.json", "is not a claim card"), ("text.json", "text.json"), ("other.json", "has no result of")):
        assert why in str(run(runs / OLD, "--baseline", tmp_path / name).exception)
