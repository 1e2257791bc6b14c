"""Connection tracking of a Linux kernel: whether it tracks a flow, and how to delete all tracked flows.

The list in /proc is a build option of the kernel (CONFIG_NF_CONNTRACK_PROCFS), and conntrack(8) is rarely installed. The kernel also
answers over netlink, so perl (part of every Debian) or python3 can replace conntrack(8). Messages:
include/uapi/linux/netfilter/nfnetlink_conntrack.h. They are little-endian; a big-endian kernel answers with an error.
"""

from __future__ import annotations

import errno
import struct
from ipaddress import ip_address

from dutlab.dut.linux_state import Runs
from dutlab.dut.mode import Check, UdpFlow
from dutlab.errors import HostError
from dutlab.hosts.programs import Program

ASKS_KERNEL = Program("conntrack", "conntrack", others=("perl", "python3"))
"""Programs that can delete tracked flows; one of them is enough."""

_NFNL_SUBSYS_CTNETLINK, _GET, _DELETE = 1, 1, 2
_REQUEST, _ACK = 1, 4
_NESTED = 0x8000
_AF = {4: 2, 6: 10}
_UDP = 17
_TUPLE_ORIG, _TUPLE_IP, _TUPLE_PROTO = 1, 1, 2
_IP_ATTRIBUTES = {4: (1, 2), 6: (3, 4)}
_PROTO_NUM, _PROTO_SRC_PORT, _PROTO_DST_PORT = 1, 2, 3

# Sends the message `$1` (hexadecimal) and prints the errno of the answer; 0 is an acknowledgement or the requested entry. AF_NETLINK is 16,
# SOCK_RAW 3, NETLINK_NETFILTER 12; an error is message type 2 (NLMSG_ERROR).
_PERL = (
    'socket(my $s,16,3,12)or die"$!";send($s,pack("H*",$ARGV[0]),0)or die"$!";defined recv($s,my $m,65536,0)or die"$!";'
    'print unpack("x4S",$m)==2?-unpack("x16l",$m):0'
)
_PYTHON = (
    "import socket,struct,sys;s=socket.socket(16,3,12);s.send(bytes.fromhex(sys.argv[1]));m=s.recv(65536);"
    'print(-struct.unpack_from("=i",m,16)[0]if struct.unpack_from("=H",m,4)[0]==2 else 0)'
)
_UNREADABLE = "unreadable"
_ASK = f"""if command -v perl >/dev/null; then perl -e '{_PERL}' "$1"
elif command -v python3 >/dev/null; then python3 -c '{_PYTHON}' "$1"
else echo {_UNREADABLE}; fi"""
_LIST = ("cat", "/proc/net/nf_conntrack")
# Without the counter, connection tracking is not loaded. `conntrack -L` ends with 0 even if it lists nothing.
_ANY = 'n=/proc/sys/net/netfilter/nf_conntrack_count; [ -e $n ] && [ "$(cat $n)" != 0 ] || exit 0'
_LISTED = "cat /proc/net/nf_conntrack 2>/dev/null || conntrack -L -p udp -f {family} 2>/dev/null"
_READ = f"""{_ANY}
command -v conntrack >/dev/null && exec conntrack -L -p udp -f {{family}} 2>/dev/null
{_ASK}"""
_FORGET = f"""{_ANY}
command -v conntrack >/dev/null && exec conntrack -F
{_ASK}"""


async def listed(dut: Runs, flow: UdpFlow) -> str | None:
    """Return the kernel's line of a flow; empty if it is not tracked, None if flows cannot be listed. Raises HostError."""
    done = await dut.run(["sh", "-c", _LISTED.format(family=f"ipv{flow.source.version}")], check=False)
    return None if done.status else next((line for line in done.text.splitlines() if _is_of(line, flow)), "")


