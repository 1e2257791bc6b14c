"""Commands that build a lab, as text; nothing here runs them.

veth pairs are created with both ends inside the namespaces, so that the machine's own namespace gets no port. Neighbours are static on both
sides. So there is no ARP, no entry expires in a trial (RFC 2544 appendix C.2.4.1 warns of that), and a link carries only frames of dutlab.
For the same reason IPv6 sends nothing automatically.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Interface

from dutlab.labs.state import SWITCH
from dutlab.spec.lab_files import LabDescription
from dutlab.spec.links import Link, Port
from dutlab.spec.testbed import Testbed

_V4 = {
    "conf/all/rp_filter": "0",
    "conf/default/rp_filter": "0",
    "ip_forward": "0",
    # The kernel's defaults (Documentation/networking/ip-sysctl.rst), independent of the machine's settings.
    "tcp_rmem": "4096 131072 6291456",
    "tcp_wmem": "4096 16384 4194304",
    # A trial must not start with path metrics of the previous one (tcp_metrics.c).
    "tcp_no_metrics_save": "1",
}
QUEUE_FRAMES = 1000
"""Default queue of an Ethernet card, in frames (txqueuelen, ether_setup() in net/ethernet/eth.c)."""
SWITCH_MTU = 65535
"""Largest MTU of a veth: the switch also carries frames of a host that raises its MTU. A bridge takes the MTU of its ports."""
_NO_V6 = "if [ -e /proc/sys/net/ipv6 ]; then for all in all default; do echo 1 > /proc/sys/net/ipv6/conf/$all/disable_ipv6; done; fi"
_QUIET_V6 = {"accept_dad": 0, "dad_transmits": 0, "router_solicitations": 0, "accept_ra": 0, "addr_gen_mode": 1}


def mac(link: int, port: int) -> str:
    """Return the MAC of the `port`th port on the path of the `link`th link: locally administered, the same in every lab."""
    return f"02:00:00:00:{link:02x}:{port + 1:02x}"


def macs_of(testbed: Testbed) -> dict[Port, str]:
    """Return the MAC of each port, by the first link that has it."""
    mac_by_port: dict[Port, str] = {}
    for index, link in enumerate(testbed.links.values()):
        for at, port in enumerate(link.ports):
            mac_by_port.setdefault(port, mac(index, at))
    return mac_by_port


def veth_batch(testbed: Testbed, namespaces: Mapping[str, str], queues: int = 1) -> str:
    """Return lines for `ip -batch -` that make every pair, each end in its namespace. One queue is used: one NAPI thread per port."""
    lines, macs = [], macs_of(testbed)
    for link in testbed.links.values():
        ends = [
            f"name {port.interface} netns {namespaces[port.host]} numrxqueues {queues} numtxqueues {queues} mtu {link.mtu} "
            f"address {macs[port]}"
            for port in link.ports
        ]
        if link.segment:
            far = [f"name {name} netns {namespaces[SWITCH]} mtu {SWITCH_MTU}" for name in _switch_ports(link)]
            lines += [f"link add {here} type veth peer {there}" for here, there in zip(ends, far, strict=True)]
        else:
            lines += [f"link add {here} type veth peer {there}" for here, there in zip(ends[::2], ends[1::2], strict=True)]
    return "\n".join(dict.fromkeys(lines)) + "\n"  # links may share a cable


def switch_script(testbed: Testbed) -> str:
    """Return a script for `sh -e` in the switch's namespace: one bridge per segment, which forwards at once and sends nothing itself."""
    lines = [_NO_V6, "ip -batch - <<'END'"]
    lines += [line for link in testbed.links.values() if link.segment for line in _bridge(f"br-{link.name}", _switch_ports(link))]
    return "\n".join([*lines, "END"]) + "\n"


def _bridge(name: str, ports: Iterable[str]) -> list[str]:
    """Return lines for `ip -batch`: a bridge with its ports up, which forwards at once and sends nothing itself."""
    joined = [line for port in ports for line in (f"link set dev {port} master {name}", f"link set dev {port} up")]
    return [f"link add {name} type bridge stp_state 0 mcast_snooping 0", *joined, f"link set dev {name} up"]


