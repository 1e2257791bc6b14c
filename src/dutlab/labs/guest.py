"""A host of a lab that has a kernel of its own: user-mode Linux (UML), a program of Debian's package user-mode-linux.

It needs neither KVM nor root of the machine itself. Its root is the machine's own file system, read-only (hostfs), so it has the programs
that the machine has; its drives are files of the lab (drives.py). It runs inside the network namespace of its host and is reached over ssh
through a tap there; its other ports are those of the namespace, by the same names (a packet socket each, raw(7)), and the namespace itself
does nothing with their frames. So it ends with the processes of the namespace, and what it changed ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dutlab.errors import LabError
from dutlab.hosts.local import LocalHost
from dutlab.hosts.netns import NAMESPACES, NetnsHost
from dutlab.hosts.programs import TASKSET, Program
from dutlab.labs import drives, guest_power, inside, sshd
from dutlab.spec.drives import DriveSpec

KERNEL = "linux.uml"
PROGRAMS = (Program(KERNEL, "user-mode-linux"), Program("modprobe", "kmod"), Program("setsid", "util-linux"), TASKSET)
MODULES = Path("/usr/lib/uml/modules")
"""Where Debian's package user-mode-linux has them."""
_OF_DRIVES = ("raid0", "raid1", "raid10", "raid456", "dm-mod", "dm-raid", "btrfs", "dm-delay", "dm-flakey", "sd_mod")
_OF_PORTS = ("nf_tables", "nft_ct", "nft_masq", "nf_conntrack_netlink")
"""Modules that no program asks for by name when it wants what they do."""
MEMORY_MB = 384
GROUP = "/sys/fs/cgroup/programs"
"""The control group of everything that is started over ssh: what its io.max says, a drive keeps to."""
BOOTS_S = 300.0
_PAUSE_S = 0.05
"""The longest that it may take until it is reached: 3 s on an idle machine."""
_TAP, _NEAR, _FAR = "guest", "198.51.100.1", "198.51.100.2"
_KERNEL_AGAIN = """#!/bin/bash
for file in /proc/self/fd/*; do
  number=${{file##*/}}
  [ "$number" -le 2 ] || eval "exec $number>&-"
done
exec -a {kernel} {path} "$@"
"""
"""A kernel that reboots runs its own name anew, with all its files open: its tap would be busy. So its name leads here."""
# What a boot scatters over several programs: file systems that may be written, modules, names of drives, the network, the ssh server.
# The driver of user-mode Linux sometimes forgets a request until the drive's next one, and an array waits for it for ever: so a drive
# on which nothing happens is read from.
_INIT = """#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /dev/pts /dev/shm /dev/disk/by-id
mount -t devpts devpts /dev/pts
for place in /run /var/tmp /tmp /mnt /dev/shm; do mount -t tmpfs -o mode=1777 tmpfs $place; done
chmod 755 /run
mkdir -p {folder} /run/sshd /run/mdadm /run/lock /run/lvm /run/netns /run/modules/lib
mount -t hostfs none {folder} -o {folder}
ln -s {modules} /run/modules/lib/modules
printf '#!/bin/sh\\nexec modprobe -d /run/modules "$@"\\n' >/run/modprobe
chmod 755 /run/modprobe
echo /run/modprobe >/proc/sys/kernel/modprobe
for module in {loaded}; do modprobe -d /run/modules $module; done
{names}
mkdir {group}
echo +io >/sys/fs/cgroup/cgroup.subtree_control
echo $$ >{group}/cgroup.procs
hostname {role}
ip address add {far}/30 dev vec0
ip link set dev vec0 up
sh -e {folder}/ports-{role} >{folder}/ports-{role}.said 2>&1 || exit 1
while sleep 1; do
  for stat in /sys/block/ubd*/stat; do
    [ -e $stat ] || exit
    read -r now <$stat
    drive=${{stat%/stat}} drive=${{drive##*/}}
    eval "was=\\$was_$drive was_$drive=\\$now"
    [ "$now" != "$was" ] || dd if=/dev/$drive of=/dev/null bs=4k count=1 iflag=direct
  done
done </dev/null >/dev/null 2>&1 &
{sshd} -D -f {folder}/sshd-{role}.conf -E {folder}/{role}.log
echo o >/proc/sysrq-trigger
sleep 60
"""


def door(role: str, namespace: str) -> sshd.Door:
    """Address at which it is reached from inside its own namespace."""
    return sshd.Door(role, namespace, _FAR, namespace)


@dataclass(frozen=True)
class Guest:
    """What it is to be."""

    label: str
    """Label of its lab."""
    role: str
    namespace: str
    drives: Mapping[str, DriveSpec]
    ports: Mapping[str, str]
    """Name → address (MAC) of each."""
    setup: str
    """For `sh -e` once its ports have their names."""
    cpus: tuple[int, ...]
    """CPUs of this machine on which its one core runs."""
    nice: int


