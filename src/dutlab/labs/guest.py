"""Guest: a host of a lab with its own kernel, user-mode Linux (uml.py) or Debian's kernel in QEMU (qemu.py).

Its root is the machine's file system, read-only, so it has the machine's programs. It runs in the network namespace of its host and is
reached by ssh through a tap there. Its other ports are those of the namespace, with the same names; the namespace itself does not process
their frames. So the guest ends with the processes of the namespace, and its changes disappear with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from dutlab import outside
from dutlab.bounds import CONSOLE_BYTES
from dutlab.errors import LabError
from dutlab.hosts.local import LocalHost
from dutlab.hosts.netns import NetnsHost
from dutlab.hosts.own_time import own_timeout
from dutlab.hosts.programs import TASKSET, Program
from dutlab.labs import guest_power, sshd
from dutlab.spec.drives import DriveSpec

PROGRAMS = (Program("modprobe", "kmod"), Program("setsid", "util-linux"), TASKSET)
"""Programs that every guest needs, in addition to those of its kernel."""
UML, QEMU = "linux.uml", "qemu-system-x86_64"
"""Programs of the guests' kernels."""
GROUP = "/sys/fs/cgroup/programs"
"""Control group of all programs started over ssh; its io.max limits the drives."""
BOOTS_S = 300.0
"""Time limit in seconds for booting until ssh answers; 3 s on an idle machine."""
_PAUSE_S = 0.05
"""Seconds between checks of a guest that boots."""
TAP, _NEAR, _FAR = "guest", "198.51.100.1", "198.51.100.2"
_LAST_WORDS = ("Kernel panic", "Out of memory")
"""Prefixes of console lines that give the reason for a kernel's end; the first prefix with a match decides."""
_OF_DRIVES = ("raid0", "raid1", "raid10", "raid456", "dm-mod", "dm-raid", "btrfs", "dm-delay", "dm-flakey", "sd_mod")
_OF_PORTS = ("nf_tables", "nft_ct", "nft_masq", "nf_conntrack_netlink")
"""Modules that programs do not load automatically."""
# First program of a guest. It does what a boot spreads over several programs: writable file systems, modules, drive names, network, ssh
# server.
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
{mount_folder}
ln -s {modules} /run/modules/lib/modules
printf '#!/bin/sh\\nexec modprobe -d /run/modules "$@"\\n' >/run/modprobe
chmod 755 /run/modprobe
echo /run/modprobe >/proc/sys/kernel/modprobe
modprobe -a -d /run/modules {loaded}
{names}
mkdir {group}
echo +io >/sys/fs/cgroup/cgroup.subtree_control
echo $$ >{group}/cgroup.procs
hostname {role}
ip address add {far}/30 dev {door}
ip link set dev {door} up
sh -e {folder}/ports-{role} >{folder}/ports-{role}.said 2>&1 || exit 1
{meanwhile}
{sshd} -D -f {folder}/sshd-{role}.conf -E {folder}/{role}.log
echo o >/proc/sysrq-trigger
sleep 60
"""


def ssh_server(role: str, namespace: str) -> sshd.SshServer:
    """Return the address of the guest inside its namespace."""
    return sshd.SshServer(role, namespace, _FAR, namespace)


@dataclass(frozen=True)
class Guest:
    """Description of a guest."""

    label: str
    """Label of the lab."""
    role: str
    namespace: str
    drives: Mapping[str, DriveSpec]
    ports: Mapping[str, str]
    """Port name → MAC address."""
    setup: str
    """Script for `sh -e` that runs once the ports have their names."""
    cpus: tuple[int, ...]
    """CPUs of this machine on which its one core runs."""
    nice: int
    card: Literal["virtio-net", "vmxnet3"] = "virtio-net"
    """Type of its ports in QEMU."""

    @property
    def name(self) -> str:
        """Name among the guests of this machine."""
        return f"{self.label}-{self.role}"


@dataclass(frozen=True)
class InitWords:
    """Commands of the guest's first program that depend on its kernel."""

    modules: Path
    """Folder of the kernel's modules."""
    mount_folder: str
    """Command that mounts the lab's folder, writable, at its path on the machine."""
    port: str
    """Prefix of port names, followed by a number; 0 is the port for ssh."""
    names: str = ""
    """Commands that make the links with the drives' names."""
    meanwhile: str = ""
    """Command that starts a background process for the life of the guest."""


class Kernel(Protocol):
    """Kind of kernel for guests."""

    @property
    def programs(self) -> Sequence[Program]:
        """Programs of this machine that it needs."""

    def insist_on_parts(self) -> None:
        """Check that everything other than programs is installed. Raises LabError."""

    def words(self, guest: Guest, folder: Path) -> InitWords:
        """Return the commands for the guest's first program; `folder` is the lab's folder."""

    async def start(self, guest: Guest, folder: Path, init: Path) -> list[str]:
        """Boot the guest with `init` as its first program until ssh answers; return notes for the user. Raises LabError, HostError."""


