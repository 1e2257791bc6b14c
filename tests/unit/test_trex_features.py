"""The table of TRex's features names tests that there are, or says that we have nothing."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from dutlab.cli.main import dutlab

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/reference/trex-features.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| TRex |")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_row_has_a_test_of_that_name_or_says_no(row: list[str]) -> None:
    _, ours, shown = row
    if not shown:
        assert "**no**" in ours or "benchmarks" in ours
        return
    file, name = re.fullmatch(r"`(\S+): (\w+)`", shown).groups()
    assert re.search(rf"\b(fn|def) {name}\(", (ROOT / file).read_text()), shown


def test_there_are_as_many_rows_as_features() -> None:
    assert len(ROWS) > 20


# ---- The table of features names commands and options that there are


PAGE = (Path(__file__).parents[2] / "docs" / "features.md").read_text()
COMMANDS = re.findall(r"`dutlab ([^`]+)`", PAGE)


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_of_the_table_is_one_with_these_options(words: str) -> None:
    name, *rest = words.split()
    command = dutlab.get_command(click.Context(dutlab), name)
    assert command is not None
    known = {opt for param in command.params for opt in param.opts}
    assert {word for word in rest if word.startswith("-")} <= known


def test_every_row_of_ours_has_a_command_or_says_that_there_is_nothing() -> None:
    rows = [line.split("|")[2].strip() for line in PAGE.splitlines() if line.startswith("| ") and line.count("|") == 8][1:]
    assert len(rows) > 15
    assert all(cell == "–" or "`dutlab " in cell for cell in rows)
