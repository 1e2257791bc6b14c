"""One trial: read counters, watch, warm up, measure, drain, read counters again, record."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import fmean
from types import MappingProxyType
from typing import Literal

from dutlab.by_path import named
from dutlab.doubts import Doubt, DoubtKind
from dutlab.dut.mode import Check
from dutlab.errors import LinkUnsteady, MachineTooBusy, MeasurementError
from dutlab.events import Tell, no_observer
from dutlab.hosts.local import THIS_MACHINE, LocalHost
from dutlab.measures import measure_unit
from dutlab.methods.dut_ports import SensedValue
from dutlab.methods.ports import Measured
from dutlab.physics.interference import Interference
from dutlab.plan.cell import Cell
from dutlab.plan.plan import Trial
from dutlab.runner.command_book import CommandBook
from dutlab.runner.guest_watch import Loss
from dutlab.runner.headroom import with_headroom
from dutlab.runner.levels import program_names, started_by
from dutlab.runner.limit_profile import with_profile
from dutlab.runner.records import TrialOutput
from dutlab.runner.stage import Stage
from dutlab.sensors.cpu_account import forwarding_names
from dutlab.sensors.sensor import POWER_LIMITED, THROTTLED, WATCH_COST, Sample, Sensor, SensorSite, Watched
from dutlab.sensors.totals import CounterTotals, CpuTotals, ProgramTotals
from dutlab.sensors.watch import Watch, make
from dutlab.spec.sensors import SENSORS
from dutlab.store.details import TrialDetails
from dutlab.store.judged import DISTURBED
from dutlab.store.record import DoubtRecord, TrialRecord, above_line_doubts, measured_fields
from dutlab.subject import Figures
from dutlab.systems.sample_names import DEVICE_FRAMES, STEAL, core_of, poll_cycle_shares
from dutlab.systems.watched import CARRIER_CHANGES
from dutlab.workload_plug import LoadPattern
from dutlab.workloads import plug_of

STEAL_DOUBT_PERCENT = 1.0
WATCH_DOUBT_PERCENT = 1.0
"""Stolen CPU time (mean over trial and cores) and CPU time of sensors (mean over trial, of one core) above which a record has a doubt."""
CLOCK_STEP_S = 0.1
_SLEW = 1e-3
"""Difference of clocks, as a share of a trial's duration, that counts as a step: twice the kernel's greatest slew (adjtimex(2))."""


async def carry_out(
    stage: Stage,
    trial: Trial,
    checks: Sequence[Check],
    book: CommandBook,
    *,
    watch: Sequence[str],
    profile: bool = False,
    tell: Tell = no_observer,
) -> TrialOutput:
    """Measure one trial in the applied mode. `profile` also profiles the DUT at a limit that was found.

    A tool that fails makes a record with status `failed`.

    Raises HostError if a host no longer answers; the trial then has no record. If it is a guest, the trial is repeated after
    the guest was started again (guest_watch.py), else by `dutlab resume`.
    """
    started, began = datetime.now(UTC), time.monotonic()
    measured, why, without = Measured(figures={}), "", "failed"
    async with Watch(sensors_of(stage, watch, book), stage.readings.listening(tell)) as sensors:
        stage.readings.begin(sensors.began_s)
        try:
            measured = with_headroom(await stage.drivers[trial.cell.workload](trial.cell), trial.cell, stage.calibration)
        except MeasurementError as e:
            measured, why = Measured(figures={}, raw=e.raw), str(e)
            if isinstance(e, MachineTooBusy):
                kind = DoubtKind.LINK_WENT_DOWN if isinstance(e, LinkUnsteady) else DoubtKind.DISTURBED
                without, measured = DISTURBED, replace(measured, doubts=(Doubt(kind, why),))
    if profile and not why and plug_of(trial.cell.workload).finds_limit:
        measured = await with_profile(measured, trial.cell, SensorSite(stage.dut, stage.watch_cpu), stage.accounts, tell)
    watched, zero_s = sensors.watched, started.timestamp() + sensors.began_s - began
    samples = [*watched.samples, *_of_tool(measured, trial, zero_s)]
    if not why and (path := plug_of(trial.cell.workload).readings):
        read = [SensedValue(s.t_s, s.host, s.sensor, s.name, s.unit, s.value) for s in samples]
        measured = named(path)(measured, trial.cell, read, stage.testbed.sensors)
    counted = watched.counters.get(stage.testbed.dut or "", {})
    if (shares := _shares_with_frames(stage, counted)) is not None:
        names = (*forwarding_names(stage.testbed), *program_names(stage.device.mode))
        forwarded = max(counted.get(FORWARDED, 0.0), counted.get(DEVICE_FRAMES, 0.0))
        measured = with_rate_per_cpu_second(measured, trial.cell, watched.interference, names, forwarded, shares=shares)
    took, killed = timedelta(seconds=time.monotonic() - began), book.killed
    clock = _clock_set(datetime.now(UTC) - started, took)
    undisturbed = plug_of(trial.cell.workload).undisturbed
    unplugged = () if measured.offers and measured.offers.link_lost else tuple(_unplugged(stage, watched.counters))
    if unplugged and measured.offers is None:  # methods of offers judge each offer, and some offers take links down on purpose
        down = "; ".join(f"link {d.about} went down: {d.detail}" for d in unplugged)
        why, without = f"{why}; {down}" if why else down, DISTURBED
    around = () if undisturbed else (*stage.marks, *doubts_of(watched), *_simulated(stage), *unplugged, *clock)
    found_doubts = (*measured.doubts, *above_line_doubts(measured.figures, trial.ceilings), *around)
    record = TrialRecord(
        trial=trial.number,
        status=without if why else "measured",
        why=why,
        cell=trial.cell,
        started=started,
        ended=started + took,
        ceilings=Figures(trial.ceilings),
        doubts=[DoubtRecord.of(d) for d in dict.fromkeys(found_doubts)],
        checks=[c.to_json() for c in checks],
        counters={
            host: {name: growth for name, growth in of.items() if growth}
            for host, of in watched.counters.items()
            if not (stage.device.restarted and host == stage.dut.name)
        },
        polling=list(stage.at_rest.cores),
        interference={} if undisturbed else watched.interference,
        **measured_fields(replace(measured, facts={**stage.versions, **measured.facts})),
    )
    details = TrialDetails.of(measured.flows, book.take())
    return TrialOutput(record, {**measured.raw, **watched.raw}, samples, killed if record.status == "failed" else (), details)


def sensors_of(stage: Stage, watch: Sequence[str], book: CommandBook) -> list[Sensor]:
    """Return the sensors of every trial, of the testbed, and those in `watch`, on the DUT if commands reach it."""
    specs = list(stage.testbed.sensors.values())
    there = {(spec.kind, spec.host) for spec in specs}
    if (dut := stage.dut.name) in stage.hosts:
        specs += [SENSORS[kind](name=kind, host=dut) for kind in watch if (kind, dut) not in there]
    sensors: list[Sensor] = [CounterTotals(host) for host in stage.hosts.values()]
    sensors.append(CpuTotals(stage.accounts))
    if (mode := started_by(stage.device.mode)) is not None:
        sensors.append(ProgramTotals(stage.dut.name, partial(mode.device_counters, stage.dut)))
    for spec in specs:
        if spec.host is None or not spec.runs_there:
            site = SensorSite(LocalHost(THIS_MACHINE, book.note), core=stage.watch_cpu)
        elif spec.host in stage.hosts:
            site = SensorSite(stage.hosts[spec.host], stage.watch_cpu if spec.host == stage.dut.name else None)
        else:
            continue
        if (sensor := make(spec, site)) is not None:
            sensors.append(sensor)
    return sensors


def _shares_with_frames(stage: Stage, counted: Mapping[str, float]) -> Mapping[str, float] | None:
    """Return polling program → share of its time in which it had frames; None if a polling device does not report it."""
    if not stage.at_rest.threads:
        return {}
    shares = poll_cycle_shares(counted)
    polling = set(stage.at_rest.threads)
    return dict.fromkeys(polling, max(shares)) if shares and polling <= {*program_names(stage.device.mode)} else None


def _simulated(stage: Stage) -> list[Doubt]:
    return [Doubt(DoubtKind.SIMULATED_READINGS, detail=name) for name, spec in stage.testbed.sensors.items() if spec.simulated]


def _unplugged(stage: Stage, counters: Mapping[str, Mapping[str, float]]) -> Iterator[Doubt]:
    """Yield a doubt for each link whose ports went down or up, unless the trial did that by a power cut or by cutting a port."""
    if stage.device.restarted:
        return
    for link in stage.testbed.links.values():
        if stage.device.cut_ports & {*link.ports}:
            continue
        changes_by_port = {str(port): counters.get(port.host, {}).get(f"{port.interface}{CARRIER_CHANGES}", 0) for port in link.ports}
        if ports := [port for port, changes in changes_by_port.items() if changes]:
            yield Doubt(DoubtKind.LINK_WENT_DOWN, detail=f"{', '.join(ports)}; whose end it was is not known", about=link.name)


def _clock_set(shown: timedelta, took: timedelta) -> list[Doubt]:
    """Return a doubt if the wall clock of this machine was set: if `shown`, the trial's duration by it, differs from `took`."""
    by_s = (shown - took).total_seconds()
    if abs(by_s) <= max(CLOCK_STEP_S, _SLEW * took.total_seconds()):
        return []
    return [Doubt(DoubtKind.CLOCK_JUMPED, detail=f"this machine, by {by_s:+.3f} s")]


