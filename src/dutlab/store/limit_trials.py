"""Names under which a record keeps what was offered once more at a limit (runner/limit_profile.py)."""

from __future__ import annotations

AT_LIMIT = "at_limit"
"""The table: a row a trial, with `trial` and what came of it."""
CONTROL = "control"
PROFILED = "profiled"
_BEFORE, _BEHIND = "profile-", ".folded"


def profile_file(host: str, which: str = "") -> str:
    """The raw file of a host's stacks: of the whole trial, or of the one that `which` names."""
    return f"{_BEFORE}{host}{'+' if which else ''}{which}{_BEHIND}"


def profiled_host(name: str) -> tuple[str, str] | None:
    """The host whose stacks a raw file has, and of which trial, as in profile_file(); None of any other file."""
    if not (name.startswith(_BEFORE) and name.endswith(_BEHIND)):
        return None
    host, _, which = name.removeprefix(_BEFORE).removesuffix(_BEHIND).partition("+")
    return host, which
