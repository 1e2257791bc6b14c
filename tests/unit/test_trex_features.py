"""The table of TRex's features names tests that there are, or says that we have nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
