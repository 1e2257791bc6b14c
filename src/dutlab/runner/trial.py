"""One trial: counters, watch, warm up, measure, drain, counters again, record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta

from dutlab.doubts import Doubt, DoubtKind
from dutlab.dut.mode import Check
from dutlab.errors import MachineTooBusy, MeasurementError
from dutlab.hosts.host import Done
from dutlab.methods.ports import Measured
from dutlab.plan.trials import Trial
from dutlab.runner.per_cpu_second import with_rate_per_cpu_second
from dutlab.runner.rig import with_headroom
from dutlab.runner.stage import DUT, Stage
from dutlab.sensors import CARRIER_CHANGES, WATCH_COST, Sample, Sampler, cpu_watch, difference, read_counters
from dutlab.store.judged import DISTURBED
from dutlab.store.record import CommandRecord, DoubtRecord, TrialRecord, above_line_doubts, found_of

STEAL_DOUBT_PERCENT = 1.0
WATCH_DOUBT_PERCENT = 1.0
"""Stolen CPU time, averaged over a trial and its cores, above which the record says so."""
CLOCK_STEP_S = 0.1
_SLEW = 1e-3
"""The kernel lets a time service slew by 500 parts in a million (adjtimex(2)); twice that is a step."""


class CommandBook:
    """Collects the commands that hosts report, for the record of the trial they were run for."""

    def __init__(self) -> None:
        self._done: list[Done] = []

    def note(self, done: Done) -> None:
        """To be given to hosts as their CommandLog."""
        self._done.append(done)

    @property
    def killed(self) -> tuple[str, ...]:
        """Programs that somebody killed since the last take(), as `source: iperf3`."""
        return tuple(dict.fromkeys(f"{d.host}: {d.argv[0]}" for d in self._done if d.was_killed))

    def take(self) -> list[CommandRecord]:
        """What has come in since the last call."""
        done, self._done = self._done, []
        return [
            CommandRecord(
                host=d.host,
                argv=list(d.argv),
                status=d.status,
                started=datetime.fromtimestamp(d.started_s, UTC),
                seconds=round(d.seconds, 6),
            )
            for d in done
        ]


@dataclass(frozen=True)
class TrialOutput:
    """A trial's whole yield, ready for the store."""

    record: TrialRecord
    raw: dict[str, bytes]
    samples: list[Sample]
    killed: tuple[str, ...] = ()
    """Programs that somebody killed meanwhile, of a trial that failed."""


async def carry_out(stage: Stage, trial: Trial, checks: Sequence[Check], book: CommandBook, *, watch: Sequence[str]) -> TrialOutput:
    """Measures one trial in the mode that is applied. A tool that failed makes a record with status `failed`.

    Raises HostError when a host vanished: such a trial has no record and is done again by `dutlab resume`.
    """
    started, began = datetime.now(UTC), time.monotonic()
    families = {name: stage.testbed.hosts[name].family for name in stage.hosts}
    before = {name: await read_counters(host, families[name]) for name, host in stage.hosts.items()}
    how = cpu_watch(families[DUT]) if "cpu" in watch and DUT in stage.hosts else None
    sampler = Sampler(stage.dut, cpu=stage.watch_cpu, watch=how) if how else None
    if sampler:
        await sampler.start()
    cpu_before = await stage.accounts.read()
    measured, why, without = Measured(figures={}), "", "failed"
    try:
        async with stage.accounts.running():
            measured = with_headroom(await stage.drivers[trial.cell.workload](trial.cell), trial.cell, stage.calibration)
    except MeasurementError as e:
        measured, why = Measured(figures={}, raw=e.raw), str(e)
        if isinstance(e, MachineTooBusy):
            without, measured = DISTURBED, replace(measured, doubts=(Doubt(DoubtKind.DISTURBED, why),))
    finally:
        samples = await sampler.stop() if sampler else []
    cpu_after = await stage.accounts.read()
    interference = {name: cpu_after[name].since(cpu_before[name]) for name in sorted(cpu_after.keys() & cpu_before.keys())}
    measured = with_rate_per_cpu_second(measured, trial.cell, interference)
    after = {name: await read_counters(host, families[name]) for name, host in stage.hosts.items()}
    counters = {name: difference(before[name], after[name]) for name in stage.hosts}
    took, killed = timedelta(seconds=time.monotonic() - began), book.killed
    clock = _clock_set(datetime.now(UTC) - started, took)
    found_doubts = (*measured.doubts, *above_line_doubts(measured, trial.ceilings))
    record = TrialRecord(
        trial=trial.number,
        status=without if why else "measured",
        why=why,
        cell=trial.cell,
        started=started,
        ended=started + took,
        ceilings=trial.ceilings,
        doubts=[
            DoubtRecord.of(d)
            for d in dict.fromkeys(
                (*found_doubts, *stage.marks, *_stolen(samples), *_watched(samples), *_unplugged(stage, counters), *clock)
            )
        ],
        checks=[asdict(c) for c in checks],
        commands=book.take(),
        counters=counters,
        interference=interference,
        **found_of(replace(measured, facts={**stage.versions, **measured.facts})),
    )
    samples = [*samples, *_of_tool(measured, trial, started)]
    return TrialOutput(record, dict(measured.raw), samples, killed if record.status == "failed" else ())


