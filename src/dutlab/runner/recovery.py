"""Recovery of a cut run, by its journal: `dutlab undo` does it, and a resume does it first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from dutlab import labs
from dutlab.dut.mode import UndoStep
from dutlab.ending import closing
from dutlab.errors import HostError, InputError, LabError
from dutlab.hosts.host import Host
from dutlab.hosts.local import LocalHost
from dutlab.hosts.private_folder import remove_private_folder
from dutlab.hosts.reach import host_at, hosts_of
from dutlab.labs.state import Owner, StateFolder
from dutlab.runner.host_power import revived
from dutlab.runner.journal import Entry, Journal, Unreset, leased_hosts, left_engines, pending_undo, read_journal, standing_lab, unreset
from dutlab.runner.leasing import HOSTS, leased_by
from dutlab.runner.trust import insist_on_undo
from dutlab.runner.undo import STEP_S, carry_out
from dutlab.spec.testbed import Testbed
from dutlab.store.read import reading
from dutlab.store.run_folder import RunFolder

STANDING_LAB = "standing_lab"
"""In resolved.json of a run on a lab that stood already: its label."""


@dataclass(frozen=True)
class Undone:
    """Result: `changes` of the DUT and its ports, and the hosts whose leases the run had left."""

    changes: int
    freed: tuple[str, ...] = ()
    lab: str = ""
    """Label of the lab that was left, and that is gone now."""
    unreset: tuple[UndoStep, ...] = ()
    """Reset of conducted steps that were begun and killed, if it was not to be run."""
    kept: str = ""
    """Label of the lab that stays, since some of them are to be run in it."""
    reset: tuple[str, ...] = ()
    """Result of each step of Reset, if there was one."""
    revived: tuple[str, ...] = ()
    """Hosts that did not answer and were switched on, in sentences."""


async def undo(path: Path, *, trusted: bool = False, run_reset: bool = False) -> Undone:
    """Puts the DUT of a cut run back and frees its hosts, measures nothing; with `run_reset` conducted steps have their Reset too.

    Raises NotOurs for the commands of somebody else unless `trusted`, InputError when another process has the run, InUse, TestbedError,
    HostError, StoreError.
    """
    folder = RunFolder.open(path)
    if not trusted:
        with reading(folder.journal):
            insist_on_undo(folder, read_journal(folder.journal))
    journal = Journal(folder.journal)
    try:
        with reading(folder.journal):
            entries = read_journal(folder.journal)
            left, own = unreset(entries), standing_lab(entries)
        if own is not None and StateFolder().read(own) is None:
            left = Unreset(left.outside, left.reached)
        if run_reset:
            outcomes = await _reset(left, own, journal) if left.steps else ()
            return replace(await put_back(folder, journal), reset=outcomes)
        return replace(await put_back(folder, journal, keep_lab=left.steps != left.outside), unreset=left.steps)
    finally:
        journal.close()


def standing_lab_of(path: Path) -> str | None:
    """Label of the standing lab that a run was started on, for its resume; None when it builds its own. Raises InputError, StoreError."""
    label = RunFolder.open(path).resolved.get(STANDING_LAB)
    return None if label is None else str(label)


def builds_its_lab(path: Path) -> bool:
    """Return whether a run builds an embedded lab, which needs root."""
    return testbed_in(RunFolder.open(path)).lab is not None and standing_lab_of(path) is None


async def put_back(folder: RunFolder, journal: Journal, *, keep_lab: bool = False, revive: bool = False) -> Undone:
    """Put back the changes of a run whose journal is open; `keep_lab` leaves its own lab as it is.

    `revive` switches on hosts that do not answer, where the testbed allows it: that carries out what the run's folder says of switches,
    so the folder must be trusted as a resume trusts it. Raises as undo().
    """
    with reading(folder.journal):
        entries = read_journal(folder.journal)
        pending, engines, leased, own = pending_undo(entries), left_engines(entries), leased_hosts(entries), standing_lab(entries)
    if own is not None:  # the lab was the run's own: with it goes everything that was changed in it
        _insist_on_dead_owner(own)
        was_there = not keep_lab and await labs.down(own)
        await _remove_copies(engines)
        outside = leased if folder.resolved.get(HOSTS) else ()  # those of conducted steps, which do not go with the lab
        if outside:
            hosts = await _hosts_of(folder, entries)
            async with closing(*hosts.values()), leased_by(hosts, folder, journal):
                pass
        if keep_lab:
            return Undone(0, outside, kept=own)
        journal.write("lab-down", label=own)
        return Undone(len(pending), outside, lab=own if was_there else "")
    if not (pending or engines or leased):
        return Undone(0)
    try:
        with reading(folder.path):
            hosts = await _hosts_of(folder, entries)
    except labs.LabGone:
        await _remove_copies(engines)
        journal.write("lab-gone", label=standing_lab_of(folder.path))
        return Undone(0)
    async with AsyncExitStack() as done:
        await done.enter_async_context(closing(*hosts.values()))
        for _, steps in pending:  # a host that is off has no lease to give
            await carry_out([step for step in steps if step.switch], hosts)
        notes = await _revived(folder, hosts, journal) if revive else ()
        await done.enter_async_context(leased_by(hosts, folder, journal))
        for application, steps in pending:
            await carry_out(steps, hosts)
            journal.write("mode-restored", application=application)
        for name, path in engines:
            await remove_private_folder(hosts[name], path)
            journal.write("engine-removed", host=name)
    return Undone(len(pending), leased, revived=notes)


async def _revived(folder: RunFolder, hosts: Mapping[str, Host], journal: Journal) -> tuple[str, ...]:
    """Return hosts that were switched on again; steps of a conductor switch none."""
    if HOSTS in folder.resolved:
        return ()
    testbed, label = testbed_in(folder), standing_lab_of(folder.path)
    if label is not None:
        testbed = (await labs.attach(label)).testbed
    return await revived(hosts, testbed, journal.write)


async def _reset(left: Unreset, own: str | None, journal: Journal) -> tuple[str, ...]:
    """Every step of Reset in its order, and how each ended: `killall` of what has ended anyway fails, and that is not a fault."""
    hosts = {name: host_at(name, ssh) for name, ssh in left.reached.items()}
    if own is not None and left.steps != left.outside:
        _insist_on_dead_owner(own)
        lab = await labs.attach(own)
        hosts |= {name: await lab.machine(role, name) for name, role in left.roles.items()}
    outcomes = []
    async with closing(*hosts.values()):
        for step in left.steps:
            try:
                done = await hosts[step.host].run(step.argv, timeout_s=STEP_S, check=False)
                outcomes.append(f"{step.host}: {step.argv[-1]} ended with {done.status}")
            except HostError as e:
                outcomes.append(str(e))
    journal.write("steps-reset", said=outcomes)
    return tuple(outcomes)


def _insist_on_dead_owner(label: str) -> None:
    """Raises LabError for a lab of a process that lives: the run folder is a copy of one that is measuring."""
    state = StateFolder().read(label)
    if state is not None and state.owner.alive and state.owner != Owner.this_process():
        raise LabError(
            f"lab {label} is in use by process {state.owner.pid}, which carries out the run that this folder is a copy of",
            remedy="wait for it, or end it with Ctrl-C, which takes its lab down",
        )


async def _remove_copies(engines: Sequence[tuple[str, str]]) -> None:
    """Removes the copies of a lab's hosts, which share this machine's disk."""
    for _, path in engines:
        await remove_private_folder(LocalHost("here"), path)


async def _hosts_of(folder: RunFolder, entries: Sequence[Entry]) -> Mapping[str, Host]:
    """Raises LabGone for a lab that does not exist any more, or that was built again since: nothing that the run did is left in it."""
    if (reached := folder.resolved.get(HOSTS)) is not None:
        return {name: host_at(name, ssh) for name, ssh in reached.items()}
    testbed = testbed_in(folder)
    if testbed.lab is None:
        return hosts_of(testbed)
    label = standing_lab_of(folder.path)
    if label is None:
        raise labs.LabGone("the run's own lab was taken down")
    lab = await labs.attach(label)
    if entries and datetime.fromisoformat(entries[-1]["at"]).timestamp() < lab.since_s:
        raise labs.LabGone(f"lab {label} was built again since the run was cut")
    return lab.hosts()


def testbed_in(folder: RunFolder) -> Testbed:
    """The testbed as the run took it; its file may have changed since. Raises InputError."""
    try:
        return Testbed.model_validate(folder.resolved["testbed"])
    except (ValidationError, KeyError) as e:
        what = f"{folder.path.name} is not a run on a testbed: `dutlab run` did not make it"
        raise InputError(what, remedy="give the command that made it again; resolved.json has it") from e
