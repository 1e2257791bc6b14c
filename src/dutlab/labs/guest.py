"""A host of a lab with its own kernel: user-mode Linux (uml.py) or Debian's kernel in QEMU (qemu.py).

Its root is the machine's own file system, read-only, so it has the programs that the machine has. It runs inside the network namespace of
its host and is reached over ssh through a tap there; its other ports are those of the namespace, by the same names, and the namespace
itself does nothing with their frames. So it ends with the processes of the namespace, and what it changed ends with it.
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
"""Programs that any of them needs, in addition to those of its kernel."""
UML, QEMU = "linux.uml", "qemu-system-x86_64"
"""The programs that such kernels are, or run in."""
GROUP = "/sys/fs/cgroup/programs"
"""The control group of everything that is started over ssh: what its io.max says, a drive keeps to."""
BOOTS_S = 300.0
_PAUSE_S = 0.05
"""The longest that it may take until it is reached: 3 s on an idle machine."""
TAP, _NEAR, _FAR = "guest", "198.51.100.1", "198.51.100.2"
_LAST_WORDS = ("Kernel panic", "Out of memory")
"""Beginnings of lines in which a kernel says why it ends; the first kind found counts."""
_OF_DRIVES = ("raid0", "raid1", "raid10", "raid456", "dm-mod", "dm-raid", "btrfs", "dm-delay", "dm-flakey", "sd_mod")
_OF_PORTS = ("nf_tables", "nft_ct", "nft_masq", "nf_conntrack_netlink")
"""Modules that no program asks for by name when it wants what they do."""
# What a boot scatters over several programs: file systems that may be written, modules, names of drives, the network, the ssh server.
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


def door(role: str, namespace: str) -> sshd.Door:
    """Address at which it is reached from inside its own namespace."""
    return sshd.Door(role, namespace, _FAR, namespace)


@dataclass(frozen=True)
class Guest:
    """Description of a guest."""

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
    card: Literal["virtio-net", "vmxnet3"] = "virtio-net"
    """Kind of its ports, in QEMU."""

    @property
    def name(self) -> str:
        """Its name among the guests of this machine."""
        return f"{self.label}-{self.role}"


@dataclass(frozen=True)
class InitWords:
    """Commands of its first program, in the words of its kernel."""

    modules: Path
    """The folder of the kernel's modules."""
    mount_folder: str
    """Mounts the lab's own folder, writable, in the place that it has on the machine."""
    port: str
    """Its ports are called this and a number; that of its door is 0."""
    names: str = ""
    """Gives drives their names."""
    meanwhile: str = ""
    """Starts what goes on as long as the guest."""


class Kernel(Protocol):
    """A way to have a kernel of one's own."""

    @property
    def programs(self) -> Sequence[Program]:
        """Programs of this machine that it needs."""

    def insist_on_parts(self) -> None:
        """Look for what it needs other than programs. Raises LabError."""

    def words(self, guest: Guest, folder: Path) -> InitWords:
        """For its first program; `folder` is the lab's own."""

    async def start(self, guest: Guest, folder: Path, init: Path) -> list[str]:
        """Boots it until it is reached, with `init` as its first program; returns notes for the user. Raises LabError, HostError."""


async def up(guest: Guest, folder: Path, kernel: Kernel) -> list[str]:
    """Boots it and waits until it answers; `folder` is the lab's own, with the keys of its door. Raises LabError, HostError.

    Returns notes for the user.
    """
    server = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
    if server is None:
        raise LabError("sshd is not there", remedy="install openssh-server")
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
            remedy="load the module tun, and see that this user may open /dev/net/tun",
        )
    await namespace.run(["ip", "address", "add", f"{_NEAR}/30", "dev", TAP])
    await namespace.run(["ip", "link", "set", "dev", TAP, "up"])
    return await kernel.start(guest, folder, init)


def console(folder: Path, role: str) -> Path:
    """Return the path of its kernel's console."""
    return folder / f"console-{role}"


async def started(guest: Guest, folder: Path, script: str, *, mark: str) -> None:
    """Starts `sh -c SCRIPT`, which is to become its kernel, inside its namespace, on its core, and again whenever it is switched on.

    `mark` is a word of the command line of both. Raises HostError.
    """
    # In a new session before it is started: whatever is in a command's group when that ends is killed.
    console_path = shlex.quote(str(console(folder, guest.role)))
    # Where the kernel shares CPUs by session first (sched(7), autogroup), a priority counts among the processes of one session only.
    start = f"echo {guest.nice} 2>/dev/null >/proc/self/autogroup; {script} </dev/null >{console_path} 2>&1 & echo $!"
    where = ["taskset", "-c", ",".join(map(str, guest.cpus)), "nice", "-n", str(guest.nice)]
    command = ["ip", "netns", "exec", guest.namespace, *where, "setsid", "--wait", "sh", "-c", start]
    switch = guest_power.write(folder, guest.role, mark=mark, start=command)
    await LocalHost("lab").run([str(switch), "on"])


def end_of(folder: Path, role: str) -> str:
    """Why the kernel of an ended guest did, as its console says; `folder` is the lab's own."""
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
    """Until its ssh server listens. Its process is a shell for a moment, then the kernel. Raises LabError with its last words."""
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
    """The text of a file that may not be there."""
    return outside.tail(path, CONSOLE_BYTES).decode("utf-8", "replace")