def _unplugged(stage: Stage, counters: Mapping[str, Mapping[str, float]]) -> Iterator[Doubt]:
    """One for each link whose ports went down or up meanwhile."""
    for link in stage.testbed.links.values():
        gone = {str(port): counters.get(port.host, {}).get(f"{port.interface}{CARRIER_CHANGES}", 0) for port in link.path}
        if ports := [port for port, changes in gone.items() if changes]:
            yield Doubt(DoubtKind.LINK_WENT_DOWN, detail=", ".join(ports), about=link.name)


def _clock_set(shown: timedelta, took: timedelta) -> list[Doubt]:
    """Whether this machine's wall clock went another way than time itself: by what it `shown` and what the trial `took`."""
    by_s = (shown - took).total_seconds()
    if abs(by_s) <= max(CLOCK_STEP_S, _SLEW * took.total_seconds()):
        return []
    return [Doubt(DoubtKind.CLOCK_JUMPED, detail=f"this machine, by {by_s:+.3f} s")]


def _of_tool(measured: Measured, trial: Trial, started: datetime) -> list[Sample]:
    """What the tool itself read once a second, as samples beside those of the sensors."""
    zero = started.timestamp()
    return [Sample(r.at_s - zero, r.link, trial.cell.tool, r.name, r.value) for r in measured.readings]


def refused(stage: Stage, trial: Trial, checks: Sequence[Check], book: CommandBook, why: str) -> TrialOutput:
    """The record of a trial that was not measured because its mode does not behave as one."""
    now = datetime.now(UTC)
    record = TrialRecord(
        trial=trial.number,
        status="refused",
        why=why,
        cell=trial.cell,
        started=now,
        ended=now,
        figures={},
        doubts=[DoubtRecord.of(d) for d in stage.marks],
        checks=[asdict(c) for c in checks],
        commands=book.take(),
        tool_facts=dict(stage.versions),
    )
    return TrialOutput(record, {}, [])


def _watched(samples: Sequence[Sample]) -> list[Doubt]:
    """What watching itself cost, where it is worth a word."""
    taken = [s.value for s in samples if s.name == WATCH_COST]
    mean = sum(taken) / len(taken) if taken else 0.0
    return [Doubt(DoubtKind.WATCHING_COSTS, detail=f"{mean:.1f} % of one core on average")] if mean > WATCH_DOUBT_PERCENT else []


def _stolen(samples: Sequence[Sample]) -> list[Doubt]:
    steal = [s.value for s in samples if s.name.endswith("_steal_percent")]
    mean = sum(steal) / len(steal) if steal else 0.0
    return [Doubt(DoubtKind.CPU_STOLEN, detail=f"{mean:.1f} % of the cores' time on average")] if mean > STEAL_DOUBT_PERCENT else []
