"""The flows that `pfctl -s states` lists. Pure: text in, numbers out.

    all udp 172.16.10.2:7 <- 172.16.0.2:4321       NO_TRAFFIC:SINGLE              came in
    all udp 172.16.10.1:60123 (172.16.0.2:4321) -> 172.16.10.2:7       SINGLE:NO_TRAFFIC   went out, translated

The arrow points to where the first packet went (pf_print_state.c of both systems). IPv6 writes the port in brackets.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

_PORT = re.compile(r"\[\d+\]$|(?<=\.\d):\d+$|(?<=\.\d\d):\d+$|(?<=\.\d\d\d):\d+$")


def flows_between(states: str, source: IPv4Address | IPv6Address, sink: IPv4Address | IPv6Address) -> int:
    """How many states are of flows from `source` to `sink`, translated or not."""
    return sum(_ends(line, source, sink) for line in states.splitlines())


def _ends(line: str, source: IPv4Address | IPv6Address, sink: IPv4Address | IPv6Address) -> bool:
    left, arrow, right = line.partition(" <- ") if " <- " in line else line.partition(" -> ")
    if not arrow:
        return False
    first, last = (right, left) if arrow == " <- " else (left, right)
    return source in _addresses(first) and sink in _addresses(last)


def _addresses(text: str) -> set[IPv4Address | IPv6Address]:
    found = set()
    for word in text.split():
        try:
            found.add(ip_address(_PORT.sub("", word.strip("()"))))
        except ValueError:  # an interface, a protocol, a state
            continue
    return found
