"""The map of the house has the sizes of its rooms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dutlab"
ROW = re.compile(r"^\| (?:`(?P<room>\w+)/`|modules outside of rooms) \| (?P<files>\d+) \| (?P<thousands>\d+\.\d) \|$", re.MULTILINE)


def test_each_room_has_about_as_many_files_and_lines_as_the_map_states() -> None:
    rows = {m["room"] or "": (int(m["files"]), float(m["thousands"])) for m in ROW.finditer((ROOT / "ARCHITECTURE.md").read_text())}
    files = {folder.name: list(folder.rglob("*.py")) for folder in SOURCE.iterdir() if folder.is_dir()} | {"": list(SOURCE.glob("*.py"))}
    rooms = {name: paths for name, paths in files.items() if paths}
    assert rows.keys() == rooms.keys()
    for name, paths in rooms.items():
        thousands = sum(len(path.read_text().splitlines()) for path in paths) / 1000
        assert rows[name] == (pytest.approx(len(paths), rel=0.1, abs=1), pytest.approx(thousands, rel=0.1, abs=0.1)), name
