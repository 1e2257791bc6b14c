"""Passwords of hosts: where they come from, and that they go nowhere else.

From the environment variable DUTLAB_PASSWORD_NAME, or from the keyring (service dutlab, user NAME), NAME being the host's in the testbed.
They are handed to the ssh protocol and kept nowhere; nothing that dutlab starts inherits the variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PREFIX = "DUTLAB_PASSWORD_"


def password_variable(name: str) -> str:
    """The environment variable that holds the password of the host called `name` in the testbed."""
    return _PREFIX + re.sub(r"[^A-Z0-9]", "_", name.upper())


def password_of(name: str, environment: Mapping[str, str]) -> str | None:
    """None where neither has one. The keyring may ask its owner, which takes time."""
    if said := environment.get(password_variable(name)):
        return said
    try:
        import keyring  # noqa: PLC0415 optional: only who keeps passwords in a keyring has it
    except ImportError:
        return None
    try:
        kept = keyring.get_password("dutlab", name)
    except keyring.errors.KeyringError:
        return None
    return str(kept) if kept is not None else None


def without_passwords(environment: Mapping[str, str]) -> dict[str, str]:
    """For what is started."""
    return {name: value for name, value in environment.items() if not name.startswith(_PREFIX)}
