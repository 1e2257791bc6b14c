"""A public class has a name of its own: readers who search for it find one thing."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

SRC = Path(__file__).parents[2] / "src" / "dutlab"
CONTRACT = "tools/engine/protocol.py"
"""Its names are those of the contract with the engine, and it is made from that."""


def classes_of(root: Path) -> dict[str, list[str]]:
    """Name → the files that define a public class of that name."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(root.rglob("*.py")):
        for name in re.findall(r"^class ([^\W_]\w*)", file.read_text(), re.MULTILINE):
            found[name].append(str(file.relative_to(root)))
    return found


def test_no_public_class_name_is_used_twice() -> None:
    found = {name: [file for file in files if file != CONTRACT] for name, files in classes_of(SRC).items()}
    assert len(found) > 500, "the sources are where this test looks for them"
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_a_name_used_twice_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Load:\n    pass\n\n\nclass _Own:\n    pass\n")
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "b.py").write_text("class Load:\n    pass\n\n\nclass _Own:\n    pass\n")
    assert {name: files for name, files in classes_of(tmp_path).items() if len(files) > 1} == {"Load": ["a.py", "room/b.py"]}
