"""The steps of action.yml, run as GitHub runs them: `bash` of its form, inputs in the environment, files for outputs and summary."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from github_steps import Shell

ROOT = Path(__file__).parents[2]
ACTION = YAML(typ="safe").load(ROOT / "action.yml")
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
NAME = "an experiment; touch pwned.yaml"
EXPERIMENT = """
experiment: gate
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - sweep: {frame_sizes: [64], rates: [1kpps], duration: 200ms, warmup: 0s, drain: 100ms, links: [[a]]}
disturbed: count
"""
Step = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def step(python_env: dict[str, str], tmp_path: Path) -> Step:
    """Runs a step in a repository with an experiment whose name is a command."""
    github = {"GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary", "GITHUB_PATH": "path"}
    for name in github.values():
        (tmp_path / name).write_text("")
    shell = Shell(tmp_path, {**python_env, **{name: str(tmp_path / file) for name, file in github.items()}})
    (shell.repository / NAME).write_text(EXPERIMENT)
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.net", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "an experiment")):
        subprocess.run([*git, *words], cwd=shell.repository, check=True)

    def run(name: str, **given: str) -> subprocess.CompletedProcess[str]:
        assert set(STEPS[name]["env"]) == set(given), "every input of the step is handed over"
        return shell.run(STEPS[name]["run"], **given)

    return run


def test_a_change_is_held_against_its_base_and_its_runs_are_named(step: Step, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    assert step("install", ACTION=str(ROOT)).returncode == 0
    assert (tmp_path / "path").read_text() == "", "dutlab is there, so nothing is built"
    done = step("gate", HEAD=NAME, BASE="", BASE_REF="HEAD", OPTIONS="--budget\n40s\n", RUNS="runs")
    found = json.loads((repository / "gate.json").read_text())
    assert "kind" in found, (found, done.stderr)
    assert done.returncode == found["exit_status"] and found["kind"] in {"PASS", "CANNOT_TELL"}, done.stderr  # as calm as the machine is
    verdict, *lines = (tmp_path / "output").read_text().splitlines()
    assert verdict == f"verdict={found['kind']}" and (lines[0], lines[-1]) == ("runs<<end-of-runs", "end-of-runs")
    assert lines[1:-1] == found["parts"][0]["runs"] and all((repository / run / "plan.json").exists() for run in lines[1:-1])
    assert done.stdout.splitlines()[-1].startswith(("::notice title=dutlab gate::", "::error title=dutlab gate::"))
    assert (tmp_path / "summary").read_text().startswith("**") and (repository / "gate.xml").exists()
    assert not list(repository.glob("pwned*"))


def test_an_experiment_that_is_refused_fails_the_step_and_keeps_nothing(step: Step, tmp_path: Path) -> None:
    (tmp_path / "repository" / NAME).write_text(EXPERIMENT.replace("[64]", "[0]"))
    done = step("gate", HEAD=NAME, BASE="", BASE_REF="HEAD", OPTIONS="", RUNS="runs")
    assert done.returncode == 2
    assert (tmp_path / "output").read_text() == (tmp_path / "summary").read_text() == ""


def test_nothing_from_outside_is_a_part_of_a_script() -> None:
    scripts: list[Any] = [step["run"] for step in STEPS.values() if "run" in step]
    assert len(scripts) == 2
    assert not [script for script in scripts if "${{" in script]
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])
