"""Two more loads at the limit that a search found: one with the DUT profiled, and one without, as a control trial.

Both come after the search, so no figure of the limit was measured under a profiler. Their order alternates between repeats, so that
after-effects of the first load fall on both. Their difference is the cost of profiling (report/sections/profile_cost.py).
"""

from __future__ import annotations

from dataclasses import replace

from dutlab.errors import MeasurementError
from dutlab.events import Tell
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.sensors.cpu_account import AccountReader
from dutlab.sensors.perf import PerfProfile
from dutlab.sensors.sensor import SensorSite
from dutlab.sensors.totals import CpuTotals
from dutlab.sensors.watch import Watch
from dutlab.spec.sensors import PerfSensor
from dutlab.store.limit_trials import AT_LIMIT, CONTROL, PROFILED, profile_file
from dutlab.systems.linux import LINUX


async def with_profile(measured: Measured, cell: Cell, site: SensorSite, accounts: AccountReader, tell: Tell) -> Measured:
    """Add stacks of the DUT, which is at `site`, at its limit, and the rows of both trials.

    If that fails, the limit remains valid, and the failure becomes a note. Raises HostError.
    """
    if measured.at_limit is None:
        return _noted(measured, "no limit was found")
    host = site.host
    if host.system.kernel != LINUX.kernel:
        return _noted(measured, f"{host.name} is not a Linux host that commands reach")
    rows, raw = list[Row](), dict[str, bytes]()
    for which in (CONTROL, PROFILED) if cell.repeat % 2 else (PROFILED, CONTROL):
        profiler = [PerfProfile(PerfSensor(name="profile", host=host.name), site)] if which == PROFILED else []
        watch = Watch([CpuTotals(accounts), *profiler], tell)
        try:
            async with watch:
                trial = await measured.at_limit()
        except MeasurementError as error:
            return _noted(measured, f"the load could not be offered again: {error}")
        if profiler and not watch.watched.raw:  # the profiler gave nothing
            return _noted(measured, "; ".join(watch.watched.faults))
        rows.append({"trial": which, **trial.row})
        raw |= {f"at-limit-{which}-{name}": data for name, data in trial.raw.items()}
        raw |= {profile_file(host.name, AT_LIMIT): data for data in watch.watched.raw.values()}
    return replace(measured, tables={**measured.tables, AT_LIMIT: rows}, raw={**measured.raw, **raw})


def _noted(measured: Measured, why: str) -> Measured:
    return replace(measured, notes=[*measured.notes, f"not profiled at its limit: {why}"])
