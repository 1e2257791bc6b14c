"""Processes of this machine that are the DUT or part of the testbed. Their work does not count as other work.

The testbed file names them (`account:`), or they are found: processes that dutlab started as the DUT, processes in the network namespace
of a host, and processes that hold a port of the DUT, as a tap (tun.rst: `iff:` in fdinfo) or by VFIO (vfio.rst), as QEMU and DPDK do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dutlab.spec.account import AccountSpec
from dutlab.systems.linux_proc import DEVICE_VARIABLE

_COMM = 15
"""Longest name of a program in /proc, in characters (proc_pid_comm(5))."""


@dataclass(frozen=True)
class DeviceProcesses:
    """Processes that match, without descendants of another match."""

    accounts: tuple[AccountSpec, ...] = ()
    namespaces: frozenset[int] = frozenset()
    """Inodes of network namespaces."""
    ports: frozenset[str] = frozenset()
    """Interfaces of a DUT that is this machine or a namespace of it."""
    proc: Path = Path("/proc")

    def __call__(self) -> Iterator[int]:
        if not any((self.accounts, self.namespaces, self.ports)):
            return
        parents, matching = dict[int, int](), set[int]()
        for folder in self.proc.glob("[0-9]*"):
            try:
                name, _, rest = (folder / "stat").read_text(encoding="utf-8", errors="replace").partition("(")[2].rpartition(")")
                parents[pid := int(folder.name)] = int(rest.split()[1])
                if self._matches(folder, name):
                    matching.add(pid)
            except (OSError, ValueError, IndexError):  # the process has ended
                continue
        ours = os.getpid()
        above = {pid: set(_ancestors(pid, parents)) for pid in parents}
        started = {pid for pid, of in above.items() if ours in of and self._is_started(pid)}
        for pid in sorted(matching | started):
            if pid != ours and not above[pid] & (started if pid in started else {*matching, ours}):
                yield pid

    def _matches(self, folder: Path, name: str) -> bool:
        if any(name == wanted[:_COMM] for of in self.accounts for wanted in of.processes):
            return True
        if groups := [group.strip("/") for of in self.accounts for group in (*of.cgroups, *of.units)]:
            paths = [line.rpartition(":")[2] for line in (folder / "cgroup").read_text(encoding="utf-8").splitlines()]
            if any(f"/{group}/" in f"{path}/" for group in groups for path in paths):
                return True
        if self.namespaces and (folder / "ns" / "net").stat().st_ino in self.namespaces:
            return True
        return bool(self.ports) and self._holds_port(folder)

    def _is_started(self, pid: int) -> bool:
        """Return whether dutlab started the process as the DUT, and not to measure."""
        try:
            return f"\0{DEVICE_VARIABLE}=".encode() in b"\0" + (self.proc / str(pid) / "environ").read_bytes()
        except OSError:  # the process has ended
            return False

    def _holds_port(self, folder: Path) -> bool:
        for fd in (folder / "fd").iterdir():
            to = str(fd.readlink())
            if to.startswith("/dev/vfio/") and to != "/dev/vfio/vfio":
                return True
            if to == "/dev/net/tun":
                lines = (folder / "fdinfo" / fd.name).read_text(encoding="utf-8").splitlines()
                if any(line.startswith("iff:") and line.split()[-1] in self.ports for line in lines):
                    return True
        return False


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    visited = {pid}
    while (pid := parents.get(pid, 0)) and pid not in visited:
        visited.add(pid)
        yield pid
