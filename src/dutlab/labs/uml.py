"""User-mode Linux (UML) as kernel of a guest: a program of Debian's package user-mode-linux.

It needs neither KVM nor root of the machine itself. Its root is the machine's by hostfs, its drives are files of the lab (drives.py), and
its ports are packet sockets on those of the namespace (raw(7)).
"""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from dutlab.errors import LabError
from dutlab.hosts.programs import Program
from dutlab.labs import drives
from dutlab.labs.guest import TAP, UML, Guest, InitWords, reached, started
from dutlab.reason import reason_in

MODULES = Path("/usr/lib/uml/modules")
"""Modules of Debian's package user-mode-linux."""
MEMORY_MB = 384
CPUINFO = Path("/proc/cpuinfo")
_XSTATE = Path(__file__).with_name("xstate.c")
_NEEDS_XSTATE = "this CPU has AMX, so user-mode Linux needs a library that must be compiled"
_KERNEL_AGAIN = """#!/bin/bash
for file in /proc/self/fd/*; do
  number=${{file##*/}}
  [ "$number" -le 2 ] || eval "exec $number>&-"
done
exec -a {kernel} {path} "$@"
"""
"""Script in place of the kernel's program. A kernel that reboots executes its own path with all files open, and its tap would be busy; the
script closes the files first."""
# The drive driver of user-mode Linux sometimes delays a request until the next one, and an array waits for it forever. So this loop reads
# from idle drives.
_READS_DRIVES = """while sleep 1; do
  for stat in /sys/block/ubd*/stat; do
    [ -e $stat ] || exit
    read -r now <$stat
    drive=${stat%/stat} drive=${drive##*/}
    eval "was=\\$was_$drive was_$drive=\\$now"
    [ "$now" != "$was" ] || dd if=/dev/$drive of=/dev/null bs=4k count=1 iflag=direct
  done
done </dev/null >/dev/null 2>&1 &"""


class UserMode:
    """Kernel of a guest as an ordinary process."""

    programs = (Program(UML, "user-mode-linux"),)

    def insist_on_parts(self) -> None:
        """Check that the modules are installed. Raises LabError."""
        if not MODULES.is_dir():
            raise LabError(f"{MODULES} does not exist", remedy="install user-mode-linux")

    def words(self, guest: Guest, folder: Path) -> InitWords:
        """Return the commands, which mount hostfs and link the drives' names."""
        quoted = shlex.quote(str(folder))
        names = "\n".join(f"ln -s /dev/ubd{_letter(at)} /dev/disk/by-id/{spec.name}" for at, spec in enumerate(guest.drives.values()))
        return InitWords(MODULES, f"mount -t hostfs none {quoted} -o {quoted}", "vec", names, _READS_DRIVES)

    async def start(self, guest: Guest, folder: Path, init: Path) -> list[str]:
        """Boot the guest and wait until ssh answers. Raises LabError, HostError."""
        try:
            files = await asyncio.to_thread(drives.make_files, guest.label, guest.drives) if guest.drives else []
        except OSError as error:
            raise LabError(
                f"drives cannot be made: {error}", remedy=f"free space in {drives.folder_of(guest.label).parent}, or another label"
            ) from error
        kernel = [
            UML, f"mem={MEMORY_MB}M", f"umid={guest.name}", f"uml_dir={folder}/uml/", "root=/dev/root",
            "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", f"vec0:transport=tap,ifname={TAP},depth=64,gro=1", "con=null",
            "con0=null,fd:1", "panic=-1", "loglevel=4", *(f"ubd{at}={file}" for at, file in enumerate(files)),
            *(f"vec{at}:transport=raw,ifname={name},mac={mac},depth=128" for at, (name, mac) in enumerate(guest.ports.items(), 1)),
        ]  # fmt: skip
        again = folder / f"bin-{guest.role}" / UML
        again.parent.mkdir(mode=0o700, exist_ok=True)
        again.write_text(_KERNEL_AGAIN.format(kernel=UML, path=shutil.which(UML) or UML), encoding="ascii")
        again.chmod(0o700)
        where = f"PATH={shlex.quote(str(again.parent))}:$PATH"
        if (library := await asyncio.to_thread(for_this_cpu, folder)) is not None:
            where += f" LD_PRELOAD={shlex.quote(str(library))}"
        await started(guest, folder, f"{where} {shlex.join(kernel)}", mark=f"umid={guest.name}")
        await reached(folder, guest.role)
        return []


def for_this_cpu(folder: Path) -> Path | None:
    """Compile a library for CPUs with AMX into `folder`, else return None. Raises LabError.

    A CPU with AMX has more registers than fit into the kernel's buffer; the library is loaded before the kernel.
    """
    if not re.search(r"^flags\b.*\bamx_tile\b", CPUINFO.read_text(encoding="ascii", errors="replace"), re.MULTILINE):
        return None
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".so", delete=False) as library:  # guests of a lab start together
        argv = ["cc", "-shared", "-fPIC", "-O2", "-o", library.name, str(_XSTATE)]
    try:
        subprocess.run(argv, check=True, capture_output=True, text=True)
    except OSError as error:
        raise LabError(f"{_NEEDS_XSTATE}: cc: {error.strerror}", remedy="install gcc and libc6-dev") from error
    except subprocess.CalledProcessError as error:
        raise LabError(f"{_NEEDS_XSTATE}: cc: {reason_in(error.stderr)}", remedy="install gcc and libc6-dev") from error
    return Path(library.name)


def _letter(at: int) -> str:
    return chr(ord("a") + at)
