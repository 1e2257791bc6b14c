"""Embedded labs: built, found again, and taken down."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network
from pathlib import Path
from typing import Literal

from dutlab.ending import ended_by, run_to_end
from dutlab.errors import HostError, LabError
from dutlab.hosts.host import CommandLog, Host
from dutlab.hosts.lease import lease_files
from dutlab.hosts.local import THIS_MACHINE, LocalHost
from dutlab.hosts.netns import NAMESPACES, NetnsHost, NetnsMachine
from dutlab.hosts.programs import ETHTOOL, IP, SSHD, TASKSET, TC, Program, insist, missing_on
from dutlab.labs import drives, guest, guest_power, inside, napi, netdev, recipe, sshd
from dutlab.labs.lost_guests import ENDED, Guests, LabGone, ended_in
from dutlab.labs.qemu import Qemu
from dutlab.labs.state import CONDUCTOR, SWITCH, TESTER, LabState, Owner, StateFolder, check_label, labels_among, namespaces_of, new_label
from dutlab.labs.uml import UserMode
from dutlab.spec.lab_files import LabDescription, description
from dutlab.spec.testbed import Testbed

_LAST_CALL_S = 0.1
_MANAGEMENT = IPv4Network("198.51.100.0/24")
"""Network of management links: TEST-NET-2 of RFC 5737, which is not routed and not used by links."""
PRIORITY = -10
"""Nice value of a lab (nice(1)): nine times the weight of other work (sched_prio_to_weight), which keeps one tenth."""
_REMEDY = "labs need root, or `unshare -Urnm` with a tmpfs on /run"
_PROGRAMS = {"netns": (IP, TC, ETHTOOL, TASKSET), "ssh": (IP, TC, ETHTOOL, TASKSET, SSHD)}
"""Programs of this machine that a lab needs, by the way to its hosts."""
_KERNELS: Mapping[str, guest.Kernel] = {"uml": UserMode(), "qemu": Qemu()}
"""Kernel of guests, by its name in lab files."""


@dataclass(frozen=True)
class Lab:
    """A lab that is up."""

    label: str
    testbed: Testbed
    cpus: Mapping[str, tuple[int, ...]]
    """Host → CPUs for its programs; for the DUT, the CPUs of its NAPI threads. Guests are missing: they have their own processor."""
    watch_cpu: int | None
    """Core of the sensors; not a generator's core, if there is another."""
    namespaces: Mapping[str, str]
    layout: str
    since_s: float = 0.0
    """Time at which it was built, in seconds since the epoch."""
    notes: tuple[str, ...] = ()
    """Differences from the description, in words for the user."""
    napi_threads: tuple[int, ...] = ()
    """PIDs of the kernel threads that serve its ports."""
    nice: int = 0
    """Nice value of its programs and NAPI threads (nice(1)); 0: the default priority."""
    group: Path | None = None
    """Control group in which its programs run; None without drives."""
    ssh_config: Path | None = None
    """ssh configuration with each host under its name; None if no host is reached by ssh."""
    over_ssh: frozenset[str] = frozenset()
    """Hosts that are reached by ssh; dutlab enters the namespaces of the others."""
    guests: frozenset[str] = frozenset()
    """Hosts with their own kernel: each is a process of this machine, which accounts its CPU time."""
    backend: Literal["auto", "af_packet"] = "auto"
    """Back end of the engine on its ports: a guest's kernel cannot load the program that counts frames."""

    @property
    def ends_here(self) -> bool:
        """True if sender and receiver run on this machine; a DUT may have its own kernel."""
        return not self.over_ssh & set(self.testbed.ends)

    def inside(self, host: str) -> tuple[str, ...]:
        """Return the prefix of a command on this machine that runs on `host` without ssh. Raises KeyError."""
        return ("ip", "netns", "exec", self.namespaces[host])

    async def machine(self, host: str, name: str, log: CommandLog | None = None) -> Host:
        """Return `host` under another name, as a separate machine: its processes end with it. Raises KeyError, HostError."""
        if host in self.over_ssh:
            return self._far(host, name, log)
        return await NetnsMachine.open(name, self.namespaces[host], log)

    @property
    def looked_after(self) -> Guests:
        """Guests of the lab, to detect those that are lost."""
        return Guests(self.guests, StateFolder().ssh_folder(self.label))

    def kernels(self) -> tuple[int, ...]:
        """Return the PIDs of its guests' kernels. A guest that was switched off and on has a new one."""
        started = [guest_power.kernel(self.looked_after.folder, role) for role in self.guests]
        return tuple(pid for pid in started if pid is not None and guest.is_kernel(pid))

    def hosts(self, log: CommandLog | None = None) -> dict[str, Host]:
        """Return name → host, with new objects at each call."""
        near = {role: NetnsHost(role, namespace, log, nice=self.nice, group=self.group) for role, namespace in self.namespaces.items()}
        return {**near, **{role: self._far(role, role, log) for role in self.namespaces if role in self.over_ssh}}

    def pin_again(self, threads: set[int]) -> None:
        """Pin the NAPI threads of ports that were set down and up again, which have new ones, and add them to `threads`, those known.

        Before Linux 6.8, which cannot name a namespace's threads, nothing happens: the new threads run on any core.
        """
        for role in description(self.testbed.lab or "").settings.layouts[self.layout].napi_threads - self.guests:
            namespace = NAMESPACES / self.namespaces[role]
            if netdev.napi_pids(namespace) is not None:
                new = {pid: port for pid, port in napi.threads_of(namespace, {}).items() if pid not in threads}
                napi.pin(new, self.testbed, role, self.cpus[role], self.nice)
                threads.update(new)

    def _far(self, host: str, name: str, log: CommandLog | None) -> Host:
        from dutlab.hosts.ssh import SshHost  # noqa: PLC0415 -- loads asyncssh, which local hosts do not need
        from dutlab.hosts.ssh_login import Login  # noqa: PLC0415 -- as above

        return SshHost(Login(name, host, () if self.ssh_config is None else (self.ssh_config,)), log)


