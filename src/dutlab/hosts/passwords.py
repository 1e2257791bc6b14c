"""Passwords of hosts: where they come from, and that they go nowhere else.

From the environment variable DUTLAB_PASSWORD_NAME, or from the keyring (service dutlab, user NAME), NAME being the host's in the testbed.
They are handed to the ssh protocol and kept nowhere; nothing that dutlab starts inherits the variables, neither commands nor what
ssh_config has it start (ProxyCommand, Match exec).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_PREFIX = "DUTLAB_PASSWORD_"
_taken: dict[str, str] = {}


def password_variable(name: str) -> str:
    """The environment variable that holds the password of the host called `name` in the testbed."""
    return _PREFIX + re.sub(r"[^A-Z0-9]", "_", name.upper())


def password_of(name: str, environment: Mapping[str, str]) -> tuple[str | None, str]:
    """The password, None where there is none; and why the keyring could not be read, empty where it could, or there is no keyring.

    The keyring may ask its owner, which takes time.
    """
    if said := environment.get(password_variable(name)):
        return said, ""
    return from_keyring(name)


def from_keyring(name: str) -> tuple[str | None, str]:
    """What the keyring has for the user `name` of the service dutlab; otherwise as password_of()."""
    try:
        import keyring  # noqa: PLC0415 optional: only who keeps passwords in a keyring has it
    except ImportError:
        return None, ""
    try:
        return keyring.get_password("dutlab", name), ""
    except keyring.errors.NoKeyringError:
        return None, ""
    except Exception as e:  # noqa: BLE001 back ends are anybody's; a key may open the door all the same
        # No more than its kind: the text of a back end's error may hold what it read.
        return None, f"the keyring could not be read ({type(e).__name__}): see that `keyring get dutlab {name}` works"


def own_variables() -> Mapping[str, str]:
    """The variables that hold passwords, which from now on are in no environment that a child would inherit."""
    for name in [name for name in os.environ if name.startswith(_PREFIX)]:
        _taken[name] = os.environ.pop(name)
    return _taken


def without_passwords(environment: Mapping[str, str]) -> dict[str, str]:
    """For what is started."""
    return {name: value for name, value in environment.items() if not name.startswith(_PREFIX)}
