"""Program iperf3: its version on a host, its server, which listens before a client connects, and its client."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack

from dutlab.bounds import OUTPUT_BYTES
from dutlab.ending import cancelled
from dutlab.errors import CommandTimedOut, ToolFailed, ToolMissing
from dutlab.hosts.host import NO_SUCH_PROGRAM, Done, Host, Process
from dutlab.hosts.programs import install_command
from dutlab.reason import reason_in
from dutlab.tools.iperf3 import json_output

TOOL = PROGRAM = "iperf3"
OLDEST = (3, 1)  # esnet/iperf release notes: since 3.1, -1 is reliable and the server's JSON has every field read here
BOTH_WAYS = (3, 7)  # same source: 3.7 brought --bidir
FIRST_PORT = 5201
PORTS_TRIED = 8
LISTEN_TRIES, LISTEN_PAUSE_S = 100, 0.05
SERVER_ENDS_S, SERVER_FAILS_S = 60.0, 5.0
"""Time for the server to end. After a successful client it ends automatically, late without CPU; after a failed one it may still listen."""
_VERSION = re.compile(r"^iperf (\d+)\.(\d+)")


async def version_of(host: Host, oldest: tuple[int, int] = OLDEST, why: str = "") -> str:
    """Return the version, as in `3.12`. Raises ToolMissing; `why` says what needs `oldest`."""
    done = await host.run([PROGRAM, "--version"], check=False)
    if done.status == NO_SUCH_PROGRAM:
        raise ToolMissing("iperf3 is not installed", tool=TOOL, host=host.name, remedy=install_command(host, TOOL))
    if not (match := _VERSION.search(done.text)):
        output = (done.text + done.errors).strip()[:80]
        raise ToolMissing(
            f"`iperf3 --version` says {output!r}, which reports no version", tool=TOOL, host=host.name, remedy=install_command(host, TOOL)
        )
    if (int(match[1]), int(match[2])) < oldest:
        what = f"iperf3 {match[1]}.{match[2]} is too old{f' for {why}' if why else ''}"
        raise ToolMissing(what, tool=TOOL, host=host.name, remedy=f"install {'.'.join(map(str, oldest))} or later")
    return f"{match[1]}.{match[2]}"


async def listen(
    host: Host,
    address: str,
    first_port: int,
    ended_at_exit: AsyncExitStack,
    *,
    cores: Sequence[int] | None = None,
    more: Sequence[str] = (),
) -> tuple[int, Process]:
    """Start a server on the first free port from `first_port`, with `more` options; return once it listens. Raises ToolFailed."""
    for port in range(first_port, first_port + PORTS_TRIED):
        if await _is_taken(host, port):
            continue  # another server listens: it would be taken for ours
        server = await host.spawn([*host.system.pinned(cores or ()), PROGRAM, "-s", "-B", address, "-p", str(port), "-1", "-J", *more])
        ended_at_exit.push_async_callback(server.end)
        if (why := await _why_not_listening(host, server, port)) is None:
            return port, server
        if "already in use" not in why:
            raise ToolFailed(f"the server on {address} port {port} does not listen: {why}", tool=TOOL, host=host.name)
    taken = f"ports {first_port} to {first_port + PORTS_TRIED - 1} are all taken"
    raise ToolFailed(taken, tool=TOOL, host=host.name, remedy="end the programs that hold them")


async def run_client(host: Host, argv: Sequence[str], *, timeout_s: float, name: str, lets: str) -> Done:
    """Run a client to its end, with any status. `name` is the measured link; `lets` names the packets that the link must let through.

    Raises ToolFailed if it does not end in time, ToolMissing, HostError.
    """
    try:
        client = await host.run(argv, timeout_s=timeout_s, check=False, most_bytes=OUTPUT_BYTES)
    except CommandTimedOut as e:
        why = f"{name}: the client did not end within {e.timeout_s:g} s and was ended"
        raise ToolFailed(why, tool=TOOL, host=host.name, remedy=f"check whether the link lets {lets} through") from e
    if client.status == NO_SUCH_PROGRAM:
        raise ToolMissing("iperf3 is not installed", tool=TOOL, host=host.name, remedy=install_command(host, TOOL))
    return client


async def ended(server: Process, client: Done) -> Done:
    """Return the server's output once it has ended, after its client."""
    try:
        return await server.wait(SERVER_ENDS_S if json_output.is_whole(client.stdout) else SERVER_FAILS_S)
    except CommandTimedOut:
        return await server.end()


async def _is_taken(host: Host, port: int) -> bool:
    """Return whether something listens on a TCP port there."""
    done = await host.run(host.system.listens(port), check=False)
    return host.system.is_listening(done.text, port)


async def _seen_listening(host: Host, port: int) -> bool:
    for _ in range(LISTEN_TRIES):
        if await _is_taken(host, port):
            return True
        await asyncio.sleep(LISTEN_PAUSE_S)
    return False


async def _why_not_listening(host: Host, server: Process, port: int) -> str | None:
    """Return None as soon as `server` listens on `port`; otherwise why it does not."""
    looking = asyncio.create_task(_seen_listening(host, port))
    # With -J a server prints nothing before its test is over: a line, or the end of its output, means that it has failed.
    speaking = asyncio.create_task(server.readline())
    try:
        await asyncio.wait({looking, speaking}, return_when=asyncio.FIRST_COMPLETED)
        if not speaking.done() and looking.result():
            return None
    finally:
        await cancelled(looking, speaking)
    ended = await server.end()
    output = (b"" if speaking.cancelled() else speaking.result()) + ended.stdout
    return json_output.error_in(output) or reason_in((output + ended.stderr).decode("utf-8", "replace")) or "it printed nothing"
