"""The dutlab that runs: its version, and for a clone its commit. Every run keeps both, so that others can repeat it with the same one."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache

_GIT_S = 10.0


def version() -> str:
    """Return the installed version from the name of its metadata folder. Reading the metadata takes a quarter of a short command's time."""
    prefix, suffix = "dutlab-", ".dist-info"
    for folder in sys.path:
        with suppress(OSError):
            for name in os.listdir(folder or os.curdir):  # noqa: PTH208 -- pathlib takes a tenth of the CPU time of --version
                if name.startswith(prefix) and name.endswith(suffix):
                    return name.removeprefix(prefix).removesuffix(suffix)
    from importlib.metadata import version as metadata_version  # noqa: PLC0415 - slow, and seldom needed

    return metadata_version("dutlab")


@cache
def commit() -> str:
    """Return the commit of the clone that dutlab runs from, with `-dirty` if files were changed since; empty outside of a clone."""
    import subprocess  # noqa: PLC0415 - no command needs it to print its help
    from pathlib import Path  # noqa: PLC0415 - as above

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
