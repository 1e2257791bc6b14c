"""Golden pages: whole outputs kept as files in tests/golden, compared word by word. `make golden` writes them again for review as a diff."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "golden"
WRITING = os.environ.get("GOLDEN") == "write"


class Golden:
    """Compares an output with its page. A test that takes the fixture `golden` gets one."""

    def check(self, name: str, text: str) -> None:
        """Compare `text` with tests/golden/NAME, or write the page when `make golden` runs."""
        page = FOLDER / name
        if WRITING:
            page.parent.mkdir(exist_ok=True)
            page.write_text(text, encoding="utf-8")
        assert page.is_file(), f"{page} is missing; `make golden` writes it"
        assert text == page.read_text(encoding="utf-8"), f"{page} differs; `make golden` writes it again, review the diff"


def only_golden(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect every test without a golden page when pages are written."""
    if WRITING:
        kept = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
