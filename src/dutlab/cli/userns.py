"""Start of the command in a new user namespace, where it may build network namespaces without root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from dutlab.cli.terminal import say
from dutlab.errors import TestbedError

_UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--propagation", "private")
_REFUSED_REMEDY = (
    "run it as root or with sudo; or allow user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone "
    "and, on Ubuntu, kernel.apparmor_restrict_unprivileged_userns"
)


def become_root() -> None:
    """Return at once for root. Otherwise start this process again in a user namespace. Raises TestbedError."""
    if os.geteuid() == 0:
        return
    if not shutil.which("unshare"):
        raise TestbedError("not root, and `unshare` is missing", remedy="run it as root, or install util-linux")
    trial = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, check=False)
    if trial.returncode:
        raise TestbedError(f"not root, and this system allows no user namespace: {trial.stderr.strip()}", remedy=_REFUSED_REMEDY)
    say(
        "not root: the lab is built in a user namespace. As root the DUT's packet threads would get their own CPU core, "
        "and labs would outlive the command.",
        err=True,
    )
    # iproute2 and the lab keep their state below /run, which only root may write: the namespace gets its own /run.
    inner = 'mount -t tmpfs tmpfs /run && mkdir -p /run/netns && exec "$@"'
    os.execvp(_UNSHARE[0], [*_UNSHARE, "sh", "-c", inner, "dutlab", sys.executable, *sys.argv])  # noqa: S606 -- no shell is wanted
