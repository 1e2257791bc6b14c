"""Testbed ready for trials: hosts connected, tools checked, one driver for each workload."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from dutlab import labs
from dutlab.by_path import named
from dutlab.doubts import Doubt, DoubtKind
from dutlab.dut import family
from dutlab.dut.custom import CommandMode, ProgramMode
from dutlab.dut.device_programs import DevicePrograms
from dutlab.dut.linux_exact import GuestMode
from dutlab.dut.mode import AsksKernels, Mode, OfFlows, Prober, Reset
from dutlab.dut.user_space import UserSpaceMode
from dutlab.ending import closing, ended_by
from dutlab.errors import HostError, TestbedError
from dutlab.events import Tell, no_observer
from dutlab.hosts.black_box import BlackBox
from dutlab.hosts.host import CommandLog, Host
from dutlab.hosts.local import THIS_MACHINE, LocalHost
from dutlab.hosts.private_folder import new_private_folder, private_folder
from dutlab.hosts.programs import all_there, insist, missing_on
from dutlab.hosts.reach import hosts_of
from dutlab.methods.undisturbed import LAB_RIG_PLACES, MOST_AGAIN, RIG_PLACES, Undisturbed
from dutlab.plan.cell import Cell
from dutlab.runner.at_rest import DutAtRest
from dutlab.runner.device import JournaledDevice
from dutlab.runner.drivers import Driver, bench_of, driver_of, generators_of
from dutlab.runner.guest_watch import GuestWatch
from dutlab.runner.held_links import HeldLinks
from dutlab.runner.host_power import revived
from dutlab.runner.journal import Journal
from dutlab.runner.levels import program_names
from dutlab.runner.live_readings import LiveReadings
from dutlab.runner.needs import hosts_of_drives, left_out, missing_of, needs_of
from dutlab.sensors.cpu_account import AccountReader, accounts_of, hidden_notes
from dutlab.sensors.watch import missing_for
from dutlab.spec.experiment import CustomMode, Experiment
from dutlab.spec.generators import ENGINE
from dutlab.spec.known import BLACK_BOX, EXACT, RUN_ENGINE, WITHOUT_LINKS, modes_of
from dutlab.spec.links import DUT
from dutlab.spec.testbed import Testbed
from dutlab.spec.wire_form import WireForm
from dutlab.spec.workloads import Need, model_of
from dutlab.store.calibration import Calibration
from dutlab.systems.modes import DeclaredMode
from dutlab.tools.engine.binary import EngineFile, brought_again, engine_on
from dutlab.tools.engine.engine import Engine
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.ping import Ping, ProbesByEnds
from dutlab.workloads import WORKLOADS, plug_of

Ask = Callable[[str], Awaitable[str]]
"""Asks a person, and returns the answer."""
Lease = Callable[[Mapping[str, Host]], AbstractAsyncContextManager[None]]
"""Function that holds the hosts for this run during a context. Raises InUse."""


@dataclass(frozen=True)
class Stage:
    """Everything that a trial needs. `marks` are doubts that all records of this testbed have."""

    site: GeneratorSite
    modes: Mapping[str, Mode]
    device: JournaledDevice
    """The DUT, with the changes that methods may make during a trial."""
    drivers: Mapping[str, Driver]
    prober: Prober
    """Prober that verifies modes."""
    versions: Mapping[str, str]
    accounts: AccountReader
    """CPU time of our threads and of other work."""
    guests: GuestWatch
    """Watch of the lab's hosts that have their own kernel."""
    marks: tuple[Doubt, ...] = ()
    notes: tuple[str, ...] = field(default=())
    lab: labs.Lab | None = None
    """The embedded lab of the testbed, if it is one."""
    calibration: Calibration | None = None
    """Calibration of the rig without the DUT, if known."""
    at_rest: DutAtRest = field(default_factory=DutAtRest)
    """Busy cores of the DUT without load in the applied mode, if they were measured."""
    readings: LiveReadings = field(default_factory=lambda: LiveReadings({}))
    """Readings of the sensors in the running trial."""

    @property
    def testbed(self) -> Testbed:
        """The whole testbed."""
        return self.site.testbed

    @property
    def dut_testbed(self) -> Testbed:
        """The testbed as the DUT's modes see it: only links that go through the DUT, and of these the driven ones."""
        return self.device.testbed

    @property
    def hosts(self) -> Mapping[str, Host]:
        """Name → host, for hosts that commands reach."""
        return self.site.hosts

    @property
    def shares_this_machine(self) -> bool:
        """True if a host is this machine, whose other work may disturb trials."""
        return any(isinstance(host, LocalHost) for host in self.hosts.values())

    @property
    def watch_cpu(self) -> int | None:
        """Core of the sensors; None leaves that to the kernel."""
        return None if self.lab is None else self.lab.watch_cpu

    @property
    def dut(self) -> Host:
        """The DUT. A black box is not among `hosts`: it is a host on which every command raises HostError."""
        return _dut_among(self.hosts, self.testbed)


