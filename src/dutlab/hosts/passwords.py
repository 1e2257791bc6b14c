"""Passwords of hosts: where they come from, and that they go nowhere else.

From the environment variable DUTLAB_PASSWORD_NAME, or from the keyring (service dutlab, user NAME), NAME being the host's in the testbed.
They are handed to the ssh protocol and kept nowhere.

The environment of dutlab has more: passwords of devices (`password-from`), of a fleet's database, the token of `serve`, keys of an object
store. What a command prints is kept in the run, and may be published. So whatever dutlab starts on this machine, a ProxyCommand too, has
the variables that are named here and no others; DUTLAB_PASS_VARIABLES names more. asyncssh carries out `Match exec` of ssh_config with
all but the passwords of hosts, and keeps nothing of what that prints.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_PREFIX = "DUTLAB_PASSWORD_"
_taken: dict[str, str] = {}
PASS_VARIABLES = "DUTLAB_PASS_VARIABLES"  # noqa: S105 no password, but which variables are passed
_PASSED = frozenset((
    "DUTLAB_DISTURBED", "DUTLAB_ENGINE", PASS_VARIABLES, "HOME", "LANG", "LD_LIBRARY_PATH", "LD_PRELOAD", "LOGNAME", "PATH", "PYTHONHOME",
    "PYTHONPATH", "RUST_BACKTRACE", "SHELL", "SSH_AUTH_SOCK", "TERM", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV", "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
))  # fmt: skip
"""Variables for programs, files, the user and their ssh agent. None of them holds a password."""


def password_variable(name: str) -> str:
    """The environment variable that holds the password of the host called `name` in the testbed."""
    return _PREFIX + re.sub(r"[^A-Z0-9]", "_", name.upper())


def password_of(name: str, environment: Mapping[str, str]) -> tuple[str | None, str]:
    """The password, None where there is none; and why the keyring could not be read, empty where it could, or there is no keyring.

    The keyring may ask its owner, which takes time.
    """
    if password := environment.get(password_variable(name)):
        return password, ""
    return from_keyring(name)


def from_keyring(name: str) -> tuple[str | None, str]:
    """Return the keyring's password for the user `name` of the service dutlab, and a fault; otherwise as password_of()."""
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
        return None, f"the keyring could not be read ({type(e).__name__}): check that `keyring get dutlab {name}` works"


def own_variables() -> Mapping[str, str]:
    """The variables that hold passwords, which from now on are in no environment that a child would inherit."""
    for name in [name for name in os.environ if name.startswith(_PREFIX)]:
        _taken[name] = os.environ.pop(name)
    return _taken


def all_variables() -> Mapping[str, str]:
    """The environment as it was at the start: what a copy of a run that leaves this machine must have no secret of."""
    return {**os.environ, **own_variables()}


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of `environment` that whatever dutlab starts may see."""
    named = _PASSED.union(re.split(r"[\s,]+", environment.get(PASS_VARIABLES, "")))
    return {name: value for name, value in environment.items() if name in named and not name.startswith(_PREFIX)}
