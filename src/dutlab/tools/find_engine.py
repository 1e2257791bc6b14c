"""Where the engine's binary is."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from dutlab.errors import ToolMissing
from dutlab.tools.agent import TOOL


def find_engine() -> Path:
    """The binary: what DUTLAB_ENGINE names, else beside the Python that runs, else built in the source tree, else on the PATH.

    Raises ToolMissing.
    """
    if named := os.environ.get("DUTLAB_ENGINE"):
        if _runs(Path(named)):
            return Path(named)
        raise ToolMissing(f"DUTLAB_ENGINE names {named}, which cannot be run", tool=TOOL, host="here", remedy="correct or unset it")
    for place in _places():
        if _runs(place):
            return place
    raise ToolMissing(
        "the engine is not there",
        tool=TOOL,
        host="here",
        remedy="build it (`cargo build --release` in the source tree) or set DUTLAB_ENGINE to it",
    )


def _places() -> Iterator[Path]:
    yield Path(sys.executable).parent / TOOL
    for above in Path(__file__).resolve().parents:
        if (above / "engine" / "agent" / "Cargo.toml").is_file():
            target = Path(os.environ.get("CARGO_TARGET_DIR", above / "target"))
            yield from (target / profile / TOOL for profile in ("release", "debug"))
            break
    if on_path := shutil.which(TOOL):
        yield Path(on_path)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
