"""CPU time of our threads and of other work (physics.interference), on this machine and on other Linux hosts.

On this machine our threads are those of our process tree and the kernel threads that forward. They are read four times a second during
a trial, because a thread's account ends with the thread. Other work counts only while our threads have work to do.
On another host our threads are found by name, with one reading before and one after a trial.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from dutlab.ending import cancelled
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.local import THIS_MACHINE, LocalHost
from dutlab.physics.interference import CpuAccount, ForwardingWait, ThreadTime
from dutlab.sensors.cpu_account_script import KTHREADD, SCRIPT, machine_account, parse_account
from dutlab.sensors.device_processes import DeviceProcesses
from dutlab.sensors.event_counts import EventCounts
from dutlab.sensors.processor_speed import ProcessorSpeed
from dutlab.spec.account import AccountSpec
from dutlab.spec.testbed import Testbed
from dutlab.systems.linux import LINUX

PROGRAMS = ("dutlab-engine", "iperf3", "trafgen", "xdp-trafficgen", "pkt-gen", "ipgen", "_t-rex-64", "ping")
"""Programs that send and receive, by the beginning of their names (proc_pid_comm(5)): a copy of the engine has a longer name. Only the
waiting of their threads counts; the CPU time of all processes that we started counts as ours."""
READ_EVERY_S = 0.25
MOST_WAITS = 4 * 3600
"""Number of readings that are kept: one hour."""
_NS = 1e9
_COMM = 15
"""Longest name of a thread, in characters (TASK_COMM_LEN, without the terminator)."""
_NOTHING = (0.0, 0.0)
"""User and system time of 0 s."""


class AccountReader(Protocol):
    """Reader of the CPU accounts of a testbed's machines."""

    async def read(self) -> Mapping[str, CpuAccount]:
        """Return host → current account. A host without an account, or one that does not answer, is left out."""

    def running(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Enclose a trial: threads that end during it are counted too."""


class ThreadLedger:
    """Cumulative times by name, of threads that start and end. A thread that is new in a reading counts from its start."""

    def __init__(self) -> None:
        self._last: dict[int, ThreadTime] = {}
        self.total: dict[str, ThreadTime] = {}

    def see(self, threads: Iterable[tuple[int, str, ThreadTime]]) -> None:
        """Add a reading: thread number, name, times since the thread's start. If the times fell, the number belongs to a new thread."""
        now = {tid: (name, t) for tid, name, t in threads}
        for tid, (name, t) in now.items():
            before = self._last.get(tid)
            grown = t if before is None or t.run_s < before.run_s else t.since(before)
            self.total[name] = self.total.get(name, ThreadTime(0.0, 0.0)) + grown
        self._last = {tid: t for tid, (_, t) in now.items()}


class ForwardingLedger:
    """Waiting of the threads that serve the DUT's ports, between readings."""

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self._names, self._last, self._seen, self._events = names, dict[int, ThreadTime](), ThreadLedger(), EventCounts()
        self.of = deque[tuple[float, float]](maxlen=MOST_WAITS)
        """(Time of a reading, longest wait of one thread since the reading before), in seconds."""

    def see(self, at_s: float, threads: Iterable[tuple[int, str, ThreadTime]]) -> None:
        """Add a reading."""
        rows = [(tid, name, t) for tid, name, t in threads if not self._names or name.startswith(self._names)]
        if rows and self._last:
            self.of.append((at_s, max(t.wait_s - self._last.get(tid, t).wait_s for tid, _, t in rows)))
        if self._last.keys() != (now := {tid: t for tid, _, t in rows}).keys():
            self._events.watch(now)
        self._last = now
        self._seen.see(rows)

    @property
    def threads(self) -> frozenset[int]:
        """Threads of the last reading."""
        return frozenset(self._last)

    @property
    def total(self) -> ForwardingWait | None:
        """Waiting since the first reading; None without such a thread."""
        times, (instructions, cycles) = list(self._seen.total.values()), self._events.total or (None, None)
        if not times:
            return None
        ran_s, waited_s, runs = (sum(of) for of in zip(*((t.run_s, t.wait_s, t.runs) for t in times), strict=True))
        return ForwardingWait(ran_s, waited_s, int(runs), instructions, cycles)


class LocalAccount:
    """Account of this machine. `forwarding` are the kernel threads that forward, by process number; None: all that serve a port.

    A set may grow: a port that was set down has a new thread afterwards.

    `guests` returns the current processes of the guests' kernels: a guest that is restarted gets a new process. `devices` returns the
    processes of the DUT; it is called before and after a trial. `dut_threads` are prefixes of the names of kernel threads that serve the
    DUT's ports; empty: all threads that forward.
    """

    def __init__(
        self,
        forwarding: Iterable[int] | None = None,
        *,
        guests: Callable[[], Iterable[int]] = tuple,
        devices: Callable[[], Iterable[int]] = tuple,
        dut_threads: tuple[str, ...] = (),
        proc: Path = Path("/proc"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._proc, self._clock, self._ledger, self._forwarded = proc, clock, ThreadLedger(), ThreadLedger()
        self._named_devices, self._devices, self._is_running = devices, frozenset[int](), False
        self._kernels, self._of_guests = guests, dict[int, tuple[float, float]]()
        self._wanted = forwarding if forwarding is None or isinstance(forwarding, set) else frozenset(forwarding)
        self._known = frozenset[int]()
        self._kernel: dict[int, str] = {}
        self._visible = kernel_is_visible(proc)
        self._forwarding = self._guests = frozenset[int]()
        self._find_kernel_threads()
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._own = os.getpid()
        self._last: CpuAccount | None = None
        self._taken_s = self._stopped_s = 0.0
        self._waits = ForwardingLedger(dut_threads)
        self._speed = ProcessorSpeed()

    async def read(self) -> Mapping[str, CpuAccount]:
        try:
            if not self._is_running:
                self._devices = frozenset(self._named_devices())
            return {THIS_MACHINE: self.account()}
        except (OSError, ValueError, KeyError):  # a kernel without these files: a container that hides /proc
            return {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self._find_kernel_threads()
        with self._speed.reading(self._forwarding_cpus()):
            reader, self._is_running = asyncio.ensure_future(self._keep_reading()), True
            try:
                yield
            finally:
                self._is_running = False
                await cancelled(reader)

    def _forwarding_cpus(self) -> frozenset[int]:
        """Return the CPUs that the threads of the DUT's ports may use."""
        cpus = set[int]()
        for thread in self._waits.threads:
            with contextlib.suppress(OSError):  # the process has ended
                cpus |= os.sched_getaffinity(thread)
        return frozenset(cpus)

    async def _keep_reading(self) -> None:
        while await self.read():  # noqa: ASYNC110 - it polls at fixed times
            await asyncio.sleep(READ_EVERY_S)

    def account(self) -> CpuAccount:
        """Return the current account. Raises OSError, ValueError if /proc lacks the data."""
        if frozenset(self._kernels()) | self._devices != self._guests or self._known != (self._wanted or frozenset()):
            self._find_kernel_threads()
        at_s, threads, stopped = self._clock(), list[tuple[int, str, ThreadTime]](), False
        used_s = dict.fromkeys((self._own, *self._guests), _NOTHING)
        for root in used_s:
            for pid in self._tree(root):
                with contextlib.suppress(OSError):  # the process has ended
                    stat = self._text(f"{pid}/stat")
                    name, _, rest = stat.partition("(")[2].rpartition(")")
                    utime, stime, cutime, cstime = (int(n) / self._ticks for n in rest.split()[11:15])
                    used_s[root] = _sum(used_s[root], (utime + cutime, stime + cstime))
                    if name.startswith(PROGRAMS):
                        stopped |= rest.split()[0] == "T"
                    if name.startswith(PROGRAMS) or (root in self._devices and pid != root):
                        threads += self._threads(pid, name)
        for guest in self._guests:  # CPU time of a guest stays ours after it is switched off
            self._of_guests[guest] = max(self._of_guests.get(guest, _NOTHING), used_s[guest], key=sum)
        own_s = _sum(used_s[self._own], *self._of_guests.values())
        forwarded = list[tuple[int, str, ThreadTime]]()
        for pid, name in self._kernel.items():
            with contextlib.suppress(OSError):
                threads += (of_it := list(self._threads(pid, name)))
                if pid in self._forwarding and pid not in self._guests:
                    forwarded += of_it
        self._waits.see(at_s, forwarded)
        self._forwarded.see(forwarded)  # when a port is removed, its thread ends; its time stays ours
        own_s = _sum(own_s, (0.0, sum(t.run_s for t in self._forwarded.total.values())))
        self._ledger.see(threads)
        account = machine_account(
            at_s, self._text("stat"), self._pressure(), self._ticks, own_s=own_s, threads=self._ledger.total, visible=self._visible
        )
        if self._last is not None:
            since = account.since(self._last)
            self._stopped_s += since.seconds if stopped else 0.0
            self._taken_s += since.taken_s or 0.0
        self._last = account
        return replace(
            account,
            taken_s=self._taken_s,
            stopped_s=self._stopped_s,
            forwarding=self._waits.total,
            waits=tuple(self._waits.of),
            fixed_work=self._speed.total(),
        )

    def _find_kernel_threads(self) -> None:
        """Find the kernel threads again, before each trial: they start and end with ports."""
        self._guests = frozenset(self._kernels()) | self._devices
        self._known = frozenset(self._wanted or ())
        named = dict(self._kernel_threads())
        if not self._visible:  # the given numbers are of another process namespace
            named = {pid: name for pid, name in named.items() if pid in self._guests}
        self._forwarding = self._guests | {
            pid for pid, n in named.items() if (n.startswith("napi/") if self._wanted is None else pid in self._wanted)
        }
        self._kernel = {pid: name for pid, name in named.items() if name.startswith("ksoftirqd/") or pid in self._forwarding}

    def _pressure(self) -> str:
        try:
            return self._text("pressure/cpu")
        except OSError:  # CONFIG_PSI is off, or psi=0
            return ""

    def _tree(self, root: int) -> Iterator[int]:
        """Yield a process and its descendants, except guests and devices, which are counted separately."""
        left = [root]
        while left:
            yield (pid := left.pop())
            try:
                for task in (self._proc / str(pid) / "task").iterdir():
                    left += {int(child) for child in (task / "children").read_text().split()} - self._guests
            except OSError:  # the process has ended
                continue

    def _threads(self, pid: int, name: str) -> Iterator[tuple[int, str, ThreadTime]]:
        for task in (self._proc / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                yield int(task.name), name, _thread_time((task / "schedstat").read_text())

    def _kernel_threads(self) -> Iterator[tuple[int, str]]:
        for comm in self._proc.glob("[0-9]*/comm"):
            with contextlib.suppress(OSError):
                yield int(comm.parent.name), comm.read_text(encoding="utf-8").strip()

    def _text(self, name: str) -> str:
        return (self._proc / name).read_text(encoding="utf-8", errors="replace")


class RemoteAccount:
    """Account of another Linux host, by one command per reading. `started` returns the names of programs that run there as the DUT."""

    def __init__(self, host: Host, account: AccountSpec = AccountSpec(), started: Callable[[], Sequence[str]] = tuple) -> None:  # noqa: B008 -- it is frozen
        groups = (f"cgroup:{name.strip('/')}" for name in (*account.cgroups, *account.units))
        self._host, self._wanted, self._started = host, (*PROGRAMS, *account.processes, *groups), started

    async def read(self) -> Mapping[str, CpuAccount]:
        try:
            done = await self._host.run(["sh", "-c", SCRIPT, "account", *self._wanted, *self._started()], check=False)
        except HostError:  # the measurement reports it
            return {}
        account = parse_account(done.text)
        return {} if account is None else {self._host.name: account}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        yield


class Accounts:
    """Accounts of several machines, read at the same time."""

    def __init__(self, readers: Iterable[AccountReader]) -> None:
        self._readers = tuple(readers)

    async def read(self) -> Mapping[str, CpuAccount]:
        return {name: a for accounts in await asyncio.gather(*(r.read() for r in self._readers)) for name, a in accounts.items()}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for reader in self._readers:
                await stack.enter_async_context(reader.running())
            yield


def accounts_of(
    hosts: Mapping[str, Host],
    forwarding: Iterable[int] | None = None,
    *,
    guests: Callable[[], Iterable[int]] | None = None,
    testbed: Testbed | None = None,
    started: Callable[[], Sequence[str]] = tuple,
) -> Accounts:
    """Return the readers for a testbed's Linux machines. Namespaces and guests of this machine share one reader."""
    specs = {} if testbed is None else {name: spec.account for name, spec in testbed.hosts.items()}
    local = {name: host for name, host in hosts.items() if isinstance(host, LocalHost)}
    devices = DeviceProcesses(
        tuple(specs[name] for name in local if name in specs),
        frozenset(inode for host in local.values() if (inode := host.namespace_inode) is not None),
        frozenset(testbed.ports_of(testbed.dut)) if testbed is not None and testbed.dut in local else frozenset(),
    )
    here = (
        [LocalAccount(forwarding, guests=guests or tuple, devices=devices, dut_threads=forwarding_names(testbed))]
        if guests or local
        else []
    )
    far = [
        RemoteAccount(h, specs.get(h.name, AccountSpec()), started if testbed is not None and h.name == testbed.dut else tuple)
        for h in hosts.values()
        if not isinstance(h, LocalHost) and h.system.kernel == LINUX.kernel
    ]
    return Accounts([*here, *far])


def forwarding_names(testbed: Testbed | None) -> tuple[str, ...]:
    """Return the name prefixes of the kernel threads that serve the DUT's ports; none if a port of another host has such a name."""
    if testbed is None or testbed.dut is None:
        return ()
    others = {port for host in testbed.hosts if host != testbed.dut for port in testbed.ports_of(host)}
    ports = testbed.ports_of(testbed.dut)
    return () if others.intersection(ports) else tuple(f"napi/{port}-"[:_COMM] for port in ports)


def kernel_is_visible(proc: Path = Path("/proc")) -> bool:
    """Return whether /proc shows the kernel's threads, which it does not in a process namespace."""
    try:
        return (proc / "2" / "comm").read_text(encoding="utf-8").strip() == KTHREADD
    except OSError:
        return False


def hidden_notes(hosts: Mapping[str, Host]) -> tuple[str, ...]:
    """Return a note if this machine is a host of the testbed and hides its kernel threads; otherwise nothing."""
    if kernel_is_visible() or not any(isinstance(host, LocalHost) for host in hosts.values()):
        return ()
    return ("this is a process namespace, which hides kernel threads: of other work only the time in user mode is known",)


def _sum(*of: tuple[float, float]) -> tuple[float, float]:
    return sum(user for user, _ in of), sum(system for _, system in of)


def _thread_time(schedstat: str) -> ThreadTime:
    run, wait, runs, *_ = schedstat.split()
    return ThreadTime(int(run) / _NS, int(wait) / _NS, int(runs))
