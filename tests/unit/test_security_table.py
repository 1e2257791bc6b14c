"""SECURITY.md: each door names a test that is there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = [line.strip("|").split(" | ") for line in (ROOT / "SECURITY.md").read_text().splitlines() if line.startswith("| ")]
HEAD = ("door", "who comes through it", "trusted?", "at most", "test")


def test_the_table_has_a_row_for_each_door() -> None:
    assert tuple(cell.strip() for cell in TABLE[0]) == HEAD
    assert {len(row) for row in TABLE} == {len(HEAD)}
    doors = [row[0].strip() for row in TABLE[1:]]
    assert len(doors) == len(set(doors)) > 20


@pytest.mark.parametrize("named", [row[-1].strip().strip("`") for row in TABLE[1:]])
def test_its_test_is_there(named: str) -> None:
    path, _, name = named.partition("::")
    tree = ast.parse((ROOT / path).read_bytes())
    tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in tests, f"{path} has no {name}"
