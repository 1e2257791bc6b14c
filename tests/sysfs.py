"""A machine's /sys and /proc as files, for machines that nobody here has."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


def pcie_registers(*, payload: int, payload_most: int, read_request: int = 512, aspm: int = 0) -> bytes:
    """256 bytes of a device's registers with power management at 40h and the PCI Express capability at 70h, as cards have them."""
    sizes = {128 << n: n for n in range(6)}
    head = bytearray(256)
    head[0x34] = 0x40
    head[0x40:0x42] = bytes([0x01, 0x70])
    head[0x70:0x72] = bytes([0x10, 0x00])
    struct.pack_into("<I", head, 0x74, sizes[payload_most])
    struct.pack_into("<H", head, 0x78, sizes[payload] << 5 | sizes[read_request] << 12)
    struct.pack_into("<H", head, 0x80, aspm)
    return bytes(head)


@dataclass
class PciDevice:
    """One step of the way from a card to the processor."""

    address: str
    speed: str = "8.0 GT/s PCIe"
    width: int = 8
    max_speed: str = "8.0 GT/s PCIe"
    max_width: int = 8
    registers: bytes = b""
    irqs: Mapping[int, tuple[str, str, str]] = field(default_factory=dict)
    """Number → cores allowed, cores now, name."""


def write_card(root: Path, name: str, way: list[PciDevice]) -> None:
    """Interface `name`, whose card is the last of `way`; the first is at the processor."""
    at = root / "sys/devices/pci0000:00"
    for device in way:
        at /= device.address
        at.mkdir(parents=True, exist_ok=True)
        for file, text in {
            "vendor": "0x8086", "class": "0x020000", "current_link_speed": device.speed, "current_link_width": device.width,
            "max_link_speed": device.max_speed, "max_link_width": device.max_width,
        }.items():  # fmt: skip
            (at / file).write_text(f"{text}\n")
        (at / "config").write_bytes(device.registers)
        for irq, (allowed, now, action) in device.irqs.items():
            (at / "msi_irqs").mkdir(exist_ok=True)
            (at / "msi_irqs" / str(irq)).write_text("msix\n")
            of = root / "proc/irq" / str(irq)
            (of / action).mkdir(parents=True)
            (of / "smp_affinity_list").write_text(f"{allowed}\n")
            (of / "effective_affinity_list").write_text(f"{now}\n")
    net = root / "sys/class/net" / name
    net.mkdir(parents=True)
    (net / "device").symlink_to(at)


def write_drive(
    root: Path, name: str, way: list[PciDevice], *, files: Mapping[str, str] = {}, heat: int | None = None, queues: int = 0
) -> None:
    """NVMe drive `name` behind `way`, whose last is the drive; `files` are below its folder in /sys/block."""
    at = root / "sys/devices/pci0000:00"
    for device in way:
        at /= device.address
        at.mkdir(parents=True, exist_ok=True)
        told = {
            "vendor": "0x8086", "class": "0x010802", "current_link_speed": device.speed, "current_link_width": device.width,
            "max_link_speed": device.max_speed, "max_link_width": device.max_width,
        }  # fmt: skip
        for file, text in told.items():
            (at / file).write_text(f"{text}\n")
        (at / "config").write_bytes(device.registers)
    control = at / "nvme" / name.partition("n1")[0]
    (control / "hwmon3").mkdir(parents=True)
    if heat is not None:
        (control / "hwmon3/temp1_input").write_text(f"{heat}\n")
    block = root / "sys/block" / name
    block.mkdir(parents=True)
    (block / "device").symlink_to(control)
    for number in range(queues):
        (block / "mq" / str(number)).mkdir(parents=True)
    for file, text in files.items():
        (block / file).parent.mkdir(parents=True, exist_ok=True)
        (block / file).write_text(f"{text}\n")
