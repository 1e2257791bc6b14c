"""One ssh connection to one host: channels for commands, and a keeper on the host that ends them when the connection ends.

sshd leaves commands running when their connection is lost. The keeper is a short shell script in a separate channel. It knows every
running process group of the connection, and kills them when its input ends. It also forwards our signals.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import weakref
from collections.abc import Sequence

import asyncssh

from dutlab.ending import run_to_end
from dutlab.errors import HostError
from dutlab.hosts.own_time import own_timeout
from dutlab.hosts.running import StartTime
from dutlab.hosts.ssh_channel import NOTHING, ChannelCarrier
from dutlab.hosts.ssh_command import new_mark
from dutlab.hosts.ssh_login import Login, connect
from dutlab.systems.system import Shell

START_S = 30.0
"""Time limit for the start of a command's shell on the host, including the wait for a free session."""
CLOSE_S = 5.0
LOGINS_AT_ONCE = 16
"""Most logins at the same time. This process computes their cryptography, so a hundred would all time out."""
_WORD = {signal.SIGTERM: "T", signal.SIGKILL: "K"}

# rc.initial of pfSense 2.4.5 runs `/bin/sh -c $1` without quotes: sh then runs only the first word, `exec`, which does nothing.
_SPLITS = (
    "its shell may split commands at blanks, as the login shell of pfSense 2.4.5 and older does, which cannot be used: update it, or log in"
    " as a user whose shell is /bin/sh"
)


class SshLink:
    """Open connection to a host. Create it with `open()`."""

    def __init__(self, login: Login, shell: Shell, connection: asyncssh.SSHClientConnection) -> None:
        self._login, self._shell, self._connection = login, shell, connection
        self._nonce = f"dutlab-keeper-{secrets.token_hex(6)}"
        self._keeper: ChannelCarrier | None = None
        self._running: set[ChannelCarrier] = set()
        self._session_free = asyncio.Event()

    @classmethod
    async def open(cls, login: Login, shell: Shell, before: SshLink | None) -> SshLink:
        """Connect, and end the commands that the connection `before` left running. Raises HostError."""
        async with _logins():
            link = cls(login, shell, await connect(login))
            try:
                link._keeper = await link._open(shell.keeper(link._nonce))
                if before is not None:
                    await link._sweep(before)
            except BaseException:
                await run_to_end(link.close())
                raise
        return link

    @property
    def alive(self) -> bool:
        return not self._connection.is_closed() and self._keeper is not None and self._keeper.status is None and not self._keeper.lost

    async def start(self, argv: Sequence[str]) -> ChannelCarrier | None:
        """Start a command; return None if the program does not exist. Raises HostError."""
        carrier = await self._open(argv)
        if not carrier.group:
            await carrier.exited()
            carrier.release()
            return None
        self._running.add(carrier)
        self._tell("+", carrier.group)
        return carrier

    def forget(self, carrier: ChannelCarrier) -> None:
        """Remove an ended command from the list. Its session is free, and the host may reuse its process group number."""
        if carrier in self._running:
            self._running.discard(carrier)
            self._tell("-", carrier.group)
            self._session_free.set()

    async def close(self) -> None:
        """Close the connection. The keeper's input ends, so the keeper ends the commands of the connection."""
        self._connection.close()
        try:
            async with own_timeout(CLOSE_S):
                await self._connection.wait_closed()
        except TimeoutError:
            self._connection.abort()

    async def _open(self, argv: Sequence[str]) -> ChannelCarrier:
        carrier = ChannelCarrier(self._signal, mark := new_mark())
        opening = asyncio.ensure_future(self._begin(carrier, self._shell.command_line(argv, mark)))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            await run_to_end(asyncio.wait([opening]))  # a started command must be killed, which needs its group number
            if opening.exception() is None:
                carrier.signal(signal.SIGKILL)
            carrier.release()
            raise
        except TimeoutError:
            carrier.release()
            raise HostError(
                f"ssh {self._login.target}: `{argv[0]}` was not started within {START_S:g} s",
                host=self._login.name,
                remedy="check that the host is not overloaded; sshd allows MaxSessions commands at once (sshd_config), 10 by default",
            ) from None
        except (OSError, asyncssh.Error) as e:
            raise HostError(f"ssh {self._login.target}: the connection was lost ({e})", host=self._login.name) from e
        if why := carrier.never_began:
            carrier.release()
            remedy = (
                _SPLITS
                if why.endswith(NOTHING)
                else "check that this user may run commands there, in an ordinary shell of a Unix; a Windows is `family: windows`"
            )
            raise HostError(f"ssh {self._login.target}: {why}", host=self._login.name, remedy=remedy)
        return carrier

    async def _begin(self, carrier: ChannelCarrier, line: str) -> None:
        async with own_timeout(START_S):
            await self._session(carrier, line)
            await carrier.begun()

    async def _session(self, carrier: ChannelCarrier, line: str) -> None:
        """Open a channel for the command. If sshd has no free session, wait until one of ours ends."""
        while True:
            self._session_free.clear()
            carrier.began = StartTime.now()
            try:
                await self._connection.create_session(lambda: carrier, line, encoding=None)
            except asyncssh.ChannelOpenError:
                if self._connection.is_closed():
                    raise
                await self._session_free.wait()
            else:
                return

    async def _sweep(self, before: SshLink) -> None:
        """End the commands of `before`. A server that has not noticed the loss still runs its keeper and all of its commands.

        The groups are killed only if that keeper still runs. In that case the host has not rebooted, so the group numbers are valid.
        """
        keeper, groups = before._keeper, [c.group for c in before._running if c.group]
        if keeper is None:
            return
        done = await self._open(self._shell.sweep(keeper.group, before._nonce, groups))
        await done.exited()
        done.release()

    def _signal(self, number: signal.Signals, group: int) -> None:
        self._tell(_WORD[number], group)

    def _tell(self, word: str, group: int) -> None:
        if self.alive and self._keeper is not None:
            self._keeper.say(f"{word} {group}\n".encode())


_turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = weakref.WeakKeyDictionary()


def _logins() -> asyncio.Semaphore:
    """Return the semaphore that limits logins in this event loop."""
    return _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(LOGINS_AT_ONCE))
