"""scripts/again: what failed beside others runs once more alone, and the last lines say which passed then, or why they failed again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from capability import need_program
from processes import LIMIT_S

AGAIN = Path(__file__).parents[2] / "scripts" / "again"
TESTS = """
import pathlib
import pytest

SEEN = pathlib.Path("seen")

def test_that_passes():
    pass

def test_that_fails_by_chance():
    first = not SEEN.exists()
    SEEN.touch()
    assert not first

@pytest.fixture
def leaves_something():
    yield
    assert SEEN.exists()
    SEEN.unlink()

@pytest.mark.parametrize("number", range(6))
def test_that_is_wrong(number):
    assert False

def test_whose_end_is_wrong(leaves_something):
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_tiny.py").write_text(TESTS)
    return tmp_path


def ran(folder: Path, python: str, *chosen: str) -> subprocess.CompletedProcess[str]:
    """What scripts/again says after a run of the chosen tests."""
    first = [python, "-m", "pytest", "-q", "-o", "cache_dir=cache", *(f"test_tiny.py::{name}" for name in chosen)]
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}, "PYTHON": python, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run(first, cwd=folder, env=env, capture_output=True, check=False, timeout=LIMIT_S)
    return subprocess.run([AGAIN, "pytest", "cache"], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S)


def test_one_that_passes_alone_is_named_and_no_failure(folder: Path, python: str) -> None:
    done = ran(folder, python, "test_that_passes", "test_that_fails_by_chance")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == ("dutlab: 1 test failed beside others and passed alone: test_tiny.py::test_that_fails_by_chance")
    assert "1 passed" in done.stdout and "test_that_passes" not in done.stdout


def test_one_that_fails_alone_too_is_a_failure_and_both_are_named(folder: Path, python: str) -> None:
    done = ran(folder, python, "test_that_fails_by_chance", "test_that_is_wrong[3]")
    assert done.returncode == 1, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("dutlab: 2 tests failed beside others, and not all passed alone: ")
    assert "test_that_fails_by_chance" in last and "test_that_is_wrong[3]" in last
    assert "1 failed, 1 passed" in done.stdout


def test_more_than_five_are_no_chance_and_none_runs_again(folder: Path, python: str) -> None:
    done = ran(folder, python, "test_that_is_wrong")
    assert (done.returncode, done.stdout) == (
        1,
        "dutlab: 6 tests failed beside others; that is more than 5, so none runs again alone\n",
    )


def test_an_error_after_the_test_counts_as_its_failure(folder: Path, python: str) -> None:
    done = ran(folder, python, "test_whose_end_is_wrong")
    assert done.returncode == 1, done.stderr
    assert "not all passed alone: test_tiny.py::test_whose_end_is_wrong" in done.stdout


def test_a_run_in_which_nothing_failed_has_nothing_to_run_again(folder: Path, python: str) -> None:
    (folder / "cache/v/cache").mkdir(parents=True)
    (folder / "cache/v/cache/lastfailed").write_text("{}")
    env = {**os.environ, "PYTHON": python}
    done = subprocess.run([AGAIN, "pytest", "cache"], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (1, "dutlab: the tests ended badly, and none of them is known to have failed\n")


def all_tests(folder: Path, python: str, tests: str, cargo: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`scripts/test` where these are the unit tests and `cargo` does that, except while it builds."""
    (folder / "scripts").symlink_to(AGAIN.parent)
    for kind in ("netns", "browser", "contract", "unit", "faults"):
        (folder / "tests" / kind).mkdir(parents=True)
    (folder / "test_tiny.py").unlink()
    (folder / "tests/unit/test_tiny.py").write_text(tests)
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, does in (("python", f'exec {python} "$@"'), ("cargo", f"case $* in *--no-run*) ;; *) {cargo} ;; esac")):
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    env = {**kept, **env, "PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run(["scripts/test"], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S)


def test_the_output_of_all_tests_ends_with_what_failed_twice_and_why(folder: Path, python: str) -> None:
    done = all_tests(folder, python, TESTS.replace("range(6)", "range(1)"), 'echo "test result: ok. 3 passed"')
    assert done.returncode == 1, done.stdout + done.stderr
    end = done.stdout.rpartition("test result: ok. 3 passed\n")[2].splitlines()
    assert "E   assert False" in end and "FAILED tests/unit/test_tiny.py::test_that_is_wrong[0] - assert False" in end, done.stdout
    assert [line for line in end if line.startswith("dutlab: ")] == end[-1:] and "test_that_is_wrong[0]" in end[-1], done.stdout


def test_tests_that_hang_are_ended_and_named_and_run_again_alone(folder: Path, python: str) -> None:
    hangs = "import pathlib, time\ndef test_hangs():\n    if not pathlib.Path('seen').exists():\n        pathlib.Path('seen').touch()\n"
    (folder / "pytest.ini").write_text("[pytest]\nfaulthandler_timeout=10\nfaulthandler_exit_on_timeout=true\n")
    says = "test tests::slow has been running for over 60 seconds\\ntest tests::slow ... ok\\ntest tests::hangs has been running for over 60 seconds"
    cargo = f'case $* in *--exact*) echo "alone: $*" ;; *) printf "{says}\\n"; sleep {LIMIT_S:.0f} ;; esac'
    done = all_tests(folder, python, hangs + f"        time.sleep({LIMIT_S})\n", cargo, RUST_LIMIT_S="5")
    assert done.returncode == 0, done.stdout + done.stderr
    end = done.stdout.splitlines()
    assert "dutlab: the Rust tests were ended after 5 s" in end, done.stdout
    assert any(line.startswith("alone: ") and line.endswith(" --exact tests::hangs") for line in end), done.stdout
    assert end[-2:] == [
        "dutlab: 1 test failed beside others and passed alone: tests/unit/test_tiny.py::test_hangs",
        "dutlab: 1 test failed beside others and passed alone: tests::hangs",
    ]


LIBRARY = """
#[cfg(test)]
mod tests {
    #[test]
    fn passes() {}
    #[test]
    fn fails_by_chance() {
        let first = !std::path::Path::new("seen").exists();
        std::fs::write("seen", "").unwrap();
        assert!(!first);
    }
    #[test]
    fn is_wrong() {
        assert_eq!(1, 2);
    }
}
"""


@pytest.mark.parametrize(
    ("failed", "status", "last"),
    [
        (["fails_by_chance"], 0, "dutlab: 1 test failed beside others and passed alone: tests::fails_by_chance"),
        (
            ["fails_by_chance", "is_wrong"],
            1,
            "dutlab: 2 tests failed beside others, and not all passed alone: tests::fails_by_chance, tests::is_wrong",
        ),
    ],
)
def test_rust_tests_run_again_alone_as_well(tmp_path: Path, failed: list[str], status: int, last: str) -> None:
    need_program("cargo")
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "tiny"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n')
    (tmp_path / "src").mkdir()
    (tmp_path / "src/lib.rs").write_text(LIBRARY)
    env = {**os.environ, "CARGO_TARGET_DIR": str(tmp_path / "target")}
    cargo = ["cargo", "test", "--release", "--lib", "--offline", "--"]
    first = subprocess.run([*cargo, "passes", *failed], cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    (tmp_path / "said").write_text(first.stdout)
    done = subprocess.run([AGAIN, "cargo", "said"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (status, last), done.stdout + done.stderr
    assert "tests::passes" not in done.stdout