@dataclass(frozen=True)
class StandingLab:
    """Lab as its state file describes it, and whether it is still up."""

    label: str
    lab: str
    since_s: float
    owner_pid: int
    owner_alive: bool
    complete: bool
    """False while the lab is being built, or if its builder was killed."""
    namespaces: Mapping[str, str]
    """Host → namespace, for namespaces that exist."""


async def up(name: str, *, label: str | None = None, layout: str | None = None) -> Lab:
    """Build the lab `name`; after an error, remove it. Raises LabError, ToolMissing, ToolsMissing."""
    plan = description(name)
    layout_name, spread = plan.layout(layout)
    cpus, watch_cpu = spread.on(sorted(os.sched_getaffinity(0)))
    label = check_label(label or new_label())
    namespaces, folder = _namespaces(label, plan), StateFolder()
    if folder.read(label) is None and (taken := [n for n in namespaces.values() if (NAMESPACES / n).exists()]):
        remedy = f"`dutlab lab down {label}`, or choose another label"
        raise LabError(f"network namespace {taken[0]} exists already", remedy=remedy)
    machine = LocalHost("lab")
    insist(await missing_on(LocalHost(THIS_MACHINE), programs(name)))
    nice = await _priority(machine)
    state = LabState(label, name, layout_name, namespaces, Owner.this_process(), time.time(), cpus=cpus, watch_cpu=watch_cpu, nice=nice)
    folder.claim(state)
    try:
        notes, threads = await _build(machine, plan, state, folder)
        state = state.completed(tuple(notes), threads)
        folder.rewrite(state)
    except BaseException as e:
        await down(label)
        if isinstance(e, HostError):
            raise LabError(f"lab {label} cannot be built: {e}", remedy="" if e.remedy else _REMEDY) from e
        raise
    return _lab(state, plan)


