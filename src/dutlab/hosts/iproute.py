"""Output of `ip -j` (iproute2): a list of entries, of which some versions leave empty ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from dutlab.errors import HostError
from dutlab.hosts.host import Host


async def entries(host: Host, words: Sequence[str]) -> list[dict[str, Any]]:
    """Return the entries of `ip -j` with these words, as in ["address", "show"]; none where it fails. Raises HostError for other output."""
    done = await host.run(["ip", "-j", *words], check=False)
    try:
        return [entry for entry in json.loads(done.text or "[]") if isinstance(entry, dict) and entry]
    except ValueError as e:
        raise HostError(f"`ip -j {' '.join(words)}` printed no JSON", host=host.name, remedy="install a newer iproute2") from e


async def interfaces_of(host: Host) -> list[str]:
    """Return all interfaces that its system lists; none where it cannot list them. Raises HostError when the host itself is gone."""
    return (await host.run(host.system.ports, check=False)).text.split() if host.system.ports else []


def without_loopback(names: Iterable[str]) -> list[str]:
    """Those that lead out of the host."""
    return [name for name in names if not re.fullmatch(r"lo\d*", name)]