async def is_tracked(dut: Runs, flow: UdpFlow) -> bool | None:
    """Return whether the kernel tracks this flow; None when it cannot be read. Raises HostError."""
    done = await dut.run(_LIST, check=False)
    if done.status == 0:
        return _holds(done.text, flow)
    message = _message(_GET, _REQUEST, _AF[flow.source.version], _tuple(flow))
    reply = (await dut.run(["sh", "-c", _READ.format(family=f"ipv{flow.source.version}"), "sh", message.hex()])).text
    if reply.strip().isdigit():
        return {0: True, errno.ENOENT: False}.get(int(reply))
    return None if reply.strip() == _UNREADABLE else _holds(reply, flow)


async def forget_flows(dut: Runs) -> None:
    """Delete all flows that the kernel tracks. Raises HostError if the DUT has no program for this, or the kernel refuses."""
    done = await dut.run(["sh", "-c", _FORGET, "sh", _message(_DELETE, _REQUEST | _ACK, 0, b"").hex()])
    reply = done.text.strip()
    if reply not in {"", "0"}:
        why = f"it has none of {', '.join(ASKS_KERNEL.names)}" if reply == _UNREADABLE else f"its kernel answers with errno {reply}"
        remedy = "install conntrack on it (Debian: apt install conntrack)"
        raise HostError(f"its tracked flows cannot be flushed: {why}", host=done.host, remedy=remedy)


async def most_flows(dut: Runs) -> int | None:
    """Return the machine-wide limit of tracked flows, read-only in a namespace; None while tracking is not loaded."""
    output = (await dut.run(["cat", "/proc/sys/net/netfilter/nf_conntrack_max"], check=False)).text.strip()
    return int(output) if output.isdigit() else None


async def limit_check(dut: Runs, flows: int) -> Check:
    """Return the check for the record: the machine's limit of tracked flows, and whether `flows` concurrent flows fit."""
    most = await most_flows(dut)
    fit = "" if most is None or flows <= most else f", fewer than the {flows} flows of the experiment"
    return Check("connection tracking has the machine's own limit", most is not None, f"nf_conntrack_max is {most}{fit}")


def _holds(listing: str, flow: UdpFlow) -> bool:
    """Return whether the listing has the flow.

    An entry begins with the direction of the first packet: `udp … src=SOURCE dst=SINK sport=… dport=…` (ct_seq_show(), conntrack(8)).
    """
    return any(_is_of(line, flow) for line in listing.splitlines())


def _is_of(line: str, flow: UdpFlow) -> bool:
    ends = (str(flow.source), str(flow.destination), str(flow.source_port), str(flow.destination_port))
    return "udp" in line.split() and _first_direction(line) == ends


def _first_direction(line: str) -> tuple[str, ...]:
    """Return addresses and ports of the first direction, with short addresses: the kernel prints all groups of IPv6."""
    values = dict(reversed([word.split("=", 1) for word in line.split() if "=" in word]))
    fields = [values.get(key, "") for key in ("src", "dst", "sport", "dport")]
    return (*(str(ip_address(address)) if address else "" for address in fields[:2]), *fields[2:])


def _message(kind: int, flags: int, family: int, attributes: bytes) -> bytes:
    """Return a netlink message: struct nlmsghdr, struct nfgenmsg and the attributes."""
    length = 20 + len(attributes)
    return struct.pack("<IHHII BBH", length, _NFNL_SUBSYS_CTNETLINK << 8 | kind, _REQUEST | flags, 1, 0, family, 0, 0) + attributes


def _tuple(flow: UdpFlow) -> bytes:
    source, destination = _IP_ATTRIBUTES[flow.source.version]
    addresses = _attribute(source, flow.source.packed) + _attribute(destination, flow.destination.packed)
    ports = _attribute(_PROTO_NUM, bytes([_UDP]))
    ports += _attribute(_PROTO_SRC_PORT, struct.pack(">H", flow.source_port))
    ports += _attribute(_PROTO_DST_PORT, struct.pack(">H", flow.destination_port))
    return _attribute(_TUPLE_ORIG | _NESTED, _attribute(_TUPLE_IP | _NESTED, addresses) + _attribute(_TUPLE_PROTO | _NESTED, ports))


def _attribute(kind: int, data: bytes) -> bytes:
    """Return a netlink attribute: struct nlattr, padded to four bytes."""
    return struct.pack("<HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)
