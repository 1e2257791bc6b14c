"""Drivers of workloads: the tool or the method of each, with its generators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from dutlab.by_path import named
from dutlab.methods.ports import Bench, Generator, Measured, Method
from dutlab.methods.undisturbed import Undisturbed
from dutlab.plan.cell import Cell
from dutlab.runner.device import JournaledDevice
from dutlab.spec.generators import GeneratorModel
from dutlab.spec.wire_form import WireForm
from dutlab.tools.engine.connections import EngineConnections
from dutlab.tools.generator_tool import GeneratorSite, GeneratorTool
from dutlab.tools.generators.registry import make
from dutlab.tools.iperf3.transfers import Iperf3Transfers
from dutlab.tools.linux_dut.flows import LinuxFlows
from dutlab.tools.linux_dut.routes import LinuxRoutes, RouteUpdates
from dutlab.tools.manager import Manager
from dutlab.workload_plug import LoadPattern, WorkloadPlug

Driver = Callable[[Cell], Awaitable[Measured]]
"""Function that carries out the workload of one trial. Raises MeasurementError, HostError."""


def bench_of(site: GeneratorSite, device: JournaledDevice) -> Bench:
    """Return the tools of methods; those for the DUT's tables exist only on Linux."""
    testbed = site.testbed
    bench = Bench(
        site.engine,
        {link.name: link.speed for link in testbed.links.values()},
        device=device,
        addresses={link.name: (link.source_address.ip, link.sink_address.ip) for link in testbed.links.values()},
        management=Manager(site.hosts, testbed),
        connections=EngineConnections(site.hosts, testbed, site.cpus, site.engine.binaries, device.announce),
        transfers=Iperf3Transfers(site.hosts, testbed, site.cpus, site.tell),
    )
    if any(link.is_transparent for link in testbed.links.values()):  # it has no address for management, and no routes
        return replace(bench, management=None, states=LinuxFlows(device.dut, device.announce) if device.dut.system.kernel_tables else None)
    if not device.dut.system.kernel_tables:
        return bench
    return replace(
        bench,
        routes=LinuxRoutes(device.dut, testbed, device.announce),
        states=LinuxFlows(device.dut, device.announce),
        updates=RouteUpdates(device.dut, testbed, device.announce),
    )


def generators_of(cells: Sequence[Cell], place: GeneratorSite) -> dict[GeneratorModel, GeneratorTool]:
    """Return every generator other than the engine that sends frames of these cells."""
    return {model: make(model, place) for model in dict.fromkeys(cell.generator for cell in cells) if model is not None}


def driver_of(
    plug: WorkloadPlug,
    bench: Bench,
    generators: Mapping[GeneratorModel, GeneratorTool],
    undisturbed: Callable[[Generator], Undisturbed],
    site: GeneratorSite,
    *,
    form: Callable[[Cell], WireForm],
) -> Driver:
    """Return the driver of a workload: its tool, or its method with each cell's generator, which repeats loads that were disturbed.

    `form` returns the form of a cell's frames.
    """

    async def by_tool(cell: Cell) -> Measured:
        tool: Callable[[GeneratorSite, Cell], Awaitable[Measured]] = named(plug.tool)
        return await tool(replace(site, form=form(cell)), cell)

    async def by_method(cell: Cell) -> Measured:
        method: Method = named(plug.method)
        plain = site.engine.through(form(cell)) if cell.generator is None else generators[cell.generator]
        generator = undisturbed(plain)
        if plug.load is not LoadPattern.SEVERAL:  # a trial of one load is repeated as a whole if it was disturbed
            generator = replace(generator, most_again=0)
        return generator.counted(await method(replace(bench, generator=generator, plain=plain, again=generator.most_again), cell))

    return by_tool if plug.tool else by_method