def _of_tool(measured: Measured, trial: Trial, zero_s: float) -> list[Sample]:
    """Return the tool's readings as samples; `zero_s` is the wall-clock time from which the sensors' samples count."""
    return [Sample(r.at_s - zero_s, r.link, trial.cell.tool, r.name, measure_unit(r.name).symbol, r.value) for r in measured.readings]


def refused(stage: Stage, checks: Sequence[Check], book: CommandBook, trial: Trial, why: str) -> TrialOutput:
    """Return the record of a trial that was not measured because its mode does not hold."""
    return _without_figures(stage, checks, book, trial, status="refused", why=why)


def lost_with(stage: Stage, book: CommandBook, losses: Sequence[Loss], trial: Trial, why: str) -> TrialOutput:
    """Return the record of a trial without a result because hosts were lost; their consoles are its raw files."""
    output = _without_figures(stage, (), book, trial, status="failed", why=why)
    return replace(output, raw={f"console-{loss.host}.txt": loss.console for loss in losses})


def _without_figures(
    stage: Stage, checks: Sequence[Check], book: CommandBook, trial: Trial, *, status: Literal["refused", "failed"], why: str
) -> TrialOutput:
    now = datetime.now(UTC)
    record = TrialRecord(
        trial=trial.number,
        status=status,
        why=why,
        cell=trial.cell,
        started=now,
        ended=now,
        figures=Figures(),
        doubts=[DoubtRecord.of(d) for d in stage.marks],
        checks=[c.to_json() for c in checks],
        tool_facts=dict(stage.versions),
    )
    return TrialOutput(record, {}, [], details=TrialDetails.of((), book.take()))


