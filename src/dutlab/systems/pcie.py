"""Path from a card to the processor: each PCI Express link as trained, and its maximum. Pure.

Registers of the PCI Express capability (identifier 10h): PCI Express Base Specification 7.5.3; offsets and masks as in the kernel's
include/uapi/linux/pci_regs.h. Users other than root read only 64 bytes of a device's registers, without the capability.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

_CAPABILITY_LIST, _PCIE, _HEADER_BYTES = 0x34, 0x10, 64
_DEVICE_CAN, _DEVICE_DOES, _LINK_DOES = 0x04, 0x08, 0x10
_ASPM = ("off", "L0s", "L1", "L0s and L1")
_MOST_CAPABILITIES = 48


@dataclass(frozen=True)
class PcieStep:
    """One device on the path, and its link towards the processor. None is an unknown value."""

    address: str
    link_gts: float | None
    """Gigatransfers per second of one lane, as trained."""
    link_width: int | None
    link_gts_most: float | None
    link_width_most: int | None
    payload_bytes: int | None = None
    """Largest packet that it sends (MPS)."""
    payload_bytes_most: int | None = None
    read_request_bytes: int | None = None
    aspm: str | None = None
    """Power saving of the link: `off`, `L0s`, `L1`, `L0s and L1`."""

    def to_json(self) -> dict[str, Any]:
        """Return the values for the facts of a host."""
        return asdict(self)


def pcie_path(text: str) -> list[PcieStep]:
    """Parse blocks of lines `device ADDRESS`, `current_link_speed 8.0 GT/s PCIe` and so on, `config HEX`; the card is first."""
    return [_step(block) for block in re.split(r"^device ", text, flags=re.MULTILINE)[1:]]


def _step(block: str) -> PcieStep:
    address, *lines = block.splitlines()
    contents = dict(line.partition(" ")[::2] for line in lines)
    return PcieStep(
        address.strip(),
        _gigatransfers(contents, "current_link_speed"),
        _lanes(contents, "current_link_width"),
        _gigatransfers(contents, "max_link_speed"),
        _lanes(contents, "max_link_width"),
        **_registers(contents.get("config", "")),
    )


def _gigatransfers(fields: Mapping[str, str], key: str) -> float | None:
    m = re.match(r"(\d+(?:\.\d+)?) ?GT/s", fields.get(key, ""))
    return float(m[1]) if m else None


def _lanes(fields: Mapping[str, str], key: str) -> int | None:
    """Return the number of lanes; None for 0 and 255, which the kernel writes where there is no link."""
    value = fields.get(key, "")
    return int(value) if value.isdigit() and 0 < int(value) <= 32 else None  # noqa: PLR2004 the widest link


def _registers(config: str) -> dict[str, Any]:
    try:
        registers = bytes.fromhex(config)
    except ValueError:
        return {}
    at = next((at for at, kind in _capabilities(registers) if kind == _PCIE), None)
    if at is None or at + _LINK_DOES + 2 > len(registers):
        return {}
    can, does, link = (int.from_bytes(registers[at + of : at + of + 2], "little") for of in (_DEVICE_CAN, _DEVICE_DOES, _LINK_DOES))
    return {
        "payload_bytes": 128 << (does >> 5 & 7),
        "payload_bytes_most": 128 << (can & 7),
        "read_request_bytes": 128 << (does >> 12 & 7),
        "aspm": _ASPM[link & 3],
    }


def _capabilities(registers: bytes) -> Iterator[tuple[int, int]]:
    """Yield offset and identifier of each capability; ends even if the list is a loop."""
    at = registers[_CAPABILITY_LIST] if len(registers) > _HEADER_BYTES else 0
    for _ in range(_MOST_CAPABILITIES):
        if not _HEADER_BYTES <= at < len(registers) - 1:
            return
        yield at, registers[at]
        at = registers[at + 1]