def programs(name: str) -> tuple[Program, ...]:
    """Return the programs that this machine needs to build the lab `name`."""
    plan = description(name)
    guests = (SSHD, *guest.PROGRAMS, *_KERNELS[plan.settings.kernel].programs) if plan.settings.guests else ()
    loops = (drives.LOSETUP,) if plan.testbed.drives and not guests else ()
    return tuple(dict.fromkeys((*_PROGRAMS[plan.settings.reach], *guests, *loops)))


async def down(label: str) -> bool:
    """Remove exactly what up() made under `label`, and end the processes inside. Raises LabError.

    It works after a crash at any point of up(), repeatedly, and without the state file. Returns whether there was anything to remove.
    """
    return await run_to_end(_down(label))


async def _down(label: str) -> bool:
    folder = StateFolder()
    if (state := _state(folder, label)) is None:
        return False
    machine = LocalHost("lab")
    if not state.complete:  # a builder killed just now may have left an `ip` within a system call
        await asyncio.sleep(_LAST_CALL_S)
    for namespace in state.namespaces.values():
        path = NAMESPACES / namespace
        # Without its mount, the name is an ordinary file: there are no processes, only the name to remove.
        if (identity := inside.namespace_id(path)) is None:
            continue
        for lease in lease_files(str(identity[1])):  # the inode number will be reused
            with contextlib.suppress(OSError):
                await asyncio.to_thread(lease.unlink, missing_ok=True)
        if left := await asyncio.to_thread(inside.kill_all, identity):
            raise LabError(f"processes {left} in {namespace} do not end", remedy=f"end them, then `dutlab lab down {label}` again")
        done = await machine.run(["ip", "netns", "del", namespace], check=False)
        if done.status != 0 and path.exists():
            raise LabError(f"network namespace {namespace} cannot be removed: {done.errors.strip()}")
    await asyncio.to_thread(sshd.remove, folder.ssh_folder(label))
    await drives.down(label)
    folder.forget(label)
    return True


@contextlib.asynccontextmanager
async def used(name: str, standing: str | None = None, *, label: str | None = None) -> AsyncIterator[Lab]:
    """Yield the lab `standing`, or build `name` under `label` and take it down afterwards. Raises as attach() or up() does."""
    if standing is not None:
        yield await attach(standing)
        return
    label = label or new_label()
    async with ended_by(lambda: down(label)):
        yield await up(name, label=label)


async def attach(label: str) -> Lab:
    """Return a lab that up() built earlier, perhaps in another process. Raises LabGone."""
    folder = StateFolder()
    state = _state(folder, label)
    if state is None:
        known = ", ".join(folder.labels())
        raise LabGone(f"no lab labelled {label}", remedy=f"labs here: {known}" if known else "build one with `dutlab lab up`")
    missing = [n for n in state.namespaces.values() if not (NAMESPACES / n).exists()]
    ended = ended_in(state) if state.complete and not missing else []
    if missing or ended or not state.complete:
        lost = "it was not built to the end, or its state file is gone"
        why = ENDED if ended else f"{missing[0]} is gone" if missing and state.complete else lost
        raise LabGone(f"lab {label} cannot be used: {why}", remedy=f"`dutlab lab down {label}`, then build it again with that label")
    return _lab(state, description(state.lab))


async def revive(label: str) -> list[str]:
    """Start the guests of a lab whose kernel has ended; return sentences that name them. Changes of a run in them are lost.

    Raises LabError, HostError where one does not start.
    """
    state = StateFolder().read(label)
    if state is None or not state.complete:
        return []
    guests = Guests(frozenset(description(state.lab).settings.guests), StateFolder().ssh_folder(label))
    ended = guests.ended()
    sentences = [f"{role} was started again: {ENDED}: {guests.last_words(role).why}" for role in ended]
    for role in ended:
        await guests.start_again(role)
    return sentences


