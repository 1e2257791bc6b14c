"""Slots of cards in FreeBSD and OpenBSD: each link on the path to the processor, from pciconf(8) and pcidump(8).

The formats are those of FreeBSD's usr.sbin/pciconf (pciconf.c: `-B` prints the buses behind a bridge; cap.c: cap_express) and of OpenBSD's
usr.sbin/pcidump. Only the kernel's messages (dmesg(8)) have the address of an OpenBSD card; they are in /var/run/dmesg.boot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dutlab.systems.facts import Answers, FactTree, Question
from dutlab.systems.pcie import PcieStep

_PCICONF = ("asroot", "pciconf", "-lBc")
_PCIDUMP = ("asroot", "pcidump", "-v")
_DMESG = ("grep", "-E", "^[a-z]+[0-9]+ at pci[0-9]+ dev|^pci[0-9]+ at .* bus [0-9]+", "/var/run/dmesg.boot")
_LONGEST_WAY = 16


@dataclass(frozen=True)
class PciAddress:
    """PCI device, with the numbers of its domain, bus, slot and function."""

    at: tuple[int, ...]
    name: str
    """Name in the system, such as `ixl2`; empty without one."""
    bus_behind: int | None
    """Bus behind a bridge."""
    step: PcieStep | None
    """Link of the device; None without one."""


def questions() -> Iterator[Question]:
    """Yield the questions; each of the two systems refuses those of the other."""
    yield from (_PCICONF, _PCIDUMP, _DMESG)


def put(facts: FactTree, answers: Answers, names: Sequence[str]) -> None:
    """Store the links in `interfaces/NAME/pcie`; without any, an earlier value remains."""
    output, _ = answers.output_of(*_PCICONF)
    devices = pciconf_devices(output or "")
    dumped, _ = answers.output_of(*_PCIDUMP)
    named, _ = answers.output_of(*_DMESG)
    devices += pcidump_devices(dumped or "", addresses(named or ""))
    for name in names:
        if way := way_to_root(devices, name.partition(".")[0]):  # a VLAN has its parent's card
            facts.put(f"interfaces/{name}/pcie", [step.to_json() for step in way])


def way_to_root(devices: Sequence[PciAddress], name: str) -> list[PcieStep]:
    """Return each link from the card called `name` up to the root, the card's first; empty without such a card."""
    device = next((d for d in devices if d.name == name), None)
    way = []
    for _ in range(_LONGEST_WAY):
        if device is None:
            break
        if device.step is not None:
            way.append(device.step)
        domain, bus = device.at[0], device.at[1]
        device = next((d for d in devices if d.bus_behind == bus and d.at[0] == domain and d.at[1] != bus), None)
    return way


def pciconf_devices(text: str) -> list[PciAddress]:
    """Parse `pciconf -lBc` of FreeBSD. Before version 11 a line could end between the width and the speed of a link."""
    blocks = re.findall(r"^(\w+)@pci(\d+:\d+:\d+:\d+):(.*(?:\n[ \t].*)*)", text, re.MULTILINE)
    return [
        PciAddress(
            tuple(map(int, address.split(":"))),
            name,
            int(m[1]) if (m := re.search(r"bus range\s*= (\d+)-", body)) else None,
            _of_pciconf(address, body),
        )
        for name, address, body in blocks
    ]


def pcidump_devices(text: str, names: dict[str, str]) -> list[PciAddress]:
    """Parse `pcidump -v` of OpenBSD; `names` is address → name of the device."""
    devices = []
    # Not every line of a section begins with a tab (dump_vpd()), so it runs to the next headline.
    for domain, section in re.findall(r"^Domain /dev/pci(\d+):\n(.*?)(?=^Domain |\Z)", text, re.MULTILINE | re.DOTALL):
        for address, body in re.findall(r"^ (\d+:\d+:\d+): (.*?)(?=^ \d+:\d+:\d+: |\Z)", section, re.MULTILINE | re.DOTALL):
            behind = re.search(r"Secondary Bus: (\d+)", body)
            at = (int(domain), *map(int, address.split(":")))
            name = names.get(address, "") if domain == "0" else ""  # dmesg numbers the buses of the first domain
            devices.append(PciAddress(at, name, int(behind[1]) if behind else None, _of_pcidump(address, body)))
    return devices


def addresses(dmesg: str) -> dict[str, str]:
    """Return address → name, from lines such as `em0 at pci1 dev 0 function 0` and `pci1 at ppb0 bus 1`; the last boot decides."""
    buses = dict(re.findall(r"^(pci\d+) at .* bus (\d+)", dmesg, re.MULTILINE))
    cards = re.findall(r"^(\w+) at (pci\d+) dev (\d+) function (\d+)", dmesg, re.MULTILINE)
    return {f"{buses[bus]}:{slot}:{function}": name for name, bus, slot, function in cards if bus in buses}


def _of_pciconf(address: str, body: str) -> PcieStep | None:
    link = re.search(r"link x(\d+)\(x(\d+)\)(?:\s+speed (?:undef|([\d.]+))\(([\d.]+)\))?(?:\s+ASPM ([^\s(]+))?", body)
    if link is None:
        return None
    data, read = re.search(r"max data (\d+)\((\d+)\)", body), re.search(r"max read (\d+)", body)
    return PcieStep(
        address,
        float(link[3]) if link[3] else None,
        int(link[1]),
        float(link[4]) if link[4] else None,
        int(link[2]),
        int(data[1]) if data else None,
        int(data[2]) if data else None,
        int(read[1]) if read else None,
        _aspm(link[5]),
    )


def _of_pcidump(address: str, body: str) -> PcieStep | None:
    width = re.search(r"Link Width: x(\d+) / x(\d+)", body)
    if width is None:
        return None
    speed = re.search(r"Link Speed: ([\d.]+) / ([\d.]+) G", body)
    data, read = re.search(r"Max Payload Size: (\d+) / (\d+) bytes", body), re.search(r"Max Read Request Size: (\d+) bytes", body)
    aspm = re.search(r"ASPM: .*\((.*)\)", body)
    return PcieStep(
        address,
        float(speed[1]) if speed else None,
        int(width[1]),
        float(speed[2]) if speed else None,
        int(width[2]),
        int(data[1]) if data else None,
        int(data[2]) if data else None,
        int(read[1]) if read else None,
        _aspm(aspm[1] if aspm else None),
    )


def _aspm(text: str | None) -> str | None:
    """Return states in our words: `disabled` → `off`; `L0s/L1` and `L0s, L1 enabled` → `L0s and L1`."""
    if text is None:
        return None
    states = re.findall(r"L0s|L1", text)
    return " and ".join(states) if states else "off" if text == "disabled" else text
