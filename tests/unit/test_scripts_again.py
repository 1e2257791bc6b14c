"""scripts/test and scripts/again: a failed test runs once more alone, and the last lines say whether it is flaky or wrong."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from processes import LIMIT_S

SCRIPTS = Path(__file__).parents[2] / "scripts"
TESTS = """
import pathlib, pytest

@pytest.fixture
def wrong_end():
    yield
    assert False

def test_flaky():
    first = not pathlib.Path("seen").exists()
    pathlib.Path("seen").touch()
    assert not first

def test_wrong(wrong_end):
    pass
"""
CARGO = """#!/bin/sh
case $* in
*--no-run*) ;;
*--exact*)
    for name; do
        case $name in
        tests::wrong) printf 'test %s ... FAILED\\nfailures:\\n    %s\\n' "$name" "$name" ;;
        tests::hangs) printf 'test %s ... ' "$name" ;;
        tests::*) printf 'test %s ... ok\\n' "$name" ;;
        esac
    done
    ;;
*) printf '%s\\n' "$CARGO_OUTPUT"; sleep "${CARGO_SLEEPS_S:-0}"; exit 1 ;;
esac
"""


@pytest.fixture
def project(tmp_path: Path, python: str) -> Path:
    """A folder with these scripts, two tests that fail, and a cargo that prints what it is given."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "scripts").symlink_to(SCRIPTS)
    for folder in ("netns", "contract", "unit", "faults"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
    (tmp_path / "tests/unit/test_tiny.py").write_text(TESTS)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, text in (("python", f'#!/bin/sh\nexec {python} "$@"\n'), ("cargo", CARGO)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return tmp_path


def run(project: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    env = {**kept, "PATH": f"{project / '.venv/bin'}:{os.environ['PATH']}", "PROCESSES": "0", "FLAKY": "fails", **env}
    return subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S)


def verdicts(output: str) -> dict[str, set[str]]:
    """Test names by verdict, from the lines that begin with `dutlab: `."""
    lines = [line.removeprefix("dutlab: ").rpartition(": ") for line in output.splitlines() if line.startswith("dutlab: ")]
    return {what.partition(",")[0]: {name for w, _, name in lines if w == what} for what, _, _ in lines}


def test_flaky_and_wrong_tests_are_named_apart_and_both_fail_the_run(project: Path) -> None:
    done = run(project, "scripts/test", "base", CARGO_OUTPUT="failures:\n    tests::wrong\n    tests::flaky\ntest result: FAILED. 2 failed")
    assert done.returncode == 1, done.stdout + done.stderr
    end = done.stdout.rpartition("test result: FAILED. 2 failed\n")[2]
    assert verdicts(end) == {
        "flaky": {"tests/unit/test_tiny.py::test_flaky", "tests::flaky"},
        "failed twice": {"tests/unit/test_tiny.py::test_wrong", "tests::wrong"},
    }
    assert "assert False" in end, "why it failed is in the last lines"


def test_rust_tests_that_hang_are_ended_and_named(project: Path) -> None:
    (project / "tests/unit/test_tiny.py").write_text("def test_right():\n    pass\n")
    slow = "test tests::{0} has been running for over 60 seconds"
    output = f"{slow.format('slow')}\ntest tests::slow ... ok\n{slow.format('hangs')}"
    done = run(project, "scripts/test", "base", CARGO_OUTPUT=output, CARGO_SLEEPS_S=f"{LIMIT_S:.0f}", RUST_LIMIT_S="2")
    assert done.returncode == 1
    assert verdicts(done.stdout)["failed twice"] == {"tests::hangs"}, "it hangs again"


@pytest.mark.parametrize(("names", "runs_again"), [([], False), ([f"tests::t{n}" for n in range(6)], False), (["tests::flaky"], True)])
def test_none_or_more_than_five_failures_run_nothing_again(project: Path, names: list[str], runs_again: bool) -> None:
    (project / "output").write_text("".join(f"    {name}\n" for name in names))
    done = run(project, "scripts/again", "cargo", "output")
    assert (done.returncode == 0) is runs_again
    assert bool(verdicts(done.stdout).get("flaky")) is runs_again


def test_an_unknown_layer_and_none_are_refused(project: Path) -> None:
    assert {run(project, "scripts/test", *words).returncode for words in ([], ["nonsense"], ["base", "nonsense"])} == {2}