def _switch_ports(link: Link) -> list[str]:
    return [f"{link.name}-{i}" for i in range(len(link.segment))]


def management_batch(roles: Iterable[str], namespaces: Mapping[str, str], far: str) -> str:
    """Return lines for `ip -batch -`: a management link between each role and the namespace `far`."""
    return "".join(f"link add name mgmt netns {namespaces[role]} type veth peer name m-{role} netns {far}\n" for role in roles)


def management_script(ends: Mapping[str, IPv4Interface]) -> str:
    """Return a script for `sh -e` in a namespace that sets up its ends of management links (interface → address)."""
    lines = ["ip -batch - <<'END'", "link set dev lo up"]
    lines += [line for end, address in ends.items() for line in (f"addr add {address} dev {end}", f"link set dev {end} up")]
    return "\n".join([*lines, "END"]) + "\n"


def setup_script(description: LabDescription, role: str) -> str:
    """Return a script for `sh -e` in the role's namespace: settings, addresses, neighbours, ports up."""
    testbed, settings = description.testbed, description.settings
    lines, macs, ports = [*_sysctls(description), *_by_itself(description, role), "ip -batch - <<'END'"], macs_of(testbed), list[str]()
    for link in testbed.links.values():
        ports += _port_commands(macs, link, role) if not settings.box else _bare_port_commands(link, role)
    lines += ["link set dev lo up", *dict.fromkeys(ports), "END"]
    for port in ports_of(testbed, role):
        lines += [f"ethtool -L {port} rx 1 tx 1"] if settings.queues > 1 else []
        lines.append(f"ethtool -K {port} gro {_on(settings.gro)} tso {_on(settings.tso)} tx-udp-segmentation {_on(settings.tso)}")
    return "\n".join(lines) + "\n"


def cable_script(testbed: Testbed, near: Port, far_namespace: str, queues: int) -> str:
    """Return a script for `sh -e` in the namespace of `near` that replaces its cable by one with `queues` queues per end."""
    link = next(link for link in testbed.links.values() if near in link.ports)
    far, macs = link.ports[link.ports.index(near) ^ 1], macs_of(testbed)
    ends = [f"mtu {link.mtu} address {macs[port]} numrxqueues {queues} numtxqueues {queues}" for port in (near, far)]
    command = f"ip link add name {near.interface} {ends[0]} type veth peer name {far.interface} netns {far_namespace} {ends[1]}"
    return f"ip link del dev {near.interface}\n{command}\nip link set dev {near.interface} up\n"


def port_script(testbed: Testbed, port: Port) -> str:
    """Return a script for `sh` in the namespace of `port` that repeats its part of setup_script; existing settings remain."""
    macs = macs_of(testbed)
    lines = [line for link in testbed.links.values() for line in _port_commands(macs, link, port.host)]
    return "\n".join(["ip -force -batch - 2>/dev/null <<'END' || true", *lines, "END"]) + "\n"


def stub_script(description: LabDescription, role: str) -> str:
    """Return a script for `sh -e` in the namespace around a guest: it only sets ports up, because the guest has the addresses."""
    ports = ports_of(description.testbed, role)
    lines = [_NO_V6, *(f"ip link set dev {port} arp off up" for port in ports)]
    lines += [f"ethtool -K {port} gro {_on(description.settings.gro)} tso off tx-udp-segmentation off" for port in ports]
    return "\n".join(lines) + "\n"


def addresses_of(testbed: Testbed, role: str) -> dict[str, str]:
    """Return the role's ports → MAC address."""
    return {port.interface: address for port, address in macs_of(testbed).items() if port.host == role}


def carrier_script(testbed: Testbed, role: str) -> str:
    """Return a script for `sh -e` in the namespace that waits until both ends of each pair are up for the kernel."""
    return "".join(f'until [ "$(cat /sys/class/net/{port}/operstate)" = up ]; do sleep 0.02; done\n' for port in ports_of(testbed, role))


