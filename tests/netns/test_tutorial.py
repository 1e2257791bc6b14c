"""docs/tutorial.md, carried out with short trials: every file that it shows is written, every command that it shows is run, in order."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from run_records import record_in

PAGE = Path(__file__).parents[2] / "docs/tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHORT = {
    "frame_sizes: [64, 1518], duration: 1s": "frame_sizes: [64], duration: 100ms, warmup: 0s, drain: 100ms",
    "repeats: 6": "repeats: 2",
}
MAY_FIND = "doctor"
"""Ends with 1 where it has findings, as the page says."""


def shortened(text: str) -> str:
    for written, short in SHORT.items():
        assert written in text
        text = text.replace(written, short)
    return text


def words_of(line: str, before: list[str], folder: Path) -> list[str]:
    """As the shell makes them of the line, after the lines before it."""
    script = "\n".join([*before, f"printf '%s\\0' {line}"])
    return subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]


def test_every_command_of_the_tutorial_does_what_the_page_says(dutlab, tmp_path):
    blocks, variables, said = BLOCK.findall(PAGE.read_text()), list[str](), dict[str, str]()
    for kind, text in blocks:
        if kind == "yaml":
            (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(shortened(text))
    for line in [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]:
        if not line.startswith("dutlab "):
            variables.append(line)
            continue
        _, *words = words_of(line, variables, tmp_path)
        done = dutlab(*words)
        assert done.returncode == 0 or (done.returncode == 1 and words[0] == MAY_FIND), (line, done.stdout, done.stderr)
        said[words[0]] = done.stdout
    assert said.keys() >= {"--version", "doctor", "plan", "run", "report", "compare", "cost", "claims", "verify-claim"}
    (run,) = (tmp_path / "runs").glob("*-tutorial-*")
    records = [record_in(path) for path in run.glob("trials/*/record.json")]
    assert [r["why"] for r in records if r["status"] != "measured"] == []
    assert sorted(r["cell"]["mode"] for r in records) == ["nat"] * 2 + ["router"] * 2
    assert "nat" in said["compare"] and "nat" in said["cost"], "the pair of modes"
    assert list((run / "report").glob("claim-1-*.json")), "which was verified"
