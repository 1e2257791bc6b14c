"""The steps of action.yml, run as GitHub runs them: `bash` of its form, inputs in the environment, files for outputs and summary."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from ruamel.yaml import YAML

from processes import LIMIT_S

ROOT = Path(__file__).parents[2]
ACTION = YAML(typ="safe").load(ROOT / "action.yml")
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
NAME = "an experiment; touch pwned"
EXPERIMENT = """
experiment: gate
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - sweep: {frame_sizes: [64], rates: [1kpps], duration: 300ms, warmup: 0s, drain: 100ms, links: [[a]]}
repeats: 6
disturbed: count
"""
Step = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def step(python_env: dict[str, str], tmp_path: Path) -> Step:
    """Runs a step in a repository with an experiment whose name is a command."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/dutlab").write_text(f'#!/bin/sh\nexec {sys.executable} -m dutlab "$@"\n')
    (tmp_path / "bin/dutlab").chmod(0o755)
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository" / NAME).write_text(EXPERIMENT)
    for name in ("output", "summary", "path"):
        (tmp_path / name).write_text("")
    github = {"GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary", "GITHUB_PATH": "path"}
    env = {
        **python_env,
        "PATH": f"{tmp_path / 'bin'}:{python_env['PATH']}",
        **{name: str(tmp_path / file) for name, file in github.items()},
    }

    def run(name: str, **given: str) -> subprocess.CompletedProcess[str]:
        assert set(STEPS[name]["env"]) == set(given), "every input of the step is handed over"
        argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[name]["run"]]
        where = tmp_path / "repository"
        return subprocess.run(argv, cwd=where, env={**env, **given}, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    return run


def test_a_run_is_summed_up_kept_by_name_and_checked_against_another(step: Step, tmp_path: Path) -> None:
    assert step("install", ACTION=str(ROOT)).returncode == 0
    assert (tmp_path / "path").read_text() == "", "dutlab is there, so nothing is built"
    runs = []
    for _ in range(2):
        (tmp_path / "output").write_text("")
        done = step("measure", EXPERIMENT=NAME, RUNS="runs")
        assert done.returncode == 0, done.stderr
        runs.append((tmp_path / "output").read_text().strip().removeprefix("run="))
    assert len(set(runs)) == 2 and all((tmp_path / "repository" / run / "plan.json").exists() for run in runs)
    assert (tmp_path / "summary").read_text().count("# gate") == 2
    done = step("check", RUN=runs[1], BASELINE=runs[0], OPTIONS="--least\n50%\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("::notice title=dutlab check::PASS")
    assert ET.parse(tmp_path / "repository/check.xml").getroot()[0].attrib["failures"] == "0"
    assert not (tmp_path / "repository/pwned").exists()


def test_an_experiment_that_is_refused_fails_the_step_and_keeps_nothing(step: Step, tmp_path: Path) -> None:
    (tmp_path / "repository" / NAME).write_text(EXPERIMENT.replace("repeats: 6", "repeats: 0"))
    done = step("measure", EXPERIMENT=NAME, RUNS="runs")
    assert done.returncode == 2
    assert "repeats: must be a whole number" in done.stderr
    assert (tmp_path / "output").read_text() == (tmp_path / "summary").read_text() == ""


def test_nothing_from_outside_is_a_part_of_a_script() -> None:
    scripts: list[Any] = [step["run"] for step in STEPS.values() if "run" in step]
    assert len(scripts) == 3
    assert not [script for script in scripts if "${{" in script]
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])
