"""Which interfaces a host has."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dutlab.hosts.host import Host

_LIST = r"""
if command -v ip >/dev/null; then ip -o link | sed -n 's/^[0-9]*: \([^:@]*\).*/\1/p'
else ifconfig -l 2>/dev/null || ifconfig | sed -n 's/^\([a-z0-9]*\):.*/\1/p'; fi
"""


async def interfaces_of(host: Host) -> list[str]:
    """All, as Linux, FreeBSD or OpenBSD lists them; none where that cannot be told. Raises HostError when the host itself is gone."""
    return (await host.run(["sh", "-c", _LIST], check=False)).text.split()


def without_loopback(names: Iterable[str]) -> list[str]:
    """Those that lead out of the host."""
    return [name for name in names if not re.fullmatch(r"lo\d*", name)]
