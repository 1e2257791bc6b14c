"""Debian's cloud kernel in QEMU as kernel of a guest: with nf_tables, WireGuard, VLAN and the network cards of virtual machines.

Its root is the machine's file system by virtiofs, from a server that has everything read-only except the lab's folder. Each port is a tap,
and this machine's kernel forwards every frame between it and the port of the namespace (tc-mirred(8)). QEMU uses KVM if a guest boots with
it, and otherwise emulates the processor.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from pathlib import Path

from dutlab.errors import LabError
from dutlab.hosts.initramfs import BUSYBOX, initramfs
from dutlab.hosts.kernels import MODULES, newest_kernel, release_of
from dutlab.hosts.netns import NAMESPACES, NetnsHost
from dutlab.hosts.programs import Program
from dutlab.labs import inside
from dutlab.labs.guest import BOOTS_S, QEMU, TAP, Guest, InitWords, reached, started
from dutlab.labs.state import StateFolder

_SERVERS = (Path("/usr/lib/qemu/virtiofsd"), Path("/usr/libexec/virtiofsd"))
"""Paths of virtiofsd: of Debian 12 (package qemu-system-common), and of later versions (package virtiofsd)."""
MEMORY_MB = 512
_KVM = Path("/dev/kvm")
_KVM_BOOTS_S = 20.0
"""Seconds after which a guest that has not booted with KVM is booted without it; with KVM it takes a second or two."""
_EARLY = ("virtio_pci", "virtiofs", "virtio_net", "vmxnet3", "pvpanic-pci")
"""Modules that the guest needs before it has its root."""
_DEVICES = {"virtio-net": "virtio-net-pci", "vmxnet3": "vmxnet3"}
_QUEUE_FRAMES = 1000
"""Frames in the queue of each tap, as for the other ports (recipe.QUEUE_FRAMES)."""
_TAG = "machine"
# For the server alone, all mounts become read-only except the lab's folder. The server has a separate /run.
_SERVE = """mount --bind {folder} /mnt || exit
while read -r _ place _; do
  place=$(printf %b "$place")
  [ "$place" = /mnt ] || mount -o remount,bind,ro "$place"
done </proc/self/mounts 2>/dev/null
mount -t tmpfs tmpfs /run && mkdir -p {folder} && mount --move /mnt {folder} || exit
exec {server} --socket-path={socket} -o source=/ -o cache=always -o sandbox=chroot
"""
# QEMU replaces the shell under the same PID, with the server as its child, so that the guest accounts for the CPU time of both.
_START = """rm -f {socket}
unshare --mount --propagation private sh {serve} >{log} 2>&1 &
while [ ! -S {socket} ]; do
  kill -0 $! 2>/dev/null || {{ cat {log}; exit 1; }}
  sleep 0.02
