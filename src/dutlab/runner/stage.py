"""The testbed made ready for trials: its hosts reached, its tools checked, one driver a workload."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from dutlab import labs
from dutlab.doubts import Doubt, DoubtKind
from dutlab.dut import family
from dutlab.dut.custom import custom_mode
from dutlab.dut.mode import Mode, SizedForFlows
from dutlab.events import Tell, nobody
from dutlab.hosts.black_box import BlackBox
from dutlab.hosts.host import CommandLog, Host
from dutlab.hosts.local import THIS_MACHINE, LocalHost
from dutlab.hosts.private_folder import new_private_folder
from dutlab.hosts.programs import all_there, insist, missing_on
from dutlab.hosts.reach import hosts_of
from dutlab.methods.ports import Bench, Generator, Measured, Method
from dutlab.methods.undisturbed import LAB_RIG_PLACES, MOST_AGAIN, RIG_PLACES, Undisturbed
from dutlab.plan.cell import Cell
from dutlab.runner.device import JournaledDevice
from dutlab.runner.journal import Journal
from dutlab.runner.needs import left_out, missing_of, needs_of
from dutlab.sensors.cpu_account import AccountReader, accounts_of
from dutlab.spec.experiment import Experiment
from dutlab.spec.generators import generator_of
from dutlab.spec.testbed import Testbed
from dutlab.store.calibration import Calibration
from dutlab.tools.engine.binary import EngineFile, engine_on
from dutlab.tools.engine.engine import Engine
from dutlab.tools.generator_tool import GeneratorSite, GeneratorTool
from dutlab.tools.generators.registry import make
from dutlab.tools.iperf3.tcp import Iperf3
from dutlab.tools.linux_dut.flows import LinuxFlows
from dutlab.tools.linux_dut.route_updates import RouteUpdates
from dutlab.tools.linux_dut.routes import LinuxRoutes
from dutlab.tools.manager import Manager
from dutlab.tools.ping import Ping
from dutlab.workloads import WORKLOADS, Load, WorkloadPlug, named

DUT = "dut"
ENDS = ("source", "sink")
"""The hosts that need the engine."""

Lease = Callable[[Mapping[str, Host]], AbstractAsyncContextManager[None]]
"""Holds the hosts for this run alone. Raises InUse."""

Driver = Callable[[Cell], Awaitable[Measured]]
"""Carries one trial's workload out. Raises MeasurementError, HostError."""


