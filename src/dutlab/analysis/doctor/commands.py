"""Commands that read and set a port, by system: ip, ethtool and /sys of Linux, ifconfig of the BSDs, cmdlets of Windows."""

from __future__ import annotations

from dutlab.analysis.doctor.finding import shell
from dutlab.analysis.doctor.inventory import Inventory, InventoryPort

FREEBSD, OPENBSD = "FreeBSD", "OpenBSD"
_WINDOWS = "Windows"


def is_bsd(p: Inventory, host: str) -> bool:
    """Return True if the host runs FreeBSD or OpenBSD. A host without a system name counts as Linux."""
    return p.text(host, "kernel", "name") in (FREEBSD, OPENBSD)


def is_windows(p: Inventory, host: str) -> bool:
    """Return True if the host runs Windows. Its shell is PowerShell."""
    return p.text(host, "kernel", "name") == _WINDOWS


def powershell_quoted(word: str) -> str:
    """Return a word in quotes, so that PowerShell does not interpret it."""
    return "'" + word.replace("'", "''") + "'"


def set_property(port: InventoryPort, keyword: str, value: int) -> str:
    """Return the cmdlet that sets a standardised keyword of an adapter (NDIS: `*InterruptModeration`). The adapter restarts."""
    name = powershell_quoted(port.interface)
    return f"Set-NetAdapterAdvancedProperty -Name {name} -RegistryKeyword '{keyword}' -RegistryValue {value}"


def read_property(port: InventoryPort, keyword: str) -> str:
    """Return the cmdlet that prints one advanced property of a port."""
    return f"Get-NetAdapterAdvancedProperty -Name {powershell_quoted(port.interface)} -RegistryKeyword '{keyword}'"


def read(p: Inventory, port: InventoryPort, what: str) -> str:
    """Return the command that reads `what` (mtu, speed, duplex) of a port."""
    if is_windows(p, port.host):
        return f"Get-NetAdapter -Name {powershell_quoted(port.interface)}"
    return shell("ifconfig", port.interface) if is_bsd(p, port.host) else f"/sys/class/net/{port.interface}/{what}"


def set_mtu(p: Inventory, port: InventoryPort, mtu: int) -> str:
    """Return the command that sets the MTU of a port."""
    if is_windows(p, port.host):
        return f"by hand: set the jumbo packet property of adapter {port.interface} to {mtu} bytes of payload"
    if is_bsd(p, port.host):
        return shell("ifconfig", port.interface, "mtu", mtu)
    return shell("ip", "link", "set", "dev", port.interface, "mtu", mtu)


def negotiate(p: Inventory, port: InventoryPort) -> str:
    """Return the command that enables autonegotiation of a port."""
    if is_windows(p, port.host):
        return set_property(port, "*SpeedDuplex", 0)
    if is_bsd(p, port.host):
        return shell("ifconfig", port.interface, "media", "autoselect")
    return shell("ethtool", "-s", port.interface, "autoneg", "on")


def fix_link(p: Inventory, port: InventoryPort, *, speed_mbps: int | None = None, duplex: str | None = None) -> str:
    """Return the command that sets a port to a fixed speed or duplex."""
    if is_bsd(p, port.host) or is_windows(p, port.host):
        media = "by hand: set the media of the port as it was"
        return f"{media} ({speed_mbps} Mb/s)" if speed_mbps else f"{media} ({duplex} duplex)"
    words = [*(["speed", str(speed_mbps)] if speed_mbps else []), *(["duplex", duplex] if duplex else [])]
    return shell("ethtool", "-s", port.interface, "autoneg", "off", *words)


def read_link(p: Inventory, host: str, address: object) -> str:
    """Return the BSD command that prints the PCI Express link of a device."""
    return f"pcidump -v {address}" if p.text(host, "kernel", "name") == OPENBSD else f"pciconf -lc pci{address}"


def read_optic(p: Inventory, port: InventoryPort) -> str:
    """Return the command that prints the data of a port's transceiver."""
    if not is_bsd(p, port.host):
        return shell("ethtool", "-m", port.interface)
    openbsd = p.text(port.host, "kernel", "name") == OPENBSD
    return shell("ifconfig", port.interface, "sff") if openbsd else shell("ifconfig", "-vvv", port.interface)


def read_neighbours(p: Inventory, port: InventoryPort) -> str:
    """Return the command that shows the neighbours of a port."""
    return "arp -an" if is_bsd(p, port.host) else shell("ip", "-s", "neigh", "show", "dev", port.interface)


def fix_neighbour(p: Inventory, port: InventoryPort, address: str) -> str:
    """Return a command that resolves an address once and makes the entry permanent (ip-neighbour(8); arp(8) of either BSD)."""
    device, whose = shell(port.interface), shell(address)
    if not is_bsd(p, port.host):
        learn = f"ip neigh show {whose} dev {device} | awk '{{print $3}}'"
        return f'ping -c 1 -I {device} {whose}; ip neigh replace {whose} dev {device} nud permanent lladdr "$({learn})"'
    if p.text(port.host, "kernel", "name") == OPENBSD:
        return f"ping -c 1 {whose}; arp -F -s {whose} \"$(arp -n {whose} | awk 'NR == 2 {{print $2}}')\""
    return f"ping -c 1 {whose}; arp -S {whose} \"$(arp -n {whose} | awk '{{print $4}}')\""


def forget_neighbour(p: Inventory, port: InventoryPort, address: str) -> str:
    """Return the command that deletes a neighbour's entry, so that its address is resolved again when needed."""
    return shell("arp", "-d", address) if is_bsd(p, port.host) else shell("ip", "neigh", "del", address, "dev", port.interface)