def queue_script(testbed: Testbed, role: str) -> str:
    """Return a script for `sh` in the namespace that sets a queue before each port, as a card has; it prints why one fails.

    With the queue, a full ring of the port's peer blocks a socket; without it the frame is dropped (veth_xmit(), Linux 6.16 and newer).
    """
    ports = ports_of(testbed, role)
    return "".join(f"tc qdisc replace dev {port} root pfifo limit {QUEUE_FRAMES} 2>&1\n" for port in ports)


def threads_script(testbed: Testbed, role: str) -> str:
    """Return a script for `sh -e` in the namespace that switches the role's ports to NAPI threads. They must be up, with GRO on."""
    return "".join(f"echo 1 > /sys/class/net/{port}/threaded\n" for port in ports_of(testbed, role))


def ports_of(testbed: Testbed, role: str) -> list[str]:
    """Return the interfaces of `role`, in the order of links and paths."""
    return testbed.ports_of(role)


def _sysctls(description: LabDescription) -> Iterator[str]:
    # A new namespace inherits the IPv4 settings of the machine (net.core.devconf_inherit_init_net), so each one is set.
    for name, value in _V4.items():
        yield f"echo {value} > /proc/sys/net/ipv4/{name}"
    # With another default on the machine, a namespace may select only that one or reno (net/ipv4/tcp_cong.c, restricted algorithms); reno
    # does not depend on the machine.
    control = "/proc/sys/net/ipv4/tcp_congestion_control"
    yield f"(echo cubic > {control}) 2>/dev/null || echo reno > {control}"
    quiet = dict(_QUIET_V6)
    if description.settings.box:
        del quiet["addr_gen_mode"]  # neighbour discovery needs link-local addresses (RFC 4291 section 2.8)
    if all(isinstance(address, IPv4Interface) for link in description.testbed.links.values() for address in link.addresses):
        quiet["disable_ipv6"] = 1
    for scope in ("all", "default"):
        for name, setting in quiet.items():
            path = f"/proc/sys/net/ipv6/conf/{scope}/{name}"
            yield f"if [ -e {path} ]; then echo {setting} > {path}; fi"


def _port_commands(macs: Mapping[Port, str], link: Link, role: str) -> Iterator[str]:
    yield from (f"link set dev {port.interface} up" for port in link.ports if port.host == role and link.is_transparent)
    for i, (port, address) in enumerate(link.addressed):
        if port.host != role:
            continue
        yield f"addr add {address} dev {port.interface}"
        yield f"link set dev {port.interface} up"
        others = [j for j in range(len(link.segment)) if j != i] if link.segment else [i ^ 1]  # the far end of the same cable: 0-1, 2-3
        for j in others:
            yield f"neigh replace {link.addresses[j].ip} lladdr {macs[link.addressed[j][0]]} dev {port.interface} nud permanent"
        for beyond in link.addresses[i + 2 :: 2] if i % 2 == 0 and link.path else link.addresses[: max(i - 1, 0) : 2]:
            if link.path:
                yield f"route add {beyond.network} via {link.addresses[i ^ 1].ip} dev {port.interface}"


def _bare_port_commands(link: Link, role: str) -> Iterator[str]:
    """Yield lines that set addresses and ports up, as after plugging in the cables."""
    yield from (f"addr add {address} dev {port.interface}" for port, address in link.addressed if port.host == role)
    yield from (f"link set dev {port.interface} up" for port in link.ports if port.host == role)


def _by_itself(description: LabDescription, role: str) -> Iterator[str]:
    forwards = {host for link in description.testbed.links.values() for host in link.forwarders} - {description.testbed.dut}
    box = description.settings.box and role == description.testbed.dut
    bridged = [link for link in description.testbed.links.values() if box and link.is_transparent]
    for link in bridged:
        yield from (f"ip {line}" for line in _bridge(f"br-{link.name}", (link.dut_in.interface, link.dut_out.interface)))
    if role in forwards or (box and not bridged):
        yield "echo 1 > /proc/sys/net/ipv4/ip_forward"
        yield "if [ -e /proc/sys/net/ipv6 ]; then echo 1 > /proc/sys/net/ipv6/conf/all/forwarding; fi"


def _on(value: bool) -> str:  # noqa: FBT001 one word of a command
    return "on" if value else "off"
