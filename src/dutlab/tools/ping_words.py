"""A ping that may not be fragmented, in the words of each system, and what it says when it does not pass.

iputils ping(8), FreeBSD ping(8), OpenBSD ping(8), Windows ping. The words of the BSDs and of Windows were tried against documented outputs
only, never on a machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dutlab.errors import MeasurementError
from dutlab.hosts.host import Done

_HINT = re.compile(r"(?:too long|frag(?:mentation)? needed|packet too big).*?mtu\s*[=:]?\s*(\d+)", re.DOTALL | re.IGNORECASE)
_IPV6 = 6


@dataclass(frozen=True)
class PingWords:
    """The command before size and address, by version of IP; a version without one cannot be asked."""

    system: str
    v4: tuple[str, ...]
    v6: tuple[str, ...] = ()
    tells_status: bool = True
    """Whether it ends with 0 only when it was answered."""
    version: tuple[str, ...] = ()
    """What makes it tell its version, if anything does."""

    def argv(self, version: int, payload: int, address: str) -> list[str]:
        """Raises MeasurementError where this system has no such ping."""
        words = self.v6 if version == _IPV6 else self.v4
        if not words:
            raise MeasurementError(
                f"ping of {self.system} cannot forbid that IPv{version} is fragmented",
                remedy="measure the path MTU from another system, or over IPv4",
            )
        return [*words, str(payload), address]

    def answered(self, done: Done) -> bool:
        """Whether the far end answered."""
        # Windows ends with 0 although a router on the way said "unreachable"; only an answer of the far end has a TTL, in every language.
        return done.status == 0 and (self.tells_status or "TTL=" in done.text)


def hint(done: Done) -> int:
    """The MTU that whoever refused the packet named (RFC 1191 section 4), 0 where nobody did."""
    found = _HINT.search(done.text + done.errors)
    return int(found[1]) if found else 0


_DO = ("ping", "-n", "-c", "1", "-W", "0.5", "-M", "do", "-s")
_LINUX = PingWords("Linux", _DO, _DO, version=("ping", "-V"))
# -W counts milliseconds. ping6's options are others, also where ping(8) is both.
_FREEBSD = PingWords("FreeBSD", ("ping", "-n", "-c", "1", "-W", "1000", "-D", "-s"), ("ping6", "-n", "-c", "1", "-x", "1000", "-D", "-s"))
# -m: ping6 does not have the kernel cut packets down to the least MTU of IPv6.
_OPENBSD = PingWords("OpenBSD", ("ping", "-n", "-c", "1", "-w", "1", "-D", "-s"), ("ping6", "-n", "-c", "1", "-w", "1", "-m", "-s"))
_WINDOWS = PingWords("Windows", ("ping", "-n", "1", "-w", "1000", "-f", "-l"), tells_status=False)
_OF_FAMILY = {
    "freebsd": _FREEBSD,
    "freebsd-pf": _FREEBSD,
    "pfsense": _FREEBSD,
    "openbsd": _OPENBSD,
    "openbsd-pf": _OPENBSD,
    "windows": _WINDOWS,
}


def words_of(family: str) -> PingWords:
    """Those of a family of hosts; Linux's where it has none of its own."""
    return _OF_FAMILY.get(family, _LINUX)
