"""The steps of action.yml, run as GitHub runs them: `bash` of its form, inputs in the environment, files for outputs and summary."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from ruamel.yaml import YAML

from github_steps import Shell

ROOT = Path(__file__).parents[2]
ACTION = YAML(typ="safe").load(ROOT / "action.yml")
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
NAME = "an experiment; touch pwned"
EXPERIMENT = """
experiment: gate
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - sweep: {frame_sizes: [64], rates: [1kpps], duration: 200ms, warmup: 0s, drain: 100ms, links: [[a]]}
repeats: 4
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

    def run(name: str, **given: str) -> subprocess.CompletedProcess[str]:
        assert set(STEPS[name]["env"]) == set(given), "every input of the step is handed over"
        return shell.run(STEPS[name]["run"], **given)

    return run


def test_a_run_is_summed_up_kept_by_name_and_checked_against_another(step: Step, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    assert step("install", ACTION=str(ROOT)).returncode == 0
    assert (tmp_path / "path").read_text() == "", "dutlab is there, so nothing is built"
    done = step("measure", EXPERIMENT=NAME, RUNS="runs")
    assert done.returncode == 0, done.stderr
    run = (tmp_path / "output").read_text().strip().removeprefix("run=")
    assert (repository / run / "plan.json").exists()
    assert (tmp_path / "summary").read_text().count("# gate") == 1
    shutil.copytree(repository / run, repository / "before")
    done = step("check", RUN=run, BASELINE="before", OPTIONS="--least\n50%\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("::notice title=dutlab check::PASS")
    assert ET.parse(repository / "check.xml").getroot()[0].attrib["failures"] == "0"
    assert not (repository / "pwned").exists()


def test_an_experiment_that_is_refused_fails_the_step_and_keeps_nothing(step: Step, tmp_path: Path) -> None:
    (tmp_path / "repository" / NAME).write_text(EXPERIMENT.replace("repeats: 4", "repeats: 0"))
    done = step("measure", EXPERIMENT=NAME, RUNS="runs")
    assert done.returncode == 2
    assert (tmp_path / "output").read_text() == (tmp_path / "summary").read_text() == ""


def test_nothing_from_outside_is_a_part_of_a_script() -> None:
    scripts: list[Any] = [step["run"] for step in STEPS.values() if "run" in step]
    assert len(scripts) == 3
    assert not [script for script in scripts if "${{" in script]
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])