_SLOWED = {THROTTLED: DoubtKind.THROTTLED, POWER_LIMITED: DoubtKind.POWER_LIMITED}


def doubts_of(watched: Watched) -> list[Doubt]:
    """Return the doubts from sensors: stolen CPU time, throttling, the cost of watching, and missing readings."""
    cost, steal = defaultdict[tuple[str, str], list[float]](list), list[float]()
    slowed = {name: defaultdict[str, float](float) for name in _SLOWED}
    for s in watched.samples:
        if s.name == WATCH_COST:
            cost[s.host, s.sensor].append(s.value)
        elif (of := core_of(s.name)) is not None and of[1] == STEAL:
            steal.append(s.value)
        elif s.name in slowed:
            slowed[s.name][s.host] += s.value
    doubts = [Doubt(DoubtKind.SENSOR_FAILED, detail=fault) for fault in watched.faults]
    of_host = defaultdict[str, float](float)
    for (host, _), taken in cost.items():
        of_host[host] += fmean(taken)
    dear = [f"{host}: {percent:.1f} % of one core on average" for host, percent in of_host.items() if percent > WATCH_DOUBT_PERCENT]
    if dear:
        doubts.append(Doubt(DoubtKind.WATCHING_COSTS, detail=", ".join(dear)))
    for name, kind in _SLOWED.items():
        doubts += [Doubt(kind, f"{host}: {count:.0f} times", host) for host, count in sorted(slowed[name].items()) if count]
    if steal and (mean := fmean(steal)) > STEAL_DOUBT_PERCENT:
        doubts.append(Doubt(DoubtKind.CPU_STOLEN, detail=f"{mean:.1f} % of the cores' time on average"))
    return doubts


