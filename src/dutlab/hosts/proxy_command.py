"""A ProxyCommand of ssh_config(5) as a child of ours, joined to the connection by a pair of sockets.

asyncssh would start it by asyncio, whose transport and watcher both wait for a child that ends by itself, as one does when its host
reboots. Whoever comes second warns of an "Unknown child process". Ours has one who waits (docs/decisions/02-asyncssh.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Sequence

from dutlab.hosts.keeper import KEEPER, start_apart
from dutlab.hosts.passwords import child_environment


class ProxyCommand:
    """Runs from open() until end(), or until it ends by itself."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process, self._pidfd, self._is_over = process, -1, False
        with contextlib.suppress(OSError):  # Linux before 5.3, and some containers: end() waits then
            self._pidfd = os.pidfd_open(process.pid)
            asyncio.get_running_loop().add_reader(self._pidfd, self._over)

    @classmethod
    def open(cls, command: Sequence[str]) -> tuple[ProxyCommand, socket.socket]:
        """The command, and the socket to what it reaches, which is the caller's to close. Raises OSError."""
        ours, its = socket.socketpair()
        try:
            with its:
                process = start_apart(
                    command, stdin=its.fileno(), stdout=its.fileno(), stderr=subprocess.DEVNULL, env=child_environment(os.environ)
                )
        except BaseException:
            ours.close()
            raise
        KEEPER.watch(process.pid)
        ours.setblocking(False)
        return cls(process), ours

    def end(self) -> None:
        """Kills what still runs of it, and waits for it; may be called again."""
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
