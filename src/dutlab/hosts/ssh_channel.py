"""Commands over ssh, each in a channel of the connection."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from typing import cast

import asyncssh

from dutlab.bounds import LINE_BYTES
from dutlab.hosts.running import StartTime
from dutlab.hosts.ssh_command import Head, Tail
from dutlab.reason import reason_in

NOTHING = "nothing"
Signaller = Callable[[signal.Signals, int], None]
_STDERR = 1  # RFC 4254 section 5.2, SSH_EXTENDED_DATA_STDERR
WORD_S = 10.0
"""Longest wait for the script's status after that of sshd, counted from the last byte."""
KILL_S = 10.0
"""Longest wait for the end of a group after SIGKILL. If it takes longer, the host or a system call on it hangs."""


class ChannelCarrier(asyncssh.SSHClientSession[bytes]):
    """A command in an ssh channel. Implements dutlab.hosts.running.Carrier.

    Signals use `signaller`, since sshd does not deliver signals to a process group.
    """

    def __init__(self, signaller: Signaller, mark: bytes) -> None:
        """Create the carrier. `mark` is the mark of the command line (ssh_command)."""
        self._signaller = signaller
        self.began = StartTime.now()
        self.stdout = asyncio.StreamReader(limit=LINE_BYTES)
        self.stderr = asyncio.StreamReader(limit=LINE_BYTES)
        self.status: int | None = None
        self.lost = ""
        self.group = 0
        """Number of the remote process group; 0 until `begun()` returns, and for a missing program."""
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._out_head, self._err_head, self._err_tail = Head(mark), Head(mark), Tail(mark, self._receive_status)
        self._begun, self._ended, self._writable = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._writable.set()
        self._giving_up: asyncio.TimerHandle | None = None
        self._sshd_status: int | None = None
        self._killed, self._quiet_since = False, 0.0

    # Called by asyncssh.

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self._channel = chan
        for stream in (self.stdout, self.stderr):
            stream.set_transport(cast("asyncio.Transport", chan))  # the stream only pauses and resumes reading

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        self._quiet_since = time.monotonic()
        if datatype == _STDERR:
            self.stderr.feed_data(self._err_tail.take(self._err_head.take(data)))
            return
        before = self._out_head.line
        self.stdout.feed_data(self._out_head.take(data))
        if before is None and (line := self._out_head.line) is not None:
            self.group = int(line) if line.isdigit() else 0
            self._begun.set()

    def eof_received(self) -> bool:
        self._end_streams()
        self._begun.set()  # without a mark by now, the command has not begun and never will
        return True  # keeps our direction open: a command may close its output and still read its input

    def exit_status_received(self, status: int) -> None:
        self._receive_sshd_status(status)

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:  # noqa: FBT001 asyncssh's names
        del core_dumped, msg, lang
        self._receive_sshd_status(-_number_of(signal))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.status is None and self._sshd_status is not None:
            self._receive_status(self._sshd_status)
        if self.status is None:
            self.lost = f"the connection was lost ({exc or 'the server closed it'})"
        self._end_streams()
        self._begun.set()
        self._ended.set()
        self._writable.set()

    # Called by dutlab.

    async def begun(self) -> None:
        """Wait until the command runs, or cannot run any more."""
        await self._begun.wait()

    @property
    def never_began(self) -> str:
        """Reason why the command did not begin; empty when it began, or for a missing program (then `group` is 0)."""
        if self._out_head.line is not None:
            return ""
        output = (self._out_head.noise + self._err_head.noise).decode("utf-8", "replace").strip()
        return self.lost or f"the login shell did not run the command; its output: {reason_in(output) or NOTHING}"

    def say(self, data: bytes) -> None:
        """Write a few bytes without waiting. Drop them when the command has ended."""
        if self._channel is not None and not self._ended.is_set():
            self._channel.write(data)

    async def write(self, data: bytes) -> None:
        """Write to its standard input. Raises OSError when the command is gone."""
        if self._channel is None or self._ended.is_set():
            raise BrokenPipeError
        self._channel.write(data)
        await self._writable.wait()
        if self._ended.is_set():
            raise BrokenPipeError

    async def close_stdin(self) -> None:
        if self._channel is not None and not self._channel.is_closing():
            self._channel.write_eof()

    async def exited(self) -> None:
        await self._ended.wait()

    def signal(self, number: signal.Signals) -> None:
        if self.status is not None or self.lost:
            return  # its script has killed the rest of the group, and another process may have the number by now
        self._signaller(number, self.group)
        if number is signal.SIGKILL and self._giving_up is None:
            self._killed = True
            self._giving_up = asyncio.get_running_loop().call_later(KILL_S, self._give_up)

    def release(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
        if self._channel is not None:
            self._channel.close()

    def _receive_status(self, status: int) -> None:
        if self.status is None:
            self.status = status
        self._ended.set()

    def _receive_sshd_status(self, status: int) -> None:
        """Take sshd's status, and wait for the script's, which may arrive later.

        The script's status counts, since the script ends itself with a signal.
        """
        self._sshd_status = status
        if self._killed:
            self._receive_status(status)
        elif self.status is None:
            self._quiet_since = time.monotonic()
            self._await_word()

    def _await_word(self) -> None:
        if self.status is not None or self._sshd_status is None:
            return
        if time.monotonic() - self._quiet_since > WORD_S:
            self._receive_status(self._sshd_status)
        else:
            asyncio.get_running_loop().call_later(WORD_S / 4, self._await_word)

    def _give_up(self) -> None:
        self.lost = f"process group {self.group} did not end within {KILL_S:g} s of SIGKILL"
        self._end_streams()
        self._ended.set()

    def _end_streams(self) -> None:
        self.stderr.feed_data(self._err_tail.rest())
        self.stdout.feed_eof()
        self.stderr.feed_eof()


def _number_of(name: str) -> int:
    """Return the number of a signal by its name in RFC 4254 section 6.10: `KILL` → 9; 1 for a name unknown on this machine."""
    number = getattr(signal, f"SIG{name}", None)
    return int(number) if number is not None else 1