@dataclass(frozen=True)
class Stage:
    """What a trial needs. `marks` are doubts that every record of this testbed carries."""

    testbed: Testbed
    hosts: Mapping[str, Host]
    modes: Mapping[str, Mode]
    device: JournaledDevice
    """The DUT, as methods may change it inside a trial."""
    drivers: Mapping[str, Driver]
    engine: Engine
    versions: Mapping[str, str]
    watch_cpu: int | None
    accounts: AccountReader
    """What our threads and other work use of the CPUs."""
    marks: tuple[Doubt, ...] = ()
    notes: tuple[str, ...] = field(default=())
    cpus: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Role → cores for the programs that send and receive, of the DUT for its forwarding; a role that is not there is not pinned."""
    lab: labs.Lab | None = None
    """The embedded lab that this is; its rig can be measured without the DUT."""
    calibration: Calibration | None = None
    """What the rig does without the DUT, as far as it is known."""

    @property
    def dut(self) -> Host:
        """The DUT, if only to be told that there is no way into it: a black box is not among the hosts."""
        return _dut_among(self.hosts)


@dataclass(frozen=True)
class _Ground:
    """What a stage stands on: machines, or a lab."""

    testbed: Testbed
    hosts: Mapping[str, Host]
    cpus: Mapping[str, Sequence[int]]
    """Role → cores for the programs that send and receive; a role that is not there is not pinned."""
    engine: str | Mapping[str, str]
    watch_cpu: int | None = None
    marks: tuple[Doubt, ...] = ()
    notes: tuple[str, ...] = ()
    lab: labs.Lab | None = None
    """A lab whose hosts are namespaces of this machine."""
    napi_threads: tuple[int, ...] = ()
    """Kernel threads of this machine that serve its ports."""


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
    tell: Tell = nobody,
) -> AsyncIterator[Stage]:
    """The testbed as stage, with the tools that `cells` need.

    Of an embedded lab, the one labelled `standing`, or one of the run's own that is taken down at the end. Machines that others can reach
    too are leased meanwhile. Raises InUse, LabError, ToolMissing, HostError.
    """
    async with AsyncExitStack() as undo:
        if testbed.lab is None:
            hosts = await undo.enter_async_context(_closing(hosts_of(testbed, log)))
            await undo.enter_async_context(lease(hosts))
            cpus = {role: spec.cpus for role, spec in testbed.hosts.items() if spec.cpus}
            ground = _Ground(testbed, hosts, cpus, await _engines(undo, hosts, engine_binary, journal))
        else:
            if not standing:
                await _insist_on_programs(experiment, testbed.lab, cells)
            lab = await labs.attach(standing) if standing else await undo.enter_async_context(_own_lab(testbed.lab, journal))
            hosts = await undo.enter_async_context(_closing(lab.hosts(log)))
            if standing:
                await undo.enter_async_context(lease(hosts))
            engine = str(engine_binary) if lab.ssh_config is None else await _engines(undo, hosts, engine_binary, journal)
            ground = _Ground(
                lab.testbed, hosts, lab.cpus, engine, lab.watch_cpu, (Doubt(DoubtKind.EMBEDDED_LAB),), tuple(lab.notes),
                lab if lab.ssh_config is None else None, lab.napi_threads,
            )  # fmt: skip
        yield await undo.enter_async_context(_set_up(experiment, ground, journal, cells, tell))


async def _insist_on_programs(experiment: Experiment, lab: str, cells: Sequence[Cell]) -> None:
    """This machine has all programs that it takes to build the lab and to measure in it: the lab's hosts have no others.

    Raises ToolMissing, ToolsMissing.
    """
    testbed = labs.description(lab).testbed
    needs = needs_of(testbed, cells, _modes(experiment, testbed, {}, cells), {})
    insist(await missing_on(LocalHost(THIS_MACHINE), [*labs.programs(lab), *(p for of_role in needs.values() for p in of_role)]))


def _modes(experiment: Experiment, testbed: Testbed, hosts: Mapping[str, Host], cells: Sequence[Cell]) -> dict[str, Mode]:
    """The modes of the DUT's family, made for the flows of these cells, and those of the experiment file."""
    flows = max((cell.setting.flows * len(cell.links) for cell in cells), default=1)
    of_family = family(testbed.hosts[DUT].family).modes_among(hosts)
    sized = {name: mode.sized_for(flows) if isinstance(mode, SizedForFlows) else mode for name, mode in of_family.items()}
    return {**sized, **{name: custom_mode(name, spec) for name, spec in experiment.modes.items()}}


def _dut_among(hosts: Mapping[str, Host]) -> Host:
    return hosts.get(DUT) or BlackBox(DUT)


@asynccontextmanager
async def _own_lab(name: str, journal: Journal) -> AsyncIterator[labs.Lab]:
    label = labs.new_label()
    journal.write("lab-up", label=label, lab=name)
    try:
        yield await labs.up(name, label=label)
    finally:
        await labs.down(label)
        journal.write("lab-down", label=label)


@asynccontextmanager
async def _closing(hosts: Mapping[str, Host]) -> AsyncIterator[Mapping[str, Host]]:
    try:
        yield hosts
    finally:
        for host in hosts.values():
            await host.close()


async def _engines(undo: AsyncExitStack, hosts: Mapping[str, Host], binary: Path, journal: Journal) -> dict[str, str]:
    """Role → where the engine lies on that host; one host after the other, since they may share a disk."""
    engine, found = await EngineFile.read(binary), dict[str, str]()
    for role in ENDS:
        journal.write("engine-copying", host=role, path=(folder := new_private_folder()))
        undo.callback(journal.write, "engine-removed", host=role)
        found[role] = await undo.enter_async_context(engine_on(hosts[role], engine, folder))
    return found


