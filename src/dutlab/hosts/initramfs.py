"""Initial archive of a kernel (initramfs): programs, modules and other files that its first program needs."""

from __future__ import annotations

import lzma
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from dutlab.errors import LabError
from dutlab.hosts.programs import Program

BUSYBOX = Program("busybox", "busybox")
_INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
for module in /modules/*; do /bin/busybox insmod $module; done
/bin/busybox mount -t virtiofs {tag} /root || exit 1
/bin/busybox umount /proc
/bin/busybox mount -o move /dev /root/dev
exec /bin/busybox switch_root /root {init}
"""
PROGRAM, DATA, FOLDER = stat.S_IFREG | 0o755, stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755
Entries = dict[str, tuple[int, bytes]]
"""Path in the archive → file type and mode, and content."""
_ROUND = 4
"""Alignment in bytes: header with name, and data, are each padded to a multiple of it."""


def initramfs(modules: Path, names: Iterable[str], tag: str, init: Path) -> bytes:
    """Return an archive that loads the modules `names` of the folder `modules`, mounts the virtiofs `tag` as root and runs `init` there.

    Raises LabError, OSError.
    """
    entries: Entries = dict.fromkeys(("modules", "proc", "dev", "root"), (FOLDER, b"")) | program_entries(BUSYBOX)
    for number, path in enumerate(with_dependencies(modules, names)):
        entries[f"modules/{number:02}-{path.name.removesuffix('.xz')}"] = (DATA, unpacked(path))
    entries["init"] = (PROGRAM, _INIT.format(tag=tag, init=init).encode("ascii"))
    return archive(entries)


def program_entries(program: Program) -> Entries:
    """Return the entries of a program of this machine in bin, and of its shared libraries. Raises LabError if it is not installed."""
    executable = shutil.which(program.name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]))
    if executable is None:
        raise LabError(f"{program.name} is not installed", remedy=f"install {program.package}")
    linked = subprocess.run(["ldd", executable], capture_output=True, text=True, check=False).stdout  # empty for a static program
    files = {path.lstrip("/"): Path(path) for path in re.findall(r"(?<![\w.])/\S+", linked)} | {f"bin/{program.name}": Path(executable)}
    entries: Entries = {}
    for place, path in files.items():
        entries |= folders_above(place) | {place: (PROGRAM, path.read_bytes())}
    return entries


def folders_above(place: str) -> Entries:
    """Return the entries of the folders above a file's path."""
    return {str(folder): (FOLDER, b"") for folder in reversed(PurePosixPath(place).parents) if str(folder) != "."}


def with_dependencies(modules: Path, names: Iterable[str]) -> list[Path]:
    """Return the files of the modules, each after the modules that it depends on (depmod(8)). Built-in modules are left out."""
    lines = (line.split(":") for line in (modules / "modules.dep").read_text(encoding="ascii").splitlines())
    needed = {PurePosixPath(path).name.partition(".")[0]: [*reversed(on.split()), path] for path, on in lines}
    return [modules / path for path in dict.fromkeys(path for name in names for path in needed.get(name, ()))]


def unpacked(module: Path) -> bytes:
    """Return the content of a module, unpacked for the kernel."""
    data = module.read_bytes()
    return lzma.decompress(data) if module.suffix == ".xz" else data


def archive(entries: Mapping[str, tuple[int, bytes]]) -> bytes:
    """Return the archive in the kernel's format: Documentation/driver-api/early-userspace/buffer-format.rst, "newc"."""
    return b"".join(_records({**entries, "TRAILER!!!": (0, b"")}))


def _records(entries: Mapping[str, tuple[int, bytes]]) -> Iterator[bytes]:
    for number, (name, (mode, data)) in enumerate(entries.items(), 1):
        name_bytes = name.encode("ascii") + b"\0"
        # Number, mode, owner, group, links, time, length, four device numbers, length of the name, checksum.
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name_bytes), 0)
        yield from map(_padded, (b"070701" + b"".join(b"%08X" % field for field in fields) + name_bytes, data))


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ROUND)
