"""check for CI: one line, JUnit's XML, GitHub's annotations, and a claim card as the baseline."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from dutlab.cli.check import check
from dutlab.cli.claims import claims
from dutlab.errors import InputError
from fake_run import Wanted, build
from golden import Golden

MODES = {"router": "router", "nat": "nat"}
CALM = {"bad_luck": False, "repeats": 6, "cores": 0, "sizes": (64,)}
OLD, NEW, GONE = "2026-11-01T0801Z-fw-0001", "2026-11-02T0801Z-fw-0002", "2026-11-03T0801Z-fw-0003"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run; one in which `router` is as slow as `nat`; one that lacks `nat`."""
    folder = tmp_path_factory.mktemp("runs")
    for name, modes in ((OLD, MODES), (NEW, {"nat": "router"}), (GONE, {"router": "router"})):
        build(folder, Wanted(**CALM, modes=modes, experiment="fw")).rename(folder / name)
    return folder


def run(*words: object, command: object = check) -> Result:
    return CliRunner().invoke(command, [str(w) for w in words])  # type: ignore[arg-type]


def test_the_last_line_says_fail_and_the_worst_result(runs: Path) -> None:
    done = run(runs / NEW, "--baseline", runs / OLD)
    assert done.exit_code == 1
    line = done.output.splitlines()[-1]
    assert re.match(r"FAIL: \d+ % slower overall .* of 6 results .* router.* 4 results missing: nat · ", line)


def test_the_last_line_says_pass_and_what_it_would_have_seen(runs: Path, golden: Golden) -> None:
    done, same = (run(runs / OLD, "--baseline", runs / OLD, *words) for words in ([], ["--margin", "30%"]))
    golden.check(
        "check-verdicts.txt", "".join(f"{of.output.splitlines()[-1]}\n" for of in (done, same, run(runs / NEW, "--baseline", runs / OLD)))
    )
    assert done.exit_code == 0


def test_a_pass_says_when_the_repeats_are_too_noisy_to_see_much(runs: Path, tmp_path: Path) -> None:
    assert run(runs / OLD, "-o", tmp_path, command=claims).exit_code == 0
    (card,) = tmp_path.glob("claim-1-*.json")
    noisy = json.loads(card.read_text())
    for cell in noisy["cells"]:
        cell["values"] = [value * (0.4 if n % 2 else 1.6) for n, value in enumerate(cell["values"])]
    card.write_text(json.dumps(noisy))
    line = run(runs / OLD, "--baseline", card).output.splitlines()[-1]
    found = re.fullmatch(r"PASS: .*none of \d+ results is worse .*; repeats spread so much that changes below (\d+) % may go unseen", line)
    assert found is not None and int(found[1]) > 30, line


def test_a_missing_result_fails_and_is_named(runs: Path) -> None:
    line = run(runs / GONE, "--baseline", runs / OLD).output.splitlines()[-1]
    assert line.startswith("FAIL: 4 results missing: nat · ") and line.endswith(" and 3 more")


def test_a_threshold_that_fails_without_proof_is_named(runs: Path) -> None:
    line = run(runs / NEW, "--baseline", runs / OLD, "--threshold", "1%", "--least", "95%").output.splitlines()[-1]
    assert "beyond the threshold of 1 %" in line


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
    assert "all cells together" in failed and "router · sweep 64 · link a · received_pps" in failed
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
    passed = CliRunner().invoke(check, [str(runs / OLD), "--baseline", str(runs / OLD), "--format", "github"])
    assert passed.stdout.splitlines()[-1].startswith("::notice title=dutlab check::PASS: ")


def cards(run_folder: Path, out: Path) -> list[Path]:
    assert run(run_folder, "-o", out, command=claims).exit_code == 0
    return sorted(out.glob("*.json"))


def test_a_run_is_checked_against_claim_cards_without_the_run_that_they_are_of(runs: Path, tmp_path: Path) -> None:
    files = cards(shutil.copytree(runs / OLD, tmp_path / OLD), tmp_path / "cards")
    shutil.rmtree(tmp_path / OLD)
    baseline = [word for file in files for word in ("--baseline", file)]
    assert run(runs / OLD, *baseline).output.splitlines()[-1].startswith("PASS: none of ")
    slower = run(runs / NEW, *baseline)
    assert (slower.exit_code, "router · " in slower.output.splitlines()[-1]) == (1, True)
    said = json.loads(run(runs / NEW, *baseline, "--json").output)
    assert said["verdict"].startswith("FAIL: ") and said["failed"] and said["runs"][0] == [OLD]
    assert all(label.startswith("nat · ") for label in said["only_first"])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--baseline", OLD], "one run"),
        (["--match-modes", "router=nat"], "one run"),
        ([NEW], "one run"),
        (["--figure", "received_pps"], "--figure"),
    ],
)
def test_a_claim_card_beside_what_it_cannot_be_with_is_refused(runs: Path, tmp_path: Path, more: list[str], said: str) -> None:
    (card, *_) = cards(runs / OLD, tmp_path / "cards")
    words = [str(runs / word) if word in {OLD, NEW} else word for word in more]
    done = run(runs / OLD, "--baseline", card, *words)
    assert isinstance(done.exception, InputError) and said in str(done.exception)


def test_a_file_that_is_no_card_and_a_card_of_something_else_are_refused(runs: Path, tmp_path: Path) -> None:
    (card, *_) = cards(runs / OLD, tmp_path / "cards")
    other = json.loads(card.read_text())
    for cell in other["cells"]:
        cell["params"] = {"duration_s": 1}
    (tmp_path / "other.json").write_text(json.dumps(other))
    (tmp_path / "none.json").write_text("{}")
    (tmp_path / "text.json").write_text("hello")
    for name, said in (("none.json", "is not a claim card"), ("text.json", "text.json"), ("other.json", "has no result of")):
        assert said in str(run(runs / OLD, "--baseline", tmp_path / name).exception)
