"""docs/tutorial.md, carried out: every file that it shows is written, every command that it shows is run, in order, by one shell."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from processes import LIMIT_S

PAGE = Path(__file__).parents[2] / "docs/tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MAY_FIND = ("dutlab doctor",)
"""Ends with 1 where it has findings, as the page says."""


def commands() -> list[str]:
    return [line for kind, text in BLOCK.findall(PAGE.read_text()) if kind == "sh" for line in text.splitlines()]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, python_env: dict[str, str], python: str) -> tuple[Path, list[tuple[str, int]], str]:
    """The folder of the tutorial, each command with its status, and all that was printed."""
    folder = tmp_path_factory.mktemp("tutorial")
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "yaml":
            (folder / text.splitlines()[0].removeprefix("# ")).write_text(text)
    script = "".join(f"{line}\necho $? >> status\n" for line in commands())
    env = {**python_env, "DUTLAB_DISTURBED": "count", "XDG_CACHE_HOME": str(folder / "cache")}
    env["PATH"] = f"{Path(python).parent}:{env.get('PATH', os.defpath)}"
    ended = subprocess.run(["sh", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    statuses = [int(n) for n in (folder / "status").read_text().split()]
    assert len(statuses) == len(commands()), ended.stderr
    return folder, list(zip(commands(), statuses, strict=True)), ended.stdout + ended.stderr


def test_every_command_of_the_tutorial_does_what_the_page_says(done):
    _, statuses, said = done
    assert len(statuses) >= 8
    for command, status in statuses:
        assert status == 0 or (status == 1 and command.startswith(MAY_FIND)), f"{command}: {status}\n{said[-3000:]}"


def test_it_ends_with_a_compared_pair_of_modes_and_a_verified_claim(done):
    folder, _, said = done
    (run,) = (folder / "runs").glob("*-tutorial-*")
    records = [json.loads(path.read_text()) for path in run.glob("trials/*/record.json")]
    assert {r["cell"]["mode"] for r in records} == {"router", "nat"}
    assert [r["why"] for r in records if r["status"] != "measured"] == []
    assert "nat" in said and "holds: " in said
    assert list((run / "report").glob("claim-1-*.json"))
