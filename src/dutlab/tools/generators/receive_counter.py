"""Count and drop the datagrams of another generator where they arrive, by an nftables rule at the port's ingress.

The host's own stack never sees them, so it spends nothing on them and answers nothing. The rule's table belongs to the nft process that
created it (`flags owner`, Linux 5.12): when that process ends, the kernel removes the table. Without nftables nothing is taken, and the
reading is None.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.tools.engine.load import DESTINATION_PORT

Reading = Callable[[], Awaitable[int | None]]
"""Function that returns the number of datagrams so far; None if unknown."""

LOOKS, LOOK_S = 20, 0.05
_NO_NAME = re.compile(r"[^A-Za-z0-9]")


def table_of(interface: str) -> str:
    """Return the table's name, which has no dashes."""
    return f"dutlab_take_{_NO_NAME.sub('_', interface)}"


def commands(interface: str) -> bytes:
    """Return the commands for nft's standard input (nft(8), family netdev)."""
    table = f"netdev {table_of(interface)}"
    return (
        f"add table {table} {{ flags owner; }}\n"
        f'add chain {table} take {{ type filter hook ingress device "{interface}" priority 0; }}\n'
        f"add rule {table} take udp dport {DESTINATION_PORT} counter drop\n"
    ).encode()


def packets_in(listing: str) -> int | None:
    """Return the counter in the output of `nft -j list table`; None if there is none."""
    try:
        rules = [entry["rule"]["expr"] for entry in json.loads(listing)["nftables"] if "rule" in entry]
        return next(int(part["counter"]["packets"]) for rule in rules for part in rule if "counter" in part)
    except (ValueError, KeyError, TypeError, StopIteration):
        return None


@asynccontextmanager
async def taken(host: Host, interface: str) -> AsyncIterator[Reading]:
    """Take the datagrams that arrive at `interface` of `host` while the context lasts. Raises HostError if the host vanished."""

    async def read() -> int | None:
        done = await host.run(["nft", "-j", "list", "table", "netdev", table_of(interface)], check=False)
        return packets_in(done.text) if done.status == 0 else None

    try:
        owner = await host.spawn(["nft", "-i"])
    except HostError:
        yield read
        return
    try:
        try:
            await owner.write(commands(interface))
        except HostError:  # nft has ended: it may not change anything here
            yield read
            return
        for _ in range(LOOKS):
            if await read() is not None:
                break
            await asyncio.sleep(LOOK_S)
        yield read
    finally:
        await owner.end()