async def up(guest: Guest, folder: Path, kernel: Kernel) -> list[str]:
    """Boot the guest and wait until it answers; `folder` is the lab's folder, with the ssh keys. Raises LabError, HostError.

    Returns notes for the user.
    """
    server = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
    if server is None:
        raise LabError("sshd is not installed", remedy="install openssh-server")
    kernel.insist_on_parts()
    words = kernel.words(guest, folder)
    fields = {"folder": shlex.quote(str(folder)), "role": guest.role, "group": GROUP, "far": _FAR, "sshd": server}
    loaded = " ".join([*(_OF_DRIVES if guest.drives else ()), *(_OF_PORTS if guest.ports else ())])
    renamed = "".join(f"ip link set dev {words.port}{at} name {name}\n" for at, name in enumerate(guest.ports, 1))
    (folder / f"ports-{guest.role}").write_text(f"{renamed}{guest.setup or 'ip link set dev lo up'}\n", encoding="ascii")
    init = folder / f"init-{guest.role}"
    text = _INIT.format(
        **fields, mount_folder=words.mount_folder, modules=words.modules, loaded=loaded, names=words.names, meanwhile=words.meanwhile,
        door=f"{words.port}0",
    )  # fmt: skip
    init.write_text(text, encoding="ascii")
    init.chmod(0o700)
    namespace = NetnsHost(guest.role, guest.namespace)
    tap = await namespace.run(["ip", "tuntap", "add", "dev", TAP, "mode", "tap"], check=False)
    if tap.status != 0:
        raise LabError(
            f"the guest {guest.role} cannot have a tap: {tap.errors.strip()}",
            remedy="load the module tun, and check that this user may open /dev/net/tun",
        )
    await namespace.run(["ip", "address", "add", f"{_NEAR}/30", "dev", TAP])
    await namespace.run(["ip", "link", "set", "dev", TAP, "up"])
    return await kernel.start(guest, folder, init)


def console(folder: Path, role: str) -> Path:
    """Return the path of its kernel's console."""
    return folder / f"console-{role}"


async def started(guest: Guest, folder: Path, script: str, *, mark: str) -> None:
    """Start `sh -c SCRIPT`, which becomes the kernel, in the guest's namespace and on its core, now and at each power-on.

    `mark` is a word of the command line of both. Raises HostError.
    """
    # The new session comes first: at the end of a command all processes of its group are killed.
    console_path = shlex.quote(str(console(folder, guest.role)))
    # Where the kernel divides CPU time by session first (sched(7), autogroup), a priority counts only among the processes of one session.
    start = f"echo {guest.nice} 2>/dev/null >/proc/self/autogroup; {script} </dev/null >{console_path} 2>&1 & echo $!"
    where = ["taskset", "-c", ",".join(map(str, guest.cpus)), "nice", "-n", str(guest.nice)]
    command = ["ip", "netns", "exec", guest.namespace, *where, "setsid", "--wait", "sh", "-c", start]
    switch = guest_power.write(folder, guest.role, mark=mark, start=command)
    await LocalHost("lab").run([str(switch), "on"])


def end_of(folder: Path, role: str) -> str:
    """Return the reason for the end of a guest's kernel from its console; `folder` is the lab's folder."""
    output = last_words(console(folder, role))
    matches = [re.findall(rf"^(?:\[ *\d+\.\d+\] )?({words}.*)$", output, re.MULTILINE) for words in _LAST_WORDS]
    return next((lines[-1].strip() for lines in matches if lines), "the reason is not known")


def is_kernel(pid: int) -> bool:
    """Return whether this process is the kernel of a guest."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith((UML.encode(), QEMU.encode()))
    except OSError:  # ended meanwhile
        return False


async def reached(folder: Path, role: str, *, within_s: float = BOOTS_S) -> None:
    """Wait until the guest's ssh server listens. Raises LabError with the last lines of its console.

    For a moment, its process is a shell; then it is the kernel.
    """
    pid, why = guest_power.kernel(folder, role), f"does not answer after {within_s:g} s"
    with contextlib.suppress(TimeoutError):
        async with own_timeout(within_s):
            while not (folder / f"{role}.pid").exists():
                if pid is None or not guest_power.runs(pid):
                    why = "has ended"
                    break
                await asyncio.sleep(_PAUSE_S)
            else:
                return
    output = "\n".join(last_words(path) for path in (console(folder, role), folder / f"ports-{role}.said")).strip()
    raise LabError(f"the guest {role} {why}; its console: {output[-400:] or 'nothing'}")


def last_words(path: Path) -> str:
    """Return the last part of a file, which may be missing."""
    return outside.tail(path, CONSOLE_BYTES).decode("utf-8", "replace")