PER_CPU_SECOND = {
    "received_pps": ("received_frames_per_cpu_s", "forwarded_frames_per_cpu_s", "forwarded_frames_per_work"),
    "goodput_bps": ("goodput_bits_per_cpu_s", "forwarded_bits_per_cpu_s", "forwarded_bits_per_work"),
}
"""Rate → its figures by CPU time: of all threads of the testbed, of the threads that forward, and of these at equal processor speed."""
FORWARDED = "ip_forwarded_datagrams"


def with_rate_per_cpu_second(
    measured: Measured,
    cell: Cell,
    interference: Mapping[str, Interference],
    forwarding: tuple[str, ...] = (),
    forwarded: float = 0.0,
    *,
    shares: Mapping[str, float] = MappingProxyType({}),
) -> Measured:
    """Return `measured` with the figures of PER_CPU_SECOND for all links together, where they are known.

    `forwarding` are prefixes of the names of threads that forward. `forwarded` is the growth of the DUT's packet counter over the whole
    trial, as CPU time is of the whole trial; a path that bypasses the counter, as a flow table does, makes it too low. `shares` is thread →
    share of its time spent on frames, since a polling thread uses all its time at any load.
    """
    whole = measured.figures.get(cell.link_label)
    here = interference[THIS_MACHINE] if set(interference) == {THIS_MACHINE} else None
    loaded_s = cell.setting.loaded_s
    if whole is None or here is None or plug_of(cell.workload).load is not LoadPattern.STEADY or loaded_s <= 0:
        return measured
    of_frames_s = {name: t.run_s * shares.get(name, 1.0) for name, t in here.threads.items()}
    idle_s = sum(t.run_s - of_frames_s[name] for name, t in here.threads.items())
    ran_s = (here.run_s - idle_s, sum(of for name, of in of_frames_s.items() if forwarding and name.startswith(forwarding)))
    more = {}
    counted = here.forwarding
    for rate, (of_all, of_forwarding, at_equal_speed) in PER_CPU_SECOND.items():
        if rate in whole and ran_s[0] > 0:
            more[of_all] = whole[rate] * loaded_s / ran_s[0]
        if rate in whole and ran_s[1] > 0:
            passed = whole[rate] * loaded_s
            passed = max(passed, forwarded) if rate == "received_pps" else passed
            more[of_forwarding] = passed / ran_s[1]
            if counted and counted.fixed_work_s is not None:
                more[at_equal_speed] = more[of_forwarding] * counted.fixed_work_s
            if rate == "received_pps" and passed and counted and counted.instructions is not None and counted.cycles is not None:
                more |= {"instructions_per_frame": counted.instructions / passed, "cycles_per_frame": counted.cycles / passed}
    return replace(measured, figures={**measured.figures, cell.link_label: {**whole, **more}})