def standing() -> list[StandingLab]:
    """Return every lab with a state file or a namespace, built by any process."""
    folder = StateFolder()
    left = labels_among(path.name for path in NAMESPACES.glob("dutlab-*"))
    states = [state for label in sorted({*folder.labels(), *left}) if (state := _state(folder, label)) is not None]
    return [
        StandingLab(
            label=s.label,
            lab=s.lab,
            since_s=s.since_s,
            owner_pid=s.owner.pid,
            owner_alive=s.owner.alive,
            complete=s.complete,
            namespaces={role: n for role, n in s.namespaces.items() if (NAMESPACES / n).exists()},
        )
        for s in states
    ]


def _state(folder: StateFolder, label: str) -> LabState | None:
    """Return the state of a lab; without its state file, the state `unknown` if a namespace or drive exists, else None."""
    if (state := folder.read(label)) is not None:
        return state
    left = LabState.unknown(label)
    there = any((NAMESPACES / n).exists() for n in left.namespaces.values()) or drives.folder_of(label).exists()
    return left if there else None


def _namespaces(label: str, plan: LabDescription) -> dict[str, str]:
    """Return host → namespace; in a lab with a box, source and sink share one, which also has a separate key."""
    if plan.settings.box:
        namespace_by_role = namespaces_of(label, ("dut", TESTER))
        return {"source": namespace_by_role[TESTER], "sink": namespace_by_role[TESTER], **namespace_by_role}
    switch = [SWITCH] if any(link.segment for link in plan.testbed.links.values()) else []
    return namespaces_of(label, [*plan.testbed.hosts, *switch, *([CONDUCTOR] if plan.settings.reach == "ssh" else [])])


def _lab(state: LabState, plan: LabDescription) -> Lab:
    guests, ssh, folder = plan.settings.guests, plan.settings.reach == "ssh", StateFolder().ssh_folder(state.label)
    return Lab(
        label=state.label,
        testbed=guest_power.with_power(plan.testbed, guests, folder) if guests else drives.placed(plan.testbed, state.label),
        cpus={host: cores for host, cores in state.cpus.items() if host not in guests},
        watch_cpu=None if guests else state.watch_cpu,
        namespaces={host: state.namespaces[host] for host in plan.testbed.hosts},
        layout=state.layout,
        since_s=state.since_s,
        notes=state.notes,
        napi_threads=state.napi_threads,
        nice=state.nice,
        group=drives.group_of(state.label) if plan.testbed.drives and not guests else None,
        ssh_config=sshd.config_file(folder) if ssh or guests else None,
        over_ssh=frozenset(plan.testbed.hosts if ssh else guests),
        guests=frozenset(guests),
        backend="af_packet" if set(guests) & set(plan.testbed.ends) else "auto",
    )


async def _build(machine: LocalHost, plan: LabDescription, state: LabState, folder: StateFolder) -> tuple[list[str], list[int]]:
    """Build the lab; return notes, and the kernel threads that serve its ports. Raises HostError."""
    for namespace in dict.fromkeys(state.namespaces.values()):
        await machine.run(["ip", "netns", "add", namespace])
    await machine.run(["ip", "-batch", "-"], stdin=recipe.veth_batch(plan.testbed, state.namespaces, plan.settings.queues).encode())
    if plan.testbed.drives and not plan.settings.guests:
        await drives.up(state.label, plan.testbed.drives)
    hosts = {name: NetnsHost(name, state.namespaces[name]) for name in plan.testbed.hosts}
    if SWITCH in state.namespaces:
        await _sh(NetnsHost(SWITCH, state.namespaces[SWITCH]), recipe.switch_script(plan.testbed))
    scripts = {role: recipe.stub_script(plan, role) if role in plan.settings.guests else recipe.setup_script(plan, role) for role in hosts}
    await asyncio.gather(*(_sh(host, scripts[role]) for role, host in hosts.items()))
    threads = list[int]()
    notes = [note for end in plan.testbed.ends for note in await _queued(hosts[end], plan.testbed)]
    if state.nice != PRIORITY:
        notes.append("the lab has no priority over other work on this machine: that needs root of the machine itself")
    threaded = [role for role in hosts if role in plan.settings.layouts[state.layout].napi_threads]
    if threaded:
        async with folder.lock():
            for role in threaded:
                before = napi.napi_threads()
                await _sh(hosts[role], recipe.threads_script(plan.testbed, role))
                new = napi.threads_of(NAMESPACES / state.namespaces[role], before)
                notes += napi.pin(new, plan.testbed, role, state.cpus[role], state.nice)
                threads += new
    await asyncio.gather(*(_sh(host, recipe.carrier_script(plan.testbed, role)) for role, host in hosts.items()))
    if plan.settings.reach == "ssh":
        await _open_doors(machine, state, folder)
    if plan.settings.guests:
        notes += await _boot(plan, state, folder)
    return notes, threads


