"""The steps of the workflow in examples/ci, and the commands of docs/how-to/ci.md that make its baseline."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

from ruamel.yaml import YAML

from github_steps import Shell

ROOT = Path(__file__).parents[2]
SHORT = "frame_sizes=64 rates=1000pps duration=200ms warmup=0s drain=100ms"
ENOUGH = "--repeats 5"
"""The fewest that prove a difference in each of two modes: 2 orders of 252 are as far apart, and twice 2/252 is below 5 %."""


def test_the_recipe_passes_an_equal_run_and_stops_a_slower_one(python_env: dict[str, str], tmp_path: Path) -> None:
    steps = {
        s["name"]: s for s in YAML(typ="safe").load(ROOT / "examples" / "ci" / "benchmark.yaml")["jobs"]["gate"]["steps"] if "name" in s
    }
    page = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "how-to" / "ci.md").read_text(), flags=re.DOTALL)[0].splitlines()
    measure, *make_card, add = page
    assert measure.replace("frame_sizes=64 rates=max duration=5s", "$SETTINGS") == steps["measure"]["run"]
    assert add.startswith("git add")
    shell = Shell(tmp_path, {**python_env, "SETTINGS": SHORT})
    done = shell.run(steps["measure"]["run"].replace("--repeats 8", ENOUGH))
    assert done.returncode == 0, done.stderr
    done = shell.run("\n".join(make_card))
    assert done.returncode == 0, done.stderr
    done = shell.run(steps["check"]["run"])
    last = {0: "::notice title=dutlab check::PASS", 2: "::error title=dutlab check::CANNOT TELL"}  # as calm as the machine is
    assert done.stdout.splitlines()[-1].startswith(last[done.returncode]), done.stderr
    assert failures(shell) == "0"
    card = shell.repository / "baseline" / "gate.json"
    faster = json.loads(card.read_text())
    for cell in faster["cells"]:
        cell["values"] = [2 * value for value in cell["values"]]
    card.write_text(json.dumps(faster))
    done = shell.run(steps["check"]["run"])
    assert done.returncode == 1 and "::error title=dutlab check::FAIL: 50 %25 slower overall" in done.stdout
    assert failures(shell) != "0"


def failures(shell: Shell) -> str:
    return ET.parse(shell.repository / "check.xml").getroot()[0].attrib["failures"]
