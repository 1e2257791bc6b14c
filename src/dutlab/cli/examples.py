"""Folders of the example experiments, in the source tree or where the wheel installs them."""

from __future__ import annotations

import sys
from pathlib import Path

from dutlab.errors import InputError


def example(name: str) -> Path:
    """Return the folder of an example. Raises InputError."""
    places = (Path(__file__).parents[3] / "examples", Path(sys.prefix) / "share" / "dutlab" / "examples")
    for place in places:
        if (place / name).is_dir():
            return place / name
    raise InputError(
        f"example {name} is not in any of {', '.join(map(str, places))}", remedy="install dutlab again, or run from its source tree"
    )
