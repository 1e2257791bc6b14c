"""The steps of the workflow in examples/ci, and the commands of docs/how-to/ci.md that make its baseline."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from ruamel.yaml import YAML

from processes import LIMIT_S

ROOT = Path(__file__).parents[2]
SHORT = "frame_sizes=64 rates=1000pps duration=300ms warmup=0s drain=100ms"


@pytest.fixture
def sh(python_env: dict[str, str], tmp_path: Path):
    """Runs a step as GitHub does, with `bash -e`, in an empty repository where `dutlab` is this one."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dutlab").write_text(f'#!/bin/sh\nexec {sys.executable} -m dutlab "$@"\n')
    (tmp_path / "bin" / "dutlab").chmod(0o755)
    (tmp_path / "repository").mkdir()
    env = {**python_env, "PATH": f"{tmp_path / 'bin'}:{python_env['PATH']}", "SETTINGS": SHORT}

    def step(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path / "repository", env=env, capture_output=True, text=True, timeout=LIMIT_S,
            check=False,
        )  # fmt: skip

    return step


def test_the_recipe_passes_an_equal_run_and_stops_a_slower_one(sh, tmp_path: Path) -> None:
    steps = {
        s["name"]: s for s in YAML(typ="safe").load(ROOT / "examples" / "ci" / "benchmark.yaml")["jobs"]["gate"]["steps"] if "name" in s
    }
    page = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "how-to" / "ci.md").read_text(), flags=re.DOTALL)[0].splitlines()
    measure, *make_card, add = page
    assert measure.replace("frame_sizes=64 rates=max duration=5s", "$SETTINGS") == steps["measure"]["run"]
    assert add.startswith("git add")
    done = sh(steps["measure"]["run"])
    assert done.returncode == 0, done.stderr
    done = sh("\n".join(make_card))
    assert done.returncode == 0, done.stderr
    done = sh(steps["check"]["run"])
    assert (done.returncode, done.stdout.splitlines()[-1].partition("PASS")[0]) == (0, "::notice title=dutlab check::"), done.stderr
    assert ET.parse(tmp_path / "repository" / "check.xml").getroot()[0].attrib["failures"] == "0"
    card = tmp_path / "repository" / "baseline" / "gate.json"
    faster = json.loads(card.read_text())
    for cell in faster["cells"]:
        cell["values"] = [2 * value for value in cell["values"]]
    card.write_text(json.dumps(faster))
    done = sh(steps["check"]["run"])
    assert done.returncode == 1 and "::error title=dutlab check::FAIL: 50 %25 slower overall" in done.stdout
    assert "FAIL: 50 % slower overall" in done.stderr
    assert ET.parse(tmp_path / "repository" / "check.xml").getroot()[0].attrib["failures"] != "0"
