"""The steps of the workflow in examples/ci, in a repository whose change adds a rule, and one whose change adds a comment."""

from __future__ import annotations

import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from ruamel.yaml import YAML

from github_steps import Shell
from vm.test_gate_guests import rules

pytestmark = pytest.mark.exact

ROOT = Path(__file__).parents[2]
STEPS = {s["name"]: s for s in YAML(typ="safe").load(ROOT / "examples" / "ci" / "benchmark.yaml")["jobs"]["gate"]["steps"] if "name" in s}


@pytest.mark.parametrize(("before", "after", "status"), [(2, 2, 0), (2, 3, 1)], ids=["equal", "a-rule-more"])
def test_the_recipe_passes_an_equal_rule_set_and_stops_one_that_costs_more(
    before: int, after: int, status: int, python_env: dict[str, str], exact_cache: Path, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, {**python_env, "XDG_CACHE_HOME": str(exact_cache)})
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.net", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "init", "-q"], cwd=shell.repository, check=True)
    for number, count in enumerate((before, after)):
        (shell.repository / "router.nft").write_text(f"# {number}\n{rules(count)}")
        subprocess.run([*git, "add", "-A"], cwd=shell.repository, check=True)
        subprocess.run([*git, "commit", "-qm", f"change {number}"], cwd=shell.repository, check=True)
    assert shell.run(STEPS["base"]["run"], BASE="").returncode == 0
    command = STEPS["gate"]["run"]
    assert command.removesuffix(" --format github") in (ROOT / "docs" / "how-to" / "ci.md").read_text()
    done = shell.run(f"{command} frames=1000")
    assert done.returncode == status, done.stderr
    assert done.stdout.splitlines()[-1].startswith(("::notice title=dutlab gate::PASS", "::error title=dutlab gate::FAIL")[status])
    assert ET.parse(shell.repository / "gate.xml").getroot()[0].attrib["failures"] == str(status)
    assert (shell.repository / "gate.md").read_text().startswith("**")
