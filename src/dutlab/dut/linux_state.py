"""State of a Linux kernel that the `linux` modes change: forwarding and filters.

It is read so that it can be restored exactly. `net/…` keys are sysctl(8) names with `/`, which are safe with dots in interface names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dutlab.dut.mode import UndoStep
from dutlab.errors import CommandFailed, HostError
from dutlab.hosts.host import Done, Host
from dutlab.reason import reason_in

IP_FORWARD = "net/ipv4/ip_forward"
IP6_FORWARD = "net/ipv6/conf/all/forwarding"
EMPTY = "flush ruleset\n"

# A change of ip_forward also rewrites `forwarding` of every interface and of `default`, and conf/all/accept_redirects
# (inet_forward_change() in net/ipv4/devinet.c); IPv6's `all` does the same to its interfaces. The main switch is first, so that writing the
# values in this order leaves each of them as it was read.
_READ_FORWARDING = """
cd /proc/sys && for f in net/ipv4/ip_forward net/ipv6/conf/all/forwarding net/ipv4/conf/*/forwarding net/ipv4/conf/all/accept_redirects \
net/ipv6/conf/*/forwarding; do [ -r "$f" ] && printf '%s=%s\\n' "$f" "$(cat "$f")"; done; true
"""
_READ_LEGACY = "cat /proc/net/ip_tables_names /proc/net/ip6_tables_names 2>/dev/null; true"
COUNT_FORWARDED = """awk '$1 == "Ip:" && !n { for (n = NF; $n != "ForwDatagrams"; n--); next } $1 == "Ip:" { print $n }' /proc/net/snmp"""
"""Script that prints the number of forwarded IPv4 packets."""
_COUNT_FORWARDED_6 = """[ ! -r /proc/net/snmp6 ] || awk '$1 == "Ip6OutForwDatagrams" { print $2 }' /proc/net/snmp6"""
# A kernel without IPv6 lacks the key and forwards no IPv6.
_FORWARD = f"sysctl -q -w {IP_FORWARD}=1 && {{ [ ! -e /proc/sys/{IP6_FORWARD} ] || sysctl -q -w {IP6_FORWARD}=1; }}"


class Runs(Protocol):
    """Runner of commands on the DUT: the host itself, or root on it (dut/privilege.py)."""

    async def run(self, argv: Sequence[str], *, check: bool = True) -> Done:
        """Run a command. Raises CommandFailed on a status other than 0 if `check`, HostError."""


async def read_undo(dut: Host) -> list[UndoStep]:
    """Return the steps that restore the present forwarding settings and ruleset. Changes nothing.

    Raises HostError when nft would not accept the present ruleset again.
    """
    back, keys = await read_ruleset(dut), await read_forwarding(dut)
    return [
        UndoStep(dut.name, ("nft", "-f", "-"), back, "no ruleset, as it was found" if back == EMPTY else "the ruleset as it was found"),
        UndoStep(dut.name, ("sysctl", "-q", "-e", "-w", *keys), "", "forwarding as it was found"),
    ]


async def read_ruleset(dut: Host) -> str:
    """Return the present ruleset, as text for `nft -f`.

    Raises HostError when nft would not accept it again (rules of iptables extensions, for example): a ruleset that cannot be restored must
    not be flushed.
    """
    ruleset = (await dut.run(["nft", "list", "ruleset"])).text
    back = EMPTY + ruleset if ruleset.strip() else EMPTY
    try:
        await dut.run(["nft", "-c", "-f", "-"], stdin=back.encode())
    except CommandFailed as e:
        raise HostError(
            f"its present ruleset cannot be fed back to nft, so it could not be restored: {reason_in(e.stderr_tail)}",
            host=dut.name,
            remedy="save it by hand and start from an empty ruleset (`nft flush ruleset`)",
        ) from e
    return back


async def read_forwarding(dut: Host) -> list[str]:
    """Return the forwarding settings as arguments of `sysctl -w`, in the order in which they must be written."""
    return [line for line in (await dut.run(["sh", "-c", _READ_FORWARDING])).text.split("\n") if "=" in line]


async def forward_and_filter(dut: Host, ruleset: str) -> None:
    """Load `ruleset` and switch forwarding on. Raises CommandFailed."""
    await dut.run(["nft", "-f", "-"], stdin=ruleset.encode())
    await dut.run(["sh", "-c", _FORWARD])


async def forwards(dut: Runs) -> bool:
    """Return whether net.ipv4.ip_forward is on."""
    return (await dut.run(["cat", f"/proc/sys/{IP_FORWARD}"])).text.strip() == "1"


async def legacy_tables(dut: Host) -> list[str]:
    """Return the tables of iptables-legacy, which packets pass although nft does not list them."""
    return (await dut.run(["sh", "-c", _READ_LEGACY])).text.split()


async def forwarded(dut: Runs) -> int:
    """Return the number of packets that the IP stack has forwarded, IPv4 and IPv6. Raises CommandFailed, HostError."""
    return sum(int(word) for word in (await dut.run(["sh", "-c", f"{COUNT_FORWARDED}\n{_COUNT_FORWARDED_6}"])).text.split())
