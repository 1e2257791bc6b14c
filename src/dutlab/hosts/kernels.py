"""Kernels of this machine that a guest can boot."""

from __future__ import annotations

import re
from pathlib import Path

from dutlab import outside
from dutlab.errors import LabError
from dutlab.outside import AtLink, UnfitFile

MODULES = Path("/lib/modules")
_BOOT = Path("/boot")
# Documentation/arch/x86/boot.rst, "kernel_version": position of the version text, less 0x200.
_MAGIC, _VERSION_AT, _BEFORE = slice(0x202, 0x206), slice(0x20E, 0x210), 0x200


def newest_kernel() -> Path:
    """Return the newest installed kernel of Debian's package for clouds. Raises LabError."""
    kernels = [path for path in _BOOT.glob("vmlinuz-*-cloud-amd64") if (MODULES / release_of(path) / "modules.dep").exists()]
    if not kernels:
        raise LabError(f"no kernel {_BOOT}/vmlinuz-*-cloud-amd64 with its modules in {MODULES}", remedy="install linux-image-cloud-amd64")
    return max(kernels, key=lambda path: [int(number) for number in re.findall(r"\d+", path.name)])


def release_of(kernel: Path) -> str:
    """Return the release (`uname -r`) of a kernel file. Raises LabError for any other file."""
    try:
        with outside.opened(kernel, AtLink.FOLLOWED) as file:
            head = file.read(1 << 16)
    except UnfitFile as error:
        raise LabError(error.what, remedy=error.remedy) from error
    except OSError as error:
        raise LabError(f"{kernel}: {error.strerror}") from error
    at = int.from_bytes(head[_VERSION_AT], "little") + _BEFORE
    words = head[at : at + 256].partition(b"\0")[0].split()
    if head[_MAGIC] != b"HdrS" or not words:
        raise LabError(f"{kernel} is not a bootable kernel", remedy="take its bzImage: /boot/vmlinuz-*, or arch/x86/boot/bzImage")
    return words[0].decode("ascii", "replace")
