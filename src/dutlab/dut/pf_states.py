"""Search for a flow in `pfctl -s states`. Pure.

    all udp 172.16.10.2:7 <- 172.16.0.2:4321       NO_TRAFFIC:SINGLE              came in
    all udp 172.16.10.1:60123 (172.16.0.2:4321) -> 172.16.10.2:7       SINGLE:NO_TRAFFIC   went out, translated

The arrow points to the destination of the first packet (pf_print_state.c of both systems). IPv6 has the port in brackets.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

from dutlab.dut.mode import UdpFlow

_END = re.compile(r"(?P<v4>\d+\.\d+\.\d+\.\d+):(?P<port4>\d+)|(?P<v6>[0-9a-f:.]+)\[(?P<port6>\d+)\]")
_End = tuple[IPv4Address | IPv6Address, int]


def has_state(states: str, flow: UdpFlow) -> bool:
    """Return whether a state belongs to this flow, translated or not."""
    return any(_is_of(line, flow) for line in states.splitlines())


def _is_of(line: str, flow: UdpFlow) -> bool:
    left, arrow, right = line.partition(" <- ") if " <- " in line else line.partition(" -> ")
    if not arrow:
        return False
    first, last = (right, left) if arrow == " <- " else (left, right)
    ends = (flow.source, flow.source_port), (flow.destination, flow.destination_port)
    return "udp" in line.split() and ends[0] in _ends(first) and ends[1] in _ends(last)


def _ends(text: str) -> set[_End]:
    """Return all addresses with their ports."""
    matches = (_END.fullmatch(word.strip("()")) for word in text.split())
    return {(ip_address(m["v4"] or m["v6"]), int(m["port4"] or m["port6"])) for m in matches if m}
