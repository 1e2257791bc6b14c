"""Passwords of hosts: their sources, and the protection of all secrets in the environment.

A password is from the environment variable DUTLAB_PASSWORD_NAME, or from the keyring (service dutlab, user NAME). NAME is the host's
name in the testbed. Passwords are used in the ssh protocol only, and are not stored.

The environment of dutlab has further secrets: passwords of devices (`password-from`), of a fleet's database, the token of `serve`, keys of
an object store. The output of commands is kept in the run, and may be published. So every program that dutlab starts on this machine, a
ProxyCommand too, gets only the variables listed here and in DUTLAB_PASS_VARIABLES. One exception: asyncssh runs `Match exec` of ssh_config
with all variables except the passwords of hosts. It does not keep the output.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_PREFIX = "DUTLAB_PASSWORD_"
_taken: dict[str, str] = {}
PASS_VARIABLES = "DUTLAB_PASS_VARIABLES"  # noqa: S105 not a password, but the list of passed variables
_PASSED = frozenset((
    "DUTLAB_DISTURBED", "DUTLAB_ENGINE", PASS_VARIABLES, "HOME", "LANG", "LD_LIBRARY_PATH", "LD_PRELOAD", "LOGNAME", "PATH", "PYTHONHOME",
    "PYTHONPATH", "RUST_BACKTRACE", "SHELL", "SSH_AUTH_SOCK", "TERM", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV", "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
))  # fmt: skip
"""Variables for programs, files, the user and their ssh agent. None of them contains a password."""


def password_variable(name: str) -> str:
    """Return the environment variable for the password of the host `name` of the testbed."""
    return _PREFIX + re.sub(r"[^A-Z0-9]", "_", name.upper())


def password_of(name: str, environment: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the password, or None; and the reason if the keyring could not be read, else an empty text.

    A keyring may ask its owner, which takes time. A missing keyring is not a fault.
    """
    if password := environment.get(password_variable(name)):
        return password, ""
    return from_keyring(name)


def from_keyring(name: str) -> tuple[str | None, str]:
    """Return the keyring's password for the user `name` of the service dutlab, and a fault, as password_of()."""
    try:
        import keyring  # noqa: PLC0415 optional: only users with passwords in a keyring have it
    except ImportError:
        return None, ""
    try:
        return keyring.get_password("dutlab", name), ""
    except keyring.errors.NoKeyringError:
        return None, ""
    except Exception as e:  # noqa: BLE001 back ends are third-party code; a login by key may still succeed
        # The message has only the type of the error: its text may contain secrets that the back end read.
        return None, f"the keyring could not be read ({type(e).__name__}): check that `keyring get dutlab {name}` works"


def own_variables() -> Mapping[str, str]:
    """Return the variables with passwords, and remove them from the environment, so that no child process inherits them."""
    for name in [name for name in os.environ if name.startswith(_PREFIX)]:
        _taken[name] = os.environ.pop(name)
    return _taken


def all_variables() -> Mapping[str, str]:
    """Return the environment at the start of dutlab. A copy of a run that leaves this machine must not contain its secrets."""
    return {**os.environ, **own_variables()}


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of `environment` for programs that dutlab starts."""
    named = _PASSED.union(re.split(r"[\s,]+", environment.get(PASS_VARIABLES, "")))
    return {name: value for name, value in environment.items() if name in named and not name.startswith(_PREFIX)}
