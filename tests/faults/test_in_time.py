"""A measuring command ends by its budget, prints JSON alone when asked, and what is left can be resumed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from jsonschema import validate

CONTRACTS = Path(__file__).parents[2] / "contracts"
Command = Callable[..., subprocess.CompletedProcess[str]]
REPEATS = 1000


def test_a_command_ends_by_its_budget_and_what_is_left_is_resumed(dutlab: Command, tmp_path: Path) -> None:
    words = ("measure", "sweep", "frame_sizes=64", "duration=100ms", "warmup=0s", "--link", "a", "--repeats", str(REPEATS))
    cut = dutlab(*words, "--budget", "3s", "--json")
    assert cut.returncode == 1, cut.stderr
    told = json.loads(cut.stdout)  # and nothing else
    validate(told, json.loads((CONTRACTS / "report.schema.json").read_text()))
    (run,) = told["runs"]
    assert any(t["status"] == "not done" for t in run["trials"])
    assert run["answer"]["next"][0]["command"].startswith("dutlab resume ")
    folder = next((tmp_path / "runs").iterdir())
    assert not (folder / "MANIFEST.sha256").exists()
    schema = json.loads((CONTRACTS / "events.schema.json").read_text())
    for budget in (4, 12, 60, 180):  # as much as a busy machine needs for a trial
        on = dutlab("resume", str(folder), "--budget", f"{budget}s", "--json-lines")
        lines = [json.loads(line) for line in on.stdout.splitlines()]
        for line in lines:
            validate(line, schema)
        assert lines[0]["event"] == "run-begun" and lines[0]["cells"] == 1 and lines[0]["trials"] == REPEATS
        if measured := [line for line in lines if line["event"] == "trial-ended"]:
            break
    assert measured and on.returncode == 1
    assert lines[-1]["event"] == "run-ended" and lines[-1]["status"] == "cut" and "preparing" in {line["event"] for line in lines}
