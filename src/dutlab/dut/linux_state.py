"""The part of a Linux kernel's state that the `linux` modes change: what forwards, what filters, what is tracked.

Read here so that it can be put back exactly; `net/…` keys are sysctl(8) names with `/`, which survive dots in interface names.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol

from dutlab.dut.mode import UndoStep
from dutlab.errors import CommandFailed, HostError, ToolMissing
from dutlab.hosts.host import Done, Host

IP_FORWARD = "net/ipv4/ip_forward"
IP6_FORWARD = "net/ipv6/conf/all/forwarding"
EMPTY = "flush ruleset\n"

# A change of ip_forward also rewrites `forwarding` of every interface and of `default`, and conf/all/accept_redirects
# (inet_forward_change() in net/ipv4/devinet.c); IPv6's `all` does the same to its interfaces. The switch itself comes first, so that
# written back in this order each value is the last one that was set.
_READ_FORWARDING = """
cd /proc/sys && for f in net/ipv4/ip_forward net/ipv6/conf/all/forwarding net/ipv4/conf/*/forwarding net/ipv4/conf/all/accept_redirects \
net/ipv6/conf/*/forwarding; do [ -r "$f" ] && printf '%s=%s\\n' "$f" "$(cat "$f")"; done; true
"""
# No counter: connection tracking is not loaded. The list is a build option of the kernel (CONFIG_NF_CONNTRACK_PROCFS).
_READ_TRACKED = (
    'n=/proc/sys/net/netfilter/nf_conntrack_count; [ -e $n ] && [ "$(cat $n)" != 0 ] || exit 0; '
    "cat /proc/net/nf_conntrack 2>/dev/null || conntrack -L 2>/dev/null || echo unreadable"
)
_READ_LEGACY = "cat /proc/net/ip_tables_names /proc/net/ip6_tables_names 2>/dev/null; true"
_FLUSH_TRACKED = """
n=/proc/sys/net/netfilter/nf_conntrack_count; [ -e $n ] && [ "$(cat $n)" != 0 ] && command -v conntrack >/dev/null || exit 0
conntrack -F
"""
# A kernel without IPv6 has no such key, and nothing to forward.
_FORWARD = f"sysctl -q -w {IP_FORWARD}=1 && {{ [ ! -e /proc/sys/{IP6_FORWARD} ] || sysctl -q -w {IP6_FORWARD}=1; }}"


class Runs(Protocol):
    """What runs commands on the DUT: the host itself, or root on it (dut/privilege.py)."""

    async def run(self, argv: Sequence[str]) -> Done:
        """Raises CommandFailed, HostError."""


async def need_nft(dut: Host) -> None:
    """Raises ToolMissing when the DUT has no nft."""
    found = await dut.run(["sh", "-c", "command -v nft"], check=False)
    if found.status != 0:
        raise ToolMissing("nft is not there", tool="nft", host=dut.name, remedy="install nftables on it (Debian: apt install nftables)")


async def read_undo(dut: Host) -> list[UndoStep]:
    """Steps that put forwarding and ruleset back as they are now. Changes nothing.

    Raises HostError when the present ruleset is one that nft itself would not take back.
    """
    back, keys = await read_ruleset(dut), await read_forwarding(dut)
    return [
        UndoStep(dut.name, ("nft", "-f", "-"), back, "no ruleset, as it was found" if back == EMPTY else "the ruleset as it was found"),
        UndoStep(dut.name, ("sysctl", "-q", "-e", "-w", *keys), "", "forwarding as it was found"),
    ]


async def read_ruleset(dut: Host) -> str:
    """The ruleset in force, as text for `nft -f`.

    Raises HostError when it is one that nft itself would not take back (rules of iptables extensions, for instance): what cannot be
    restored must not be flushed.
    """
    ruleset = (await dut.run(["nft", "list", "ruleset"])).text
    back = EMPTY + ruleset if ruleset.strip() else EMPTY
    try:
        await dut.run(["nft", "-c", "-f", "-"], stdin=back.encode())
    except CommandFailed as e:
        raise HostError(
            f"its present ruleset cannot be fed back to nft, so it could not be restored: {e.stderr_tail.strip()[:200]}",
            host=dut.name,
            remedy="save it by hand and start from an empty ruleset (`nft flush ruleset`)",
        ) from e
    return back


async def read_forwarding(dut: Host) -> list[str]:
    """What forwards, as arguments of `sysctl -w` in the order in which they have to be written."""
    return [line for line in (await dut.run(["sh", "-c", _READ_FORWARDING])).text.split("\n") if "=" in line]


async def forward_and_filter(dut: Host, ruleset: str) -> None:
    """Forwarding on, `ruleset` in force, and no tracked flow left from the rules before (if the DUT has conntrack(8)).

    Raises CommandFailed.
    """
    await dut.run(["nft", "-f", "-"], stdin=ruleset.encode())
    await dut.run(["sh", "-c", _FORWARD])
    await dut.run(["sh", "-c", _FLUSH_TRACKED])


async def forwards(dut: Runs) -> bool:
    """Whether net.ipv4.ip_forward is on."""
    return (await dut.run(["cat", f"/proc/sys/{IP_FORWARD}"])).text.strip() == "1"


async def tracked_flows(dut: Runs, source: IPv4Address | IPv6Address, sink: IPv4Address | IPv6Address) -> int | None:
    """How many flows from `source` to `sink` the kernel tracks; None when it lets nobody look.

    An entry begins with the first packet's direction: `… src=SOURCE dst=SINK …` (nf_conntrack_standalone.c, ct_seq_show()).
    """
    text = (await dut.run(["sh", "-c", _READ_TRACKED])).text
    if text.strip() == "unreadable":
        return None
    entries = [[word for word in line.split() if word.startswith(("src=", "dst="))][:2] for line in text.splitlines()]
    return entries.count([f"src={_as_kernel(source)}", f"dst={_as_kernel(sink)}"])


async def legacy_tables(dut: Host) -> list[str]:
    """Tables of iptables-legacy, which nft does not see but packets pass."""
    return (await dut.run(["sh", "-c", _READ_LEGACY])).text.split()


def _as_kernel(address: IPv4Address | IPv6Address) -> str:
    """As ct_seq_show() prints it: IPv6 with all its groups (%pI6), IPv4 with dots."""
    return str(address) if isinstance(address, IPv4Address) else address.exploded