@asynccontextmanager
async def open_stage(
    experiment: Experiment,
    testbed: Testbed,
    cells: Sequence[Cell],
    *,
    standing: str | None,
    journal: Journal,
    log: CommandLog,
    engine_binary: Path,
    lease: Lease,
    tell: Tell = no_observer,
    ask: Ask | None = None,
) -> AsyncIterator[Stage]:
    """Open the testbed as a stage with the tools that `cells` need, during the context.

    An embedded lab is the one labelled `standing`, or a new one that is taken down at the end. Machines that other users can reach are
    leased. Raises InUse, LabError, ToolMissing, HostError.
    """
    insist(list(missing_for(testbed.sensors.values())))
    async with AsyncExitStack() as undo:
        framed, lab, power_notes = framed_hosts(experiment, testbed, cells), None, tuple[str, ...]()
        if testbed.lab is None:
            hosts = hosts_of(testbed, log)
            await undo.enter_async_context(closing(*hosts.values()))
            power_notes = await revived(hosts, testbed, journal.write)
            await undo.enter_async_context(lease({} if testbed.dut_family == EXACT else hosts))  # a separate guest for each trial
            cpus: Mapping[str, Sequence[int]] = {name: spec.cpus for name, spec in testbed.hosts.items() if spec.cpus}
        else:
            if not standing:
                await _insist_on_programs(experiment, testbed.lab, cells)
            lab = await labs.attach(standing) if standing else await undo.enter_async_context(_own_lab(testbed.lab, journal))
            again = f"`dutlab lab down {standing}`, build it again with that label, then `dutlab resume`" if standing else "`dutlab resume`"
            await undo.enter_async_context(labs.naming_ended_guests(lab.label, f"{again} repeats the trial in a new guest"))
            hosts = lab.hosts(log)
            await undo.enter_async_context(closing(*hosts.values()))
            if standing:
                power_notes = await revived(hosts, lab.testbed, journal.write)
                await undo.enter_async_context(lease(hosts))
            testbed, cpus = lab.testbed.at_distances(testbed.links).model_copy(update={"sensors": testbed.sensors}), lab.cpus
        here = lab is not None and lab.ends_here
        engine, bring = (
            (dict.fromkeys(framed, str(engine_binary)), {}) if here else await _engines(undo, hosts, framed, engine_binary, journal)
        )
        guests = GuestWatch(hosts, journal, lab.looked_after if lab is not None and lab.guests else None, bring)
        backend = "auto" if lab is None else lab.backend
        declared = modes_of(testbed.dut_family, {name: mode.array for name, mode in experiment.modes.items()})
        arrays = {name: mode.array for name, mode in declared.items() if mode.array}
        site_engine = Engine(hosts, testbed, cpus, engine, backend=backend, tell=tell)
        site = GeneratorSite(
            hosts, testbed, cpus, site_engine, tell, arrays, experiment.modes, tuple(measured_part(experiment, testbed).links)
        )
        stage = await undo.enter_async_context(_set_up(experiment, site, cells, guests, lab=lab, tell=tell, ask=ask))
        yield replace(stage, notes=(*power_notes, *stage.notes))


def framed_hosts(experiment: Experiment, testbed: Testbed, cells: Sequence[Cell]) -> list[str]:
    """Return the hosts that need the engine: ends of links that a workload loads with frames or that verify a mode.

    Modes of the experiment file are verified by their own commands.
    """
    named = {name for cell in cells if Need.FRAMES in model_of(cell.workload).needs for name in cell.links}
    links = {name: testbed.links[name] for name in named}
    if any(cell.mode not in experiment.modes for cell in cells):
        links |= measured_part(experiment, testbed).links
    able = [link.ends for link in links.values() if all(testbed.hosts[end].family in RUN_ENGINE for end in link.ends)]
    return list(dict.fromkeys(end for ends in able for end in ends))


