"""Names in a record for the load that was offered again at a limit (runner/limit_profile.py)."""

from __future__ import annotations

AT_LIMIT = "at_limit"
"""Name of the table: one row per trial, with `trial` and its results."""
CONTROL = "control"
PROFILED = "profiled"
_BEFORE, _BEHIND = "profile-", ".folded"


def profile_file(host: str, which: str = "") -> str:
    """Return the name of the raw file with a host's stacks: of the whole trial, or of the trial at the limit named `which`."""
    return f"{_BEFORE}{host}{'+' if which else ''}{which}{_BEHIND}"


def profiled_host(name: str) -> tuple[str, str] | None:
    """Return `host` and `which` of a file named by profile_file(); None for any other file."""
    if not (name.startswith(_BEFORE) and name.endswith(_BEHIND)):
        return None
    host, _, which = name.removeprefix(_BEFORE).removesuffix(_BEHIND).partition("+")
    return host, which
