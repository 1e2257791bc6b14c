"""Recovery of a cut run by its journal, for `dutlab undo` and as the first step of a resume."""

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
from dutlab.hosts.netns import NetnsHost
from dutlab.hosts.private_folder import remove_private_folder
from dutlab.hosts.reach import host_at, hosts_of
from dutlab.labs.state import Owner, StateFolder
from dutlab.runner.host_power import revived
from dutlab.runner.journal import (
    Entry,
    Journal,
    PendingReset,
    leased_hosts,
    left_engines,
    pending_undo,
    read_journal,
    standing_lab,
    unreset,
)
from dutlab.runner.leasing import HOSTS, leased_by
from dutlab.runner.trust import insist_on_undo
from dutlab.runner.undo import STEP_S, carry_out
from dutlab.spec.testbed import Testbed
from dutlab.store.read import reading
from dutlab.store.run_folder import RunFolder

STANDING_LAB = "standing_lab"
"""Key in resolved.json of a run on an existing lab: the lab's label."""


@dataclass(frozen=True)
class Undone:
    """Result of an undo: number of undone `changes` of the DUT and its ports, and the hosts that were freed."""

    changes: int
    freed: tuple[str, ...] = ()
    lab: str = ""
    """Label of the run's lab that was taken down now."""
    unreset: tuple[UndoStep, ...] = ()
    """Reset steps of conducted steps that were killed, if Reset was not run."""
    kept: str = ""
    """Label of the lab that is kept, since some Reset steps must run in it."""
    reset: tuple[str, ...] = ()
    """Result of each Reset step that was run, in words."""
    revived: tuple[str, ...] = ()
    """Sentence for each host that did not answer and was switched on."""


async def undo(path: Path, *, trusted: bool = False, run_reset: bool = False) -> Undone:
    """Restore the DUT of a cut run and free its hosts, without measuring. `run_reset` also runs the Reset of conducted steps.

    Raises NotOurs for commands that this user did not write, unless `trusted`; InputError if another process has the run; InUse,
    TestbedError, HostError, StoreError.
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
            left = PendingReset(left.outside, left.reached)
        if run_reset:
            outcomes = await _reset(left, own, journal) if left.steps else ()
            return replace(await put_back(folder, journal), reset=outcomes)
        return replace(await put_back(folder, journal, keep_lab=left.steps != left.outside), unreset=left.steps)
    finally:
        journal.close()


def existing_lab_of(path: Path) -> str | None:
    """Return the label of the existing lab that a run uses; None if it builds its own. Raises InputError, StoreError."""
    label = RunFolder.open(path).resolved.get(STANDING_LAB)
    return None if label is None else str(label)


def builds_lab(path: Path) -> bool:
    """Return whether a run builds an embedded lab, which needs root."""
    return testbed_in(RunFolder.open(path)).lab is not None and existing_lab_of(path) is None


async def put_back(folder: RunFolder, journal: Journal, *, keep_lab: bool = False, revive: bool = False) -> Undone:
    """Undo the changes of a run whose journal is open; `keep_lab` keeps its own lab.

    `revive` switches on hosts that do not answer, if the testbed allows it. That runs the switch commands in the run's folder,
    so the folder must be as trusted as for a resume. Raises as undo().
    """
    with reading(folder.journal):
        entries = read_journal(folder.journal)
        pending, engines, leased, own = pending_undo(entries), left_engines(entries), leased_hosts(entries), standing_lab(entries)
    if own is not None:  # all changes in the run's own lab are gone with it
        _insist_on_dead_owner(own)
        was_there = not keep_lab and await labs.down(own)
        await _remove_copies(engines)
        outside = leased if folder.resolved.get(HOSTS) else ()  # leases of conducted steps are not in the lab
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
        journal.write("lab-gone", label=existing_lab_of(folder.path))
        return Undone(0)
    async with AsyncExitStack() as done:
        await done.enter_async_context(closing(*hosts.values()))
        for _, steps in pending:  # a host that is off cannot be leased
            await carry_out([step for step in steps if step.switch], hosts)
        notes = await _revived(folder, hosts, journal) if revive else ()
        gone = {name for name, host in hosts.items() if isinstance(host, NetnsHost) and host.namespace_inode is None}
        await done.enter_async_context(leased_by({n: host for n, host in hosts.items() if n not in gone}, folder, journal))
        for application, steps in pending:
            await carry_out(steps, hosts)
            journal.write("mode-restored", application=application)
        for name, path in engines:
            await remove_private_folder(LocalHost("here") if name in gone else hosts[name], path)  # namespaces share its disk
            journal.write("engine-removed", host=name)
    return Undone(len(pending), leased, revived=notes)


async def _revived(folder: RunFolder, hosts: Mapping[str, Host], journal: Journal) -> tuple[str, ...]:
    """Switch on hosts that do not answer, and return a sentence for each. Runs of conducted steps switch none."""
    if HOSTS in folder.resolved:
        return ()
    testbed, label = testbed_in(folder), existing_lab_of(folder.path)
    if label is not None:
        testbed = (await labs.attach(label)).testbed
    return await revived(hosts, testbed, journal.write)


async def _reset(left: PendingReset, own: str | None, journal: Journal) -> tuple[str, ...]:
    """Run the Reset steps in order, and return how each ended. A failure is not an error: `killall` fails if its program has ended."""
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
    """Raise LabError if the lab's process is alive: then the run folder is a copy of one that is measuring."""
    state = StateFolder().read(label)
    if state is not None and state.owner.alive and state.owner != Owner.this_process():
        raise LabError(
            f"lab {label} is in use by process {state.owner.pid}, which runs the original of this copied run folder",
            remedy="wait for it, or end it with Ctrl-C, which takes its lab down",
        )


async def _remove_copies(engines: Sequence[tuple[str, str]]) -> None:
    """Remove engine copies of a lab's hosts, which share this machine's disk."""
    for _, path in engines:
        await remove_private_folder(LocalHost("here"), path)


async def _hosts_of(folder: RunFolder, entries: Sequence[Entry]) -> Mapping[str, Host]:
    """Return the run's hosts. Raises LabGone if the lab no longer exists or was built again, so that it has no changes of the run."""
    if (reached := folder.resolved.get(HOSTS)) is not None:
        return {name: host_at(name, ssh) for name, ssh in reached.items()}
    testbed = testbed_in(folder)
    if testbed.lab is None:
        return hosts_of(testbed)
    label = existing_lab_of(folder.path)
    if label is None:
        raise labs.LabGone("the run's own lab was taken down")
    lab = await labs.attach(label)
    if entries and datetime.fromisoformat(entries[-1]["at"]).timestamp() < lab.since_s:
        raise labs.LabGone(f"lab {label} was built again since the run was cut")
    return lab.hosts()


def testbed_in(folder: RunFolder) -> Testbed:
    """Return the testbed from the run folder; its file may have changed since. Raises InputError."""
    try:
        return Testbed.model_validate(folder.resolved["testbed"])
    except (ValidationError, KeyError) as e:
        what = f"{folder.path.name} is not a run on a testbed: `dutlab run` did not make it"
        raise InputError(what, remedy="repeat the command that made it; resolved.json has it") from e