def measured_part(experiment: Experiment, testbed: Testbed) -> Testbed:
    """Return the testbed as modes see it: the links through the DUT that a workload drives, or all if none is driven."""
    through = testbed.through_dut()
    driven = {name for workload in experiment.workloads for names in workload.link_sets(testbed.links) for name in names}
    kept = {name: link for name, link in through.links.items() if name in driven}
    return through.model_copy(update={"links": kept or through.links})


async def _insist_on_programs(experiment: Experiment, lab: str, cells: Sequence[Cell]) -> None:
    """Check that this machine has all programs to build the lab and to measure in it; the lab's hosts use the same programs.

    Raises ToolMissing, ToolsMissing.
    """
    testbed = labs.description(lab).testbed
    framed = framed_hosts(experiment, testbed, cells)
    needs = needs_of(testbed, cells, _modes(experiment, testbed, {}, cells), {}, framed)
    insist(await missing_on(LocalHost(THIS_MACHINE), [*labs.programs(lab), *(p for of_role in needs.values() for p in of_role)]))


def _modes(
    experiment: Experiment, testbed: Testbed, hosts: Mapping[str, Host], cells: Sequence[Cell], cores: Sequence[int] = ()
) -> dict[str, Mode]:
    """Return the modes of the DUT's family, sized for the flows of `cells`, and of the experiment file. `cores` are the DUT's."""
    flows = max((cell.setting.flows * len(cell.links) for cell in cells), default=1)
    through = measured_part(experiment, testbed).links.values()
    source, *others = {link.source.host for link in through} or {""}
    other_end = {"source": hosts[source]} if source in hosts and not others else {}
    named = {**hosts, **other_end}
    of_family = family(testbed.dut_family if through or testbed.dut_family in WITHOUT_LINKS else BLACK_BOX).modes_among(named)
    sized = {name: mode.sized_for(flows) if isinstance(mode, OfFlows) else mode for name, mode in of_family.items()}
    if testbed.dut_family == EXACT:  # the guest's own script carries them out
        return {**sized, **{name: GuestMode(DeclaredMode(name)) for name in experiment.modes}}
    on = {name: mode.on_cores(cores) if isinstance(mode, UserSpaceMode) else mode for name, mode in sized.items()}
    return {**on, **{name: _own_mode(name, spec, named.get("source"), cores) for name, spec in experiment.modes.items()}}


def _own_mode(name: str, spec: CustomMode, source: Host | None, cores: Sequence[int]) -> CommandMode:
    if not spec.start:
        return CommandMode(name, spec, spec.frames, source)
    return ProgramMode(name, spec, spec.frames, source, programs=DevicePrograms(name, tuple(cores)))


async def _insist_on_kernels(modes: Iterable[Mode], dut: Host, testbed: Testbed) -> None:
    """Check that the DUT's kernel supports all modes. Raises HostError if it refuses one mode, TestbedError if several."""
    refused = list[HostError]()
    for mode in modes:
        if isinstance(mode, AsksKernels):
            try:
                await mode.insist(dut, testbed)
            except HostError as error:
                refused.append(error)
    if len(refused) == 1:
        raise refused[0]
    if refused:
        raise TestbedError("; ".join(error.what for error in refused), remedy=refused[0].remedy)


def _resets(testbed: Testbed) -> Mapping[str, Reset]:
    """Return the family's resets. A transparent device has none, since they remove addresses and routes, which its ports lack."""
    return {} if any(link.is_transparent for link in testbed.links.values()) else family(testbed.dut_family).resets


def _dut_among(hosts: Mapping[str, Host], testbed: Testbed) -> Host:
    name = testbed.dut or DUT
    return hosts.get(name) or BlackBox(name)


@asynccontextmanager
async def _own_lab(name: str, journal: Journal) -> AsyncIterator[labs.Lab]:
    label = labs.new_label()
    journal.write("lab-up", label=label, lab=name)

    async def down() -> None:
        await labs.down(label)
        journal.write("lab-down", label=label)

    async with ended_by(down):
        yield await labs.up(name, label=label)


async def _engines(
    undo: AsyncExitStack, hosts: Mapping[str, Host], framed: Sequence[str], binary: Path, journal: Journal
) -> tuple[dict[str, str], dict[str, Callable[[], Awaitable[None]]]]:
    """Copy the engine to hosts, one after the other, since they may share a disk.

    Return host → path of the engine, and host → function that copies it again.
    """
    if not framed:
        return {}, {}
    engine, path_by_host = await EngineFile.read(binary), dict[str, str]()
    for name in framed:
        path_by_host[name] = await undo.enter_async_context(engine_on(hosts[name], engine, _told_folder(hosts[name], name, journal)))
    return path_by_host, {name: partial(brought_again, hosts[name], engine, path) for name, path in path_by_host.items()}


