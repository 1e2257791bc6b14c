"""Output of `ip -j` (iproute2): a list of entries. Some versions include empty entries, which are dropped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from dutlab.errors import HostError
from dutlab.hosts.host import Host


async def entries(host: Host, words: Sequence[str]) -> list[dict[str, Any]]:
    """Return the entries of `ip -j` with arguments `words`; empty where it fails. Raises HostError for other output."""
    done = await host.run(["ip", "-j", *words], check=False)
    try:
        return [entry for entry in json.loads(done.text or "[]") if isinstance(entry, dict) and entry]
    except ValueError as e:
        raise HostError(f"`ip -j {' '.join(words)}` printed no JSON", host=host.name, remedy="install a newer iproute2") from e


async def interfaces_of(host: Host) -> list[str]:
    """Return all interfaces of a host; empty where its system cannot list them. Raises HostError when the host is gone."""
    return (await host.run(host.system.ports, check=False)).text.split() if host.system.ports else []


def without_loopback(names: Iterable[str]) -> list[str]:
    """Return the names of interfaces without loopbacks."""
    return [name for name in names if not re.fullmatch(r"lo\d*", name)]
