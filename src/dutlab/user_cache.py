"""Folder of dutlab's cache: XDG_CACHE_HOME/dutlab, or ~/.cache/dutlab."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def user_cache(environment: Mapping[str, str] | None = None) -> Path:
    """Return the user's cache folder (XDG Base Directory Specification, by which a relative XDG_CACHE_HOME is ignored)."""
    folder = (os.environ if environment is None else environment).get("XDG_CACHE_HOME", "")
    try:
        base = Path(folder) if Path(folder).is_absolute() else Path.home() / ".cache"
    except RuntimeError:  # a user without an entry in passwd has no home, so nothing is cached
        base = Path(os.devnull)
    return base / "dutlab"
