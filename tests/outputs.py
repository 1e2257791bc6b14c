"""What programs print, kept as files in tests/data/outputs: each where a test says whose it is and where it was read."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "data" / "outputs"


def output(of: str, name: str) -> str:
    """The text of one, with its own line ends."""
    with (FOLDER / of / f"{name}.txt").open(encoding="utf-8", newline="") as file:
        return file.read()
