"""SECURITY.md: each door names a test that is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES = [line.strip("|").split(" | ") for line in (ROOT / "SECURITY.md").read_text().splitlines() if line.startswith("| ")]
ROWS = [row for row in LINES if row[0].strip() != "door"]
COLUMNS = 5


def named() -> Iterator[tuple[str, str]]:
    """File and function; one that begins with `::` is in the file before it."""
    for row in ROWS:
        path = ""
        for test in re.findall(r"`([^`]+)`", row[-1]):
            first, _, name = test.partition("::")
            path = first or path
            yield path, name


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_bytes())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_each_door_has_one_row_and_each_row_a_test() -> None:
    assert {len(row) for row in LINES} == {COLUMNS}
    doors = [row[0].strip() for row in ROWS]
    assert len(set(doors)) > 30
    assert all("::test_" in row[-1] for row in ROWS)


@pytest.mark.parametrize(("path", "name"), list(named()))
def test_its_test_is_there(path: str, name: str) -> None:
    assert name in functions(path)