async def up(guest: Guest, folder: Path) -> None:
    """Boots it and waits until it answers; `folder` is the lab's own, with the keys of its door. Raises LabError, HostError."""
    server = _insist_on_parts()
    try:
        files = await asyncio.to_thread(drives.make_files, guest.label, guest.drives) if guest.drives else []
    except OSError as error:
        raise LabError(
            f"drives cannot be made: {error}", remedy=f"free space in {drives.folder_of(guest.label).parent}, or another label"
        ) from error
    names = "\n".join(f"ln -s /dev/ubd{_letter(at)} /dev/disk/by-id/{spec.name}" for at, spec in enumerate(guest.drives.values()))
    loaded = " ".join([*(_OF_DRIVES if guest.drives else ()), *(_OF_PORTS if guest.ports else ())])
    told = {"folder": shlex.quote(str(folder)), "modules": MODULES, "loaded": loaded, "names": names, "role": guest.role}
    renamed = "".join(f"ip link set dev vec{at} name {name}\n" for at, name in enumerate(guest.ports, 1))
    (folder / f"ports-{guest.role}").write_text(f"{renamed}{guest.setup or 'ip link set dev lo up'}\n", encoding="ascii")
    init = folder / f"init-{guest.role}"
    init.write_text(_INIT.format(**told, far=_FAR, sshd=server, group=GROUP), encoding="ascii")
    init.chmod(0o700)
    inside = NetnsHost(guest.role, guest.namespace)
    await inside.run(["ip", "tuntap", "add", "dev", _TAP, "mode", "tap"])
    await inside.run(["ip", "address", "add", f"{_NEAR}/30", "dev", _TAP])
    await inside.run(["ip", "link", "set", "dev", _TAP, "up"])
    kernel = [
        KERNEL, f"mem={MEMORY_MB}M", f"umid={umid(guest.label, guest.role)}", f"uml_dir={folder}/uml/", "root=/dev/root",
        "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}", f"vec0:transport=tap,ifname={_TAP},depth=64,gro=1", "con=null",
        "con0=null,fd:1", "panic=-1", "loglevel=4", *(f"ubd{at}={file}" for at, file in enumerate(files)),
        *(f"vec{at}:transport=raw,ifname={name},mac={mac},depth=128" for at, (name, mac) in enumerate(guest.ports.items(), 1)),
    ]  # fmt: skip
    again = folder / f"bin-{guest.role}" / KERNEL
    again.parent.mkdir(mode=0o700, exist_ok=True)
    again.write_text(_KERNEL_AGAIN.format(kernel=KERNEL, path=shutil.which(KERNEL) or KERNEL), encoding="ascii")
    again.chmod(0o700)
    # In a session of its own before it is started: whatever is in a command's group when that ends is killed.
    said = shlex.quote(str(folder / f"console-{guest.role}"))
    start = f"PATH={shlex.quote(str(again.parent))}:$PATH {shlex.join(kernel)} </dev/null >{said} 2>&1 & echo $!"
    where = ["taskset", "-c", ",".join(map(str, guest.cpus)), "nice", "-n", str(guest.nice)]
    command = ["ip", "netns", "exec", guest.namespace, *where, "setsid", "--wait", "sh", "-c", start]
    mark = f"umid={umid(guest.label, guest.role)}"
    script = guest_power.write(folder, guest.role, mark=mark, start=command)
    await LocalHost("lab").run([str(script), "on"])
    await _reached(folder, guest.role)


def umid(label: str, role: str) -> str:
    """Its name among the guests of this machine."""
    return f"{label}-{role}"


def threads(namespace: str) -> list[int]:
    """The process of its kernel, which does all that its ports do."""
    identity = inside.namespace_id(NAMESPACES / namespace)
    return [] if identity is None else sorted(pid for pid in inside.processes_in(identity) if is_kernel(pid))[:1]


def _insist_on_parts() -> str:
    """Where sshd is. Raises LabError."""
    server = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
    if not MODULES.is_dir() or server is None:
        raise LabError(f"{MODULES if server else 'sshd'} is not there", remedy="install user-mode-linux and openssh-server")
    return server


def ended(namespace: str) -> bool:
    """Whether its kernel, which was started in there, runs no more."""
    return (NAMESPACES / namespace).exists() and not threads(namespace)


def end_of(folder: Path, role: str) -> str:
    """Why the kernel of an ended guest did, as its console says; `folder` is the lab's own."""
    said = [line for line in _last_words(folder / f"console-{role}").splitlines() if line.startswith("Kernel panic")]
    return said[-1] if said else "nobody knows why"


def is_kernel(pid: int) -> bool:
    """Whether this process is the kernel of a guest."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(KERNEL.encode())
    except OSError:  # ended meanwhile
        return False


async def _reached(folder: Path, role: str) -> None:
    """Until its ssh server listens. Its process is a shell for a moment, then the kernel. Raises LabError with its last words."""
    pid, why = guest_power.kernel(folder, role), f"does not answer after {BOOTS_S:g} s"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(BOOTS_S):
            while not (folder / f"{role}.pid").exists():
                if not _runs(pid):
                    why = "has ended"
                    break
                await asyncio.sleep(_PAUSE_S)
            else:
                return
    said = "\n".join(_last_words(folder / name) for name in (f"console-{role}", f"ports-{role}.said")).strip()
    raise LabError(f"the guest {role} {why}; its console: {said[-400:] or 'nothing'}")


def _runs(pid: int | None) -> bool:
    return pid is not None and Path(f"/proc/{pid}").exists()


def _last_words(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _letter(at: int) -> str:
    return chr(ord("a") + at)
