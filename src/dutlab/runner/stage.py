"""The testbed made ready for trials: its hosts reached, its tools checked, one driver a workload."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dutlab import labs
from dutlab.doubts import Doubt, DoubtKind
from dutlab.dut import family
from dutlab.dut.custom import custom_mode
from dutlab.dut.mode import Mode
from dutlab.hosts.host import CommandLog, Host
from dutlab.methods.named import METHODS, method_of
from dutlab.methods.ports import Bench, Measured
from dutlab.plan.cell import Cell
from dutlab.runner.journal import Journal
from dutlab.spec.experiment import Experiment
from dutlab.spec.testbed import Testbed
from dutlab.tools.engine import Engine
from dutlab.tools.iperf3 import Iperf3
from dutlab.tools.ping import Ping
from dutlab.tools.steps import Steps

Driver = Callable[[Cell], Awaitable[Measured]]
"""Carries one trial's workload out. Raises MeasurementError, HostError."""


@dataclass(frozen=True)
class Stage:
    """What a trial needs. `marks` are doubts that every record of this testbed carries."""

    testbed: Testbed
    hosts: Mapping[str, Host]
    modes: Mapping[str, Mode]
    drivers: Mapping[str, Driver]
    engine: Engine
    versions: Mapping[str, str]
    watch_cpu: int | None
    marks: tuple[Doubt, ...] = ()
    notes: tuple[str, ...] = field(default=())


@asynccontextmanager
async def lab_stage(
    experiment: Experiment, lab_name: str, *, standing: str | None, journal: Journal, log: CommandLog, engine_binary: Path
) -> AsyncIterator[Stage]:
    """An embedded lab as stage: the lab labelled `standing`, or one of its own that is taken down at the end.

    Raises LabError, ToolMissing, HostError.
    """
    if standing is None:
        label = labs.new_label()
        journal.write("lab-up", label=label, lab=lab_name)
        try:
            lab = await labs.up(lab_name, label=label)
            async with _stage_of(experiment, lab, log=log, engine_binary=engine_binary) as stage:
                yield stage
        finally:
            await labs.down(label)
            journal.write("lab-down", label=label)
    else:
        lab = await labs.attach(standing)
        async with _stage_of(experiment, lab, log=log, engine_binary=engine_binary) as stage:
            yield stage


@asynccontextmanager
async def _stage_of(experiment: Experiment, lab: labs.Lab, *, log: CommandLog, engine_binary: Path) -> AsyncIterator[Stage]:
    hosts = lab.hosts(log)
    engine = Engine(hosts, lab.testbed, lab.cpus, str(engine_binary))
    iperf3 = Iperf3(hosts, lab.testbed, lab.cpus)
    bench = Bench(engine, {link.name: link.speed for link in lab.testbed.links.values()})
    ping = Ping(hosts, lab.testbed)
    checks = {"ping": ping.check, "iperf3": iperf3.check, "engine": engine.check}
    try:
        wanted = {"engine", *(w.tool for w in experiment.workloads)}  # the engine also verifies modes
        versions = {name: await check() for name, check in checks.items() if name in wanted}
        dut_family = family(lab.testbed.hosts["dut"].family)
        yield Stage(
            testbed=lab.testbed,
            hosts=hosts,
            modes={**dut_family.modes, **{name: custom_mode(name, spec) for name, spec in experiment.modes.items()}},
            drivers={
                "iperf3": iperf3.measure,
                "steps": Steps(hosts).measure,
                "path-mtu": ping.path_mtu,
                "matrix": iperf3.pair,
                **{kind: _by_method(kind, bench) for kind in METHODS},
            },
            engine=engine,
            versions=versions,
            watch_cpu=lab.watch_cpu,
            marks=(Doubt(DoubtKind.EMBEDDED_LAB),),
            notes=tuple(lab.notes),
        )
    finally:
        await engine.close()
        for host in hosts.values():
            await host.close()


def _by_method(kind: str, bench: Bench) -> Driver:
    return lambda cell: method_of(kind)(bench, cell)
