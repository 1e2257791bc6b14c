"""Commands that install optional packages; they depend on how the running dutlab was installed.

No package index has dutlab, so `dutlab[extra]` cannot be installed. The commands name the packages of the extra instead, taken from the
metadata of the installed dutlab.
"""

from __future__ import annotations

import os
import pwd
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path


def packages_of(extra: str) -> list[str]:
    """Return the packages of an extra in pyproject.toml, as in `distributed>=2025.1`; empty where dutlab was never installed."""
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415 -- slow to load, and seldom needed

    try:
        needed = requires("dutlab") or []
    except PackageNotFoundError:
        return []
    return [name.strip() for name, _, marker in (line.partition(";") for line in needed) if marker.strip() == f"extra == '{extra}'"]


def extra_install_command(extra: str) -> str:
    """Return the command that adds the packages of an extra to this dutlab."""
    names = packages_of(extra)
    return install_command(*names) if names else f"install dutlab with its extra `{extra}`"


def install_command(*names: str) -> str:
    """Return the command that installs packages where this dutlab finds them: by pipx, uv, or pip of its environment or of the system."""
    return shlex.join([*_as_owner(), *_installer(), *names])


def _installer() -> list[str]:
    environment = Path(sys.prefix)
    if (environment / "pipx_metadata.json").is_file():
        home = environment.parent.parent
        return [*_elsewhere(home), "pipx", "inject", environment.name]
    if (environment / "uv-receipt.toml").is_file():
        return ["uv", "pip", "install", "--python", str(environment)]
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    return ["python3", "-m", "pip", "--python", sys.executable, "install"]  # for example in the Debian package's /usr/lib/dutlab


def _elsewhere(home: Path) -> list[str]:
    """Return the setting for the folder of pipx's environments; empty where they are below their owner's home."""
    try:
        is_at_home = home.is_relative_to(pwd.getpwuid(Path(sys.prefix).stat().st_uid).pw_dir)
    except KeyError:
        is_at_home = False
    return [] if is_at_home else ["env", f"PIPX_HOME={home}"]


def _as_owner() -> list[str]:
    """Return the `sudo` prefix where another user installed dutlab: measuring needs root, but pipx often installs for a user."""
    environment = Path(sys.prefix)
    if environment.stat().st_uid == os.geteuid():
        return []
    try:
        return ["sudo", "-u", environment.owner()]
    except KeyError:
        return ["sudo"]
