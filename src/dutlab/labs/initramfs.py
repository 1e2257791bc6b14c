"""What a kernel begins with that cannot read its root without modules: these, a shell, and the way from there to its first program."""

from __future__ import annotations

import lzma
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
_PROGRAM, _DATA, _FOLDER = stat.S_IFREG | 0o755, stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755
_ROUND = 4
"""Header with name, and data, are each padded to a multiple of this many bytes."""


def initramfs(modules: Path, names: Iterable[str], tag: str, init: Path) -> bytes:
    """Loads the modules `names` of the folder `modules`, mounts the virtiofs `tag` as root and goes on with `init` there.

    Raises LabError, OSError.
    """
    entries: dict[str, tuple[int, bytes]] = dict.fromkeys(("bin", "modules", "proc", "dev", "root"), (_FOLDER, b""))
    for place, data in _busybox().items():
        above = [str(folder) for folder in reversed(PurePosixPath(place).parents) if str(folder) != "."]
        entries |= dict.fromkeys(above, (_FOLDER, b"")) | {place: (_PROGRAM, data)}
    for number, path in enumerate(_with_what_they_need(modules, names)):
        entries[f"modules/{number:02}-{path.name.removesuffix('.xz')}"] = (_DATA, _unpacked(path))
    entries["init"] = (_PROGRAM, _INIT.format(tag=tag, init=init).encode("ascii"))
    return _archive(entries)


def _busybox() -> Mapping[str, bytes]:
    """The program, and what it is linked to, by the places where they are looked for."""
    program = shutil.which(BUSYBOX.name)
    if program is None:
        raise LabError("busybox is not there", remedy=f"install {BUSYBOX.package}")
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout  # nothing where it is static
    libraries = {path.lstrip("/"): Path(path).read_bytes() for path in re.findall(r"(?<![\w.])/\S+", linked)}
    return {"bin/busybox": Path(program).read_bytes(), **libraries}


def _with_what_they_need(modules: Path, names: Iterable[str]) -> list[Path]:
    """Each behind those that it depends on (depmod(8)); one that is part of the kernel is left out."""
    lines = (line.split(":") for line in (modules / "modules.dep").read_text(encoding="ascii").splitlines())
    needed = {PurePosixPath(path).name.partition(".")[0]: [*reversed(on.split()), path] for path, on in lines}
    return [modules / path for path in dict.fromkeys(path for name in names for path in needed.get(name, ()))]


def _unpacked(module: Path) -> bytes:
    data = module.read_bytes()
    return lzma.decompress(data) if module.suffix == ".xz" else data


def _archive(entries: Mapping[str, tuple[int, bytes]]) -> bytes:
    """In the format that kernels read: Documentation/driver-api/early-userspace/buffer-format.rst, "newc"."""
    return b"".join(_records({**entries, "TRAILER!!!": (0, b"")}))


def _records(entries: Mapping[str, tuple[int, bytes]]) -> Iterator[bytes]:
    for number, (name, (mode, data)) in enumerate(entries.items(), 1):
        called = name.encode("ascii") + b"\0"
        # Number, mode, owner, group, links, time, length, four numbers of devices, length of the name, checksum.
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(called), 0)
        yield from map(_padded, (b"070701" + b"".join(b"%08X" % field for field in fields) + called, data))


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ROUND)