@asynccontextmanager
async def _set_up(experiment: Experiment, ground: _Ground, journal: Journal, cells: Sequence[Cell], tell: Tell) -> AsyncIterator[Stage]:
    hosts, testbed = ground.hosts, ground.testbed
    engine = Engine(hosts, testbed, ground.cpus, ground.engine, tell=tell)
    iperf3 = Iperf3(hosts, testbed, ground.cpus)
    dut_family = family(testbed.hosts["dut"].family)
    modes = _modes(experiment, testbed, hosts, cells)
    device = JournaledDevice(_dut_among(hosts), testbed, modes, dut_family.resets, engine, journal)
    accounts = accounts_of(hosts, ground.napi_threads or None)
    bench = replace(_bench(engine, device, hosts["source"], testbed), tell=tell)
    undisturbed = partial(
        Undisturbed,
        accounts=accounts,
        most_again=MOST_AGAIN if experiment.disturbed == "repeat" else 0,
        rig_places=LAB_RIG_PLACES if ground.lab is not None else RIG_PLACES,
    )
    ping = Ping(hosts, testbed)
    site = GeneratorSite(hosts, testbed, ground.cpus, engine)
    generators = _generators(cells, site)
    checks = {"ping": ping.check, "iperf3": iperf3.check, "engine": engine.check}
    try:
        wanted = {"engine", *(cell.tool for cell in cells)}  # the engine also verifies modes
        looks = {name: check for name, check in checks.items() if name in wanted}
        looks |= {generator_of(text).kind: generator.check for text, generator in generators.items()}
        missing = await missing_of(hosts, needs_of(testbed, cells, modes, ground.cpus))
        versions = dict(zip(looks, await all_there((look() for look in looks.values()), missing), strict=True))
        yield Stage(
            testbed=testbed,
            hosts=hosts,
            modes=modes,
            device=device,
            drivers={plug.name: _driver(plug, bench, generators, undisturbed, site) for plug in WORKLOADS.values() if plug.settings},
            engine=engine,
            versions=versions,
            watch_cpu=ground.watch_cpu,
            accounts=accounts,
            marks=ground.marks,
            notes=(*ground.notes, *await left_out(hosts, testbed)),
            cpus=ground.cpus,
            lab=ground.lab,
        )
    finally:
        for generator in generators.values():
            await generator.close()
        await engine.close()


def _bench(engine: Engine, device: JournaledDevice, source: Host, testbed: Testbed) -> Bench:
    """What methods work with; the tables of the DUT are reached on Linux alone."""
    bench = Bench(
        engine,
        {link.name: link.speed for link in testbed.links.values()},
        device=device,
        addresses={link.name: (link.source_address.ip, link.sink_address.ip) for link in testbed.links.values()},
        management=Manager(source, testbed),
    )
    if not device.dut.system.kernel_tables:
        return bench
    return replace(
        bench,
        routes=LinuxRoutes(device.dut, testbed, device.announce),
        states=LinuxFlows(device.dut, device.announce),
        updates=RouteUpdates(device.dut, testbed, device.announce),
    )


def _generators(cells: Sequence[Cell], place: GeneratorSite) -> dict[str, GeneratorTool]:
    """Every generator beside the engine that sends the frames of a cell, by what the cell says of it."""
    named = {model.text(): model for cell in cells if (model := cell.generator) is not None}
    return {text: make(model, place) for text, model in named.items()}


def _driver(
    plug: WorkloadPlug,
    bench: Bench,
    generators: Mapping[str, GeneratorTool],
    undisturbed: Callable[[Generator], Undisturbed],
    site: GeneratorSite,
) -> Driver:
    """A workload's tool, or its method with the generator that each cell names; that sees outcomes that other work did not disturb."""

    async def by_tool(cell: Cell) -> Measured:
        tool: Callable[[GeneratorSite, Cell], Awaitable[Measured]] = named(plug.tool)
        return await tool(site, cell)

    async def by_method(cell: Cell) -> Measured:
        method: Method = named(plug.method)
        generator = undisturbed(bench.generator if cell.generator is None else generators[cell.generator.text()])
        if plug.load is not Load.SEVERAL:  # the trial itself is done again where its one load was disturbed
            generator = replace(generator, most_again=0)
        return generator.counted(await method(replace(bench, generator=generator), cell))

    return by_tool if plug.tool else by_method