async def _boot(plan: LabDescription, state: LabState, folder: StateFolder) -> list[str]:
    """Boot the hosts with their own kernel; return notes. Raises LabError, HostError."""
    ours = {role: state.namespaces[role] for role in plan.settings.guests}
    servers = [guest.ssh_server(role, namespace) for role, namespace in ours.items()]
    await run_to_end(asyncio.to_thread(sshd.write_files, folder.ssh_folder(state.label), servers))
    guests = [
        guest.Guest(
            label=state.label,
            role=role,
            namespace=namespace,
            drives=plan.testbed.hosts[role].drives,
            ports=recipe.addresses_of(plan.testbed, role),
            setup=recipe.setup_script(plan, role) if plan.testbed.links else "",
            cpus=state.cpus[role],
            nice=state.nice,
            card=plan.settings.card,
        )
        for role, namespace in ours.items()
    ]
    kernel, place = _KERNELS[plan.settings.kernel], folder.ssh_folder(state.label)
    notes = await asyncio.gather(*(guest.up(each, place, kernel) for each in guests))
    return [note for of_guest in notes for note in of_guest]


async def _open_doors(machine: LocalHost, state: LabState, folder: StateFolder) -> None:
    """Start an ssh server in the namespace of each role, reached from the conductor by a separate link. Raises HostError, LabError."""
    far = state.namespaces[CONDUCTOR]
    ours = {role: IPv4Interface((_MANAGEMENT[4 * i + 2], 30)) for i, role in enumerate(r for r in state.namespaces if r != CONDUCTOR)}
    theirs = {f"m-{role}": IPv4Interface((address.ip - 1, 30)) for role, address in ours.items()}
    await machine.run(["ip", "-batch", "-"], stdin=recipe.management_batch(ours, state.namespaces, far).encode())
    await _sh(NetnsHost(CONDUCTOR, far), recipe.management_script(theirs))
    for role, address in ours.items():
        await _sh(NetnsHost(role, state.namespaces[role]), recipe.management_script({"mgmt": address}))
    servers = [sshd.SshServer(role, state.namespaces[role], str(address.ip), far) for role, address in ours.items()]
    await run_to_end(asyncio.to_thread(sshd.write_files, folder.ssh_folder(state.label), servers))
    await sshd.start(folder.ssh_folder(state.label), servers, nice=state.nice)


async def _priority(machine: LocalHost) -> int:
    """Return PRIORITY if programs may have it, else 0: nice(1) then prints an error and runs the command anyway."""
    granted = await machine.run(["nice", "-n", str(PRIORITY), "true"], check=False)
    return 0 if granted.errors.strip() else PRIORITY


async def _queued(host: NetnsHost, testbed: Testbed) -> list[str]:
    done = await host.run(["sh"], stdin=recipe.queue_script(testbed, host.name).encode(), check=False)
    why = done.text.strip().splitlines()
    return [f"{host.name}: no queue before its ports, so TCP loses frames where a card would wait: {why[0]}"] if why else []


async def _sh(host: NetnsHost, script: str) -> None:
    await host.run(["sh", "-e"], stdin=script.encode())
