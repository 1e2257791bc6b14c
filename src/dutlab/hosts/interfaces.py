"""Which interfaces a host has."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dutlab.hosts.host import Host


async def interfaces_of(host: Host) -> list[str]:
    """All, as its system lists them; none where that cannot be told. Raises HostError when the host itself is gone."""
    return (await host.run(host.system.ports, check=False)).text.split() if host.system.ports else []


def without_loopback(names: Iterable[str]) -> list[str]:
    """Those that lead out of the host."""
    return [name for name in names if not re.fullmatch(r"lo\d*", name)]