done
exec {qemu}
"""


class Qemu:
    """Kernel of a guest in a virtual machine."""

    programs = (Program(QEMU, "qemu-system-x86"), Program("unshare", "util-linux"), BUSYBOX)

    def insist_on_parts(self) -> None:
        """Check that kernel and virtiofsd are installed. Raises LabError."""
        newest_kernel()
        _server()

    def words(self, guest: Guest, folder: Path) -> InitWords:
        """Return the commands, which mount virtiofs again because a tmpfs covers the folder. Raises LabError for a guest with drives."""
        if guest.drives:
            raise LabError(f"{guest.role} has drives, and a guest in QEMU takes none")
        quoted = shlex.quote(str(folder))
        return InitWords(MODULES, f"mount -t virtiofs {_TAG} /mnt\nmount --bind /mnt{quoted} {quoted}\numount /mnt", "eth")

    async def start(self, guest: Guest, folder: Path, init: Path) -> list[str]:
        """Boot the guest, with KVM if it works; return notes for the user. Raises LabError, HostError."""
        image = folder / f"image-{guest.role}"
        modules = MODULES / release_of(newest_kernel())
        image.write_bytes(await asyncio.to_thread(initramfs, modules, _EARLY, _TAG, init))
        await NetnsHost(guest.role, guest.namespace).run(["sh", "-e"], stdin=_wires(guest).encode())
        why, marker = f"{_KVM} cannot be opened", StateFolder().no_kvm
        if os.access(_KVM, os.R_OK | os.W_OK):
            why = f"{_KVM} boots no guest here; remove {marker} to try it again"
            if not marker.exists():
                try:
                    await self._boot(guest, folder, image, "kvm", _KVM_BOOTS_S)
                except LabError:
                    await asyncio.to_thread(_end, guest)
                    marker.touch()
                else:
                    return []
        await self._boot(guest, folder, image, "tcg", BOOTS_S)
        return [f"{guest.role}: QEMU emulates its processor ({why}), so it is many times slower than this machine"]

    async def _boot(self, guest: Guest, folder: Path, image: Path, accelerator: str, within_s: float) -> None:
        socket, serve, log = (folder / f"{name}-{guest.role}" for name in ("files", "serve", "served"))
        fields = {"folder": shlex.quote(str(folder)), "socket": shlex.quote(str(socket)), "server": _server()}
        serve.write_text(_SERVE.format(**fields), encoding="ascii")
        qemu = shlex.join(_command(guest, image, socket, accelerator))
        start = folder / f"start-{guest.role}"
        start.write_text(
            _START.format(socket=fields["socket"], serve=shlex.quote(str(serve)), log=shlex.quote(str(log)), qemu=qemu), encoding="ascii"
        )
        mark = f"guest={guest.name}"
        await started(guest, folder, f"sh {shlex.quote(str(start))} {shlex.quote(mark)}", mark=mark)
        await reached(folder, guest.role, within_s=within_s)


def _command(guest: Guest, image: Path, socket: Path, accelerator: str) -> list[str]:
    """Return QEMU's command line; a panic switches the guest off, a reboot does not."""
    cards = [(TAP, "02:00:00:00:ff:01", "virtio-net"), *((_tap(at), mac, guest.card) for at, mac in enumerate(guest.ports.values(), 1))]
    return [
        QEMU, "-name", f"guest={guest.name}", "-nodefaults", "-display", "none", "-serial", "stdio",
        "-accel", accelerator, "-cpu", "host" if accelerator == "kvm" else "max", "-smp", "1", "-m", f"{MEMORY_MB}M",
        # Shared memory, which virtiofsd needs.
        "-object", f"memory-backend-memfd,id=memory,size={MEMORY_MB}M,share=on", "-machine", "q35,memory-backend=memory",
        "-kernel", str(newest_kernel()), "-initrd", str(image),
        "-append", "console=ttyS0 quiet loglevel=4 printk.time=0 panic=-1 net.ifnames=0",
        "-device", "pvpanic-pci", "-action", "panic=shutdown",
        "-chardev", f"socket,id=files,path={socket}", "-device", f"vhost-user-fs-pci,chardev=files,tag={_TAG}",
        *(
            word
            for at, (tap, mac, card) in enumerate(cards)
            for word in (
                "-netdev", f"tap,id=port{at},ifname={tap},script=no,downscript=no",
                "-device", f"{_DEVICES[card]},netdev=port{at},mac={mac},romfile=",
            )
        ),
    ]  # fmt: skip


def _wires(guest: Guest) -> str:
    """Return a script for `sh -e` in the namespace that connects each port with a tap, in both directions; every kernel has u32."""
    return "".join(f"ip tuntap add dev {_tap(at)} mode tap\n{_wire(_tap(at), port)}" for at, port in enumerate(guest.ports, 1))


def _wire(tap: str, port: str) -> str:
    lines = [f"ip link set dev {tap} txqueuelen {_QUEUE_FRAMES} arp off up"]
    for here, there in ((tap, port), (port, tap)):
        lines += [
            f"tc qdisc add dev {here} clsact",
            f"tc filter add dev {here} ingress protocol all u32 match u32 0 0 action mirred egress redirect dev {there}",
        ]
    return "\n".join(lines) + "\n"


def _tap(at: int) -> str:
    return f"tap{at}"


def _end(guest: Guest) -> None:
    """Kill all processes of the guest's namespace. Raises LabError."""
    identity = inside.namespace_id(NAMESPACES / guest.namespace)
    if identity is not None and (left := inside.kill_all(identity)):
        raise LabError(f"processes {left} in {guest.namespace} do not end", remedy=f"end them, then `dutlab lab down {guest.label}`")


def _server() -> Path:
    """Return the path of virtiofsd. Raises LabError."""
    server = next((path for path in _SERVERS if path.exists()), None)
    if server is None:
        raise LabError("virtiofsd is not installed", remedy="install virtiofsd, or qemu-system-common where Debian has no such package")
    return server
