"""The table of features names commands and options that there are."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from dutlab.cli.main import dutlab

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
