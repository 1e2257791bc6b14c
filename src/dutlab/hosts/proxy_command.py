"""ProxyCommand of ssh_config(5) as a child of this process, joined to the connection by a pair of sockets.

asyncssh would start it by asyncio. There, two objects (transport and watcher) wait for a child that ends before it is stopped, as when its
host reboots. The second one warns of an "Unknown child process". Here only one object waits (docs/decisions/02-asyncssh.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Sequence

from dutlab.hosts.keeper import KEEPER, start_in_session
from dutlab.hosts.passwords import child_environment


class ProxyCommand:
    """A running ProxyCommand, from open() until end() or its own end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process, self._pidfd, self._is_over = process, -1, False
        with contextlib.suppress(OSError):  # on Linux before 5.3 and in some containers; then end() waits
            self._pidfd = os.pidfd_open(process.pid)
            asyncio.get_running_loop().add_reader(self._pidfd, self._over)

    @classmethod
    def open(cls, command: Sequence[str]) -> tuple[ProxyCommand, socket.socket]:
        """Start the command; return it, and the socket to the host behind it, which the caller closes. Raises OSError."""
        ours, its = socket.socketpair()
        try:
            with its:
                process = start_in_session(
                    command, stdin=its.fileno(), stdout=its.fileno(), stderr=subprocess.DEVNULL, env=child_environment(os.environ)
                )
        except BaseException:
            ours.close()
            raise
        KEEPER.watch(process.pid)
        ours.setblocking(False)
        return cls(process), ours

    def end(self) -> None:
        """Kill the command if it still runs, and wait for its end. Further calls do nothing."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._over()

    def _over(self) -> None:
        if self._is_over or self._process.poll() is None:
            return
        self._is_over = True
        KEEPER.forget(self._process.pid)
        if self._pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