@asynccontextmanager
async def _told_folder(host: Host, name: str, journal: Journal) -> AsyncIterator[str]:
    """Make a private folder on a host during the context, with entries in the journal before it exists and after it is removed."""
    journal.write("engine-copying", host=name, path=(path := new_private_folder()))
    async with private_folder(host, path, partial(journal.write, "engine-removed", host=name)):
        yield path


@asynccontextmanager
async def _set_up(
    experiment: Experiment,
    site: GeneratorSite,
    cells: Sequence[Cell],
    watch: GuestWatch,
    *,
    lab: labs.Lab | None,
    tell: Tell,
    ask: Ask | None,
) -> AsyncIterator[Stage]:
    hosts, testbed, engine = site.hosts, site.testbed, site.engine
    framed = framed_hosts(experiment, testbed, cells)
    ping = Ping(hosts, testbed)
    modes = _modes(experiment, testbed, hosts, cells, site.cpus.get(testbed.dut or DUT, ()))
    through, dut = measured_part(experiment, testbed), _dut_among(hosts, testbed)
    prober = ProbesByEnds(engine, ping, testbed, frozenset(framed))
    device = JournaledDevice(dut, through, modes, _resets(testbed), prober, watch.journal, hosts)
    site = replace(site, announce=device.announce)
    guests = lab.guests if lab is not None else frozenset[str]()
    threads = set(lab.napi_threads) if lab is not None and (lab.ends_here or guests) else set[int]()
    if lab is not None and threads:
        lab.pin_again(threads)  # an earlier run in this lab may have set ports down
        device.ports_risen = partial(lab.pin_again, threads)
    unread = {name for name in hosts_of_drives(cells) if not isinstance(hosts[name], LocalHost)}  # fio has ended when an account is read
    accounts = accounts_of(
        {name: host for name, host in hosts.items() if name not in unread | guests},
        threads if threads or guests else None,
        guests=lab.kernels if lab and guests else None,
        testbed=testbed,
        started=lambda: program_names(device.mode),
    )
    readings = LiveReadings(testbed.sensors)
    bench = replace(
        bench_of(site, device),
        tell=tell,
        ask=ask,
        readings=readings,
        power=device if device.has_power else None,
        links=HeldLinks(device, testbed, hosts) if testbed.through_dut().links else None,
    )
    undisturbed = partial(
        Undisturbed,
        accounts=accounts,
        most_again=MOST_AGAIN if experiment.disturbed == "repeat" else 0,
        rig_places=LAB_RIG_PLACES if lab is not None and lab.ends_here else RIG_PLACES,
    )
    generators = generators_of(cells, site)
    async with closing(*generators.values(), engine):
        looks: dict[str, Callable[[], Awaitable[str]]] = {ENGINE.kind: engine.check} if framed else {}  # it also verifies modes
        for cell in cells:
            if path := plug_of(cell.workload).check:
                looks[cell.tool] = partial(named(path), site, [of for of in cells if of.tool == cell.tool])
        looks |= {model.kind: generator.check for model, generator in generators.items()}
        missing = await missing_of(hosts, needs_of(testbed, cells, modes, site.cpus, framed))
        versions = dict(zip(looks, await all_there((look() for look in looks.values()), missing), strict=True))
        await _insist_on_kernels([modes[name] for name in dict.fromkeys(cell.mode for cell in cells) if name in modes], device.dut, testbed)
        yield Stage(
            site=site,
            modes=modes,
            device=device,
            drivers={
                plug.name: driver_of(plug, bench, generators, undisturbed, site, form=partial(_form, experiment))
                for plug in WORKLOADS.values()
                if plug.settings
            },
            prober=prober,
            versions=versions,
            accounts=accounts,
            guests=watch,
            marks=() if lab is None else (Doubt(DoubtKind.EMBEDDED_LAB),),
            notes=(*(() if lab is None else lab.notes), *hidden_notes(hosts), *await left_out(hosts, testbed)),
            lab=lab,
            readings=readings,
        )


def _form(experiment: Experiment, cell: Cell) -> WireForm:
    """Return the form of the cell's frames. Factors with commands of the experiment do not change it."""
    return WireForm.of({name: level for name, level in cell.factors.items() if name not in experiment.levels})
