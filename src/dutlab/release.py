"""The dutlab that runs: its version, and for a clone its commit. Every run keeps both, so that others can repeat it with the same one."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

_GIT_S = 10.0


def version() -> str:
    """Return the installed version from the name of its metadata folder. Reading the metadata takes a quarter of a short command's time."""
    for folder in sys.path:
        for found in Path(folder).glob("dutlab-*.dist-info"):
            return found.name.removeprefix("dutlab-").removesuffix(".dist-info")
    from importlib.metadata import version as metadata_version  # noqa: PLC0415 - slow, and seldom needed

    return metadata_version("dutlab")


@cache
def commit() -> str:
    """Return the commit of the clone that dutlab runs from, with `-dirty` if files were changed since; empty outside of a clone."""
    import subprocess  # noqa: PLC0415 - no command needs it to print its help

    root = Path(__file__).resolve().parents[2]
    if not ((root / ".git").exists() and (root / "pyproject.toml").exists()):
        return ""
    argv = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_GIT_S, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()[:100] if done.returncode == 0 else ""


def release() -> dict[str, str]:
    """Return the version and the commit, without what is unknown, as in a run's resolved.json."""
    return {name: value for name, value in (("version", version()), ("commit", commit())) if value}
