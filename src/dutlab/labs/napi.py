"""Kernel threads that serve ports with threaded NAPI, and the cores they run on.

Such a thread is called `napi/PORT-ID` (net/core/dev.c, napi_kthread_create), and several namespaces may have a port of the same name. The
kernel reports by netlink which thread serves which port (`netdev.py`), since Linux 6.8. With earlier kernels, the threads of a lab are
those that appear while its ports are switched to threaded NAPI. A lock of all labs that share /run protects the switch. Setting a port down
ends its thread, and the pinning; Lab.pin_again() pins the thread that it has when it is up again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dutlab.labs import netdev
from dutlab.labs.recipe import ports_of
from dutlab.spec.testbed import Testbed


def napi_threads() -> dict[int, str]:
    """Return the NAPI threads of the machine: PID → port name."""
    port_by_pid = {}
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            name = comm.read_text(encoding="utf-8").strip()
        except OSError:  # ended meanwhile
            continue
        if name.startswith("napi/"):
            port_by_pid[int(comm.parent.name)] = name.removeprefix("napi/").rpartition("-")[0]
    return port_by_pid


def threads_of(namespace: Path, before: Mapping[int, str]) -> dict[int, str]:
    """Return the threads that serve the namespace's ports, as PID → port name.

    `before` is the result of napi_threads() before the ports were switched, for kernels without netlink family `netdev`.
    """
    pids = netdev.napi_pids(namespace)
    return {pid: port for pid, port in napi_threads().items() if (pid not in before if pids is None else pid in pids)}


def pin(threads: Mapping[int, str], testbed: Testbed, role: str, cpus: tuple[int, ...], nice: int) -> list[str]:
    """Pin the threads of the role's ports to its cores, one core per link in turn, with `nice`. Return notes on failures."""
    notes = []
    wanted = {port: cpus[i % len(cpus)] for i, link in enumerate(testbed.links.values()) for port in _ports(testbed, link.name, role)}
    for pid, port in threads.items():
        if port not in wanted:
            continue
        try:
            os.sched_setaffinity(pid, {wanted[port]})
            os.setpriority(os.PRIO_PROCESS, pid, nice)
        except PermissionError:
            notes.append(f"the NAPI threads of {role} run on any core: pinning them needs root of the machine itself")
            break
        except ProcessLookupError:
            notes.append(f"the NAPI thread of {role}:{port} has ended")
    if missing := sorted(set(ports_of(testbed, role)) - set(threads.values())):
        notes.append(f"no NAPI thread of {role} was found for {', '.join(missing)}: it runs on any core")
    return notes


def _ports(testbed: Testbed, link: str, role: str) -> list[str]:
    return [port.interface for port in testbed.links[link].ports if port.host == role]
