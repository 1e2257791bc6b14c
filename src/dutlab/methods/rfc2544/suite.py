"""Method `rfc2544`: the tests of RFC 2544 section 26 for one frame size, in order, because each uses the throughput of the first test.

Figures are of all directions together, under the cell's link label: throughput_pps, throughput_bps_l1, throughput_share_ratio (of the
highest rate), max_pps; latency_*_ns; loss_at_max_ratio; burst_*_frames, buffer_implied_ns, buffer_corrected_ns; recovery_ns; reset_KIND_ns;
N%/loss_ratio (hop by hop); N/between_bursts_ns. The record's tables have the rows of each test (with rates of each direction), and
`deviations` from the text.

A test that fails does not affect the others; a note has the reason. A resumed run repeats the whole frame size.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import replace

from dutlab.choices import Benchmark
from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import MachineTooBusy, MeasurementError
from dutlab.methods.at_limit import frames_at_limit
from dutlab.methods.carrying import TrafficWrapper
from dutlab.methods.ledger import RFC2544_TRIAL_S
from dutlab.methods.ports import Bench, Measured, Table
from dutlab.methods.rfc2544 import back_to_back, bursty, frame_loss, latency, recovery, reset, throughput
from dutlab.methods.rfc2544.context import RESTABILISE_S, Paced, Rfc2544Result, Sleep, SuiteContext
from dutlab.methods.rfc2544.deviations import deviations
from dutlab.methods.rfc2544.modifiers import modifiers_of
from dutlab.methods.rfc2544.networks import networks_of
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.rfc2544 import Rfc2544Setting
from dutlab.units import Pps, line_rate


async def measure(bench: Bench, cell: Cell, *, sleep: Sleep = asyncio.sleep) -> Measured:
    """Run the cell's tests. Raises InputError, HostError; MeasurementError if no test has a result."""
    setting = cell.setting_as(Rfc2544Setting)
    modifiers = modifiers_of(bench, cell.links[0], setting.modifiers, setting.scale)
    networks = await networks_of(bench, cell.links, setting)
    paced = Paced(TrafficWrapper(bench.generator, setting.traffic, networks.traffic_of), setting.seconds(RESTABILISE_S), sleep, modifiers)
    speeds = [bench.speeds.get(link) for link in cell.links]
    known = [speed for speed in speeds if speed is not None]
    line_known = len(known) == len(speeds)
    stand = SuiteContext(
        cell.links, setting, paced, Pps(0.0), throughput.LINE_RATE, device=bench.device, power=bench.power, tell=bench.tell
    )
    highest, words = (line_rate(min(known), setting.frame_size.mean), throughput.LINE_RATE) if line_known else await throughput.reach(stand)
    stand = replace(stand, maximum=Pps(highest / (1 + modifiers.broadcast_ratio)), maximum_is=words)
    results, notes = await _in_order(stand)
    if not results:
        raise MeasurementError("no test has a result: " + "; ".join(notes), raw=dict(paced.raw))
    addresses = [address for link in cell.links for address in bench.addresses.get(link, ())]
    sentences = deviations(setting, cell.links, maximum_is=words, addresses=addresses, power_is_cut=bench.power is not None)
    tables: dict[str, Table] = {test.value.replace("-", "_"): result.rows for test, result in results.items()}
    if setting.modifiers:
        tables["modifiers"] = modifiers.rows()
    tables["arrivals"] = [paced.arrivals]
    if networks.rows:
        tables["networks"] = networks.rows
    tables["deviations"] = [{"text": text} for text in sentences]
    throughput_result = results.get(Benchmark.THROUGHPUT)
    lower = throughput_result.rows[0]["lower_pps"] if throughput_result else None
    load = None if lower is None else stand.load(Pps(float(lower)), throughput.goal_of(stand).final_s)
    return Measured(
        figures={cell.link_label: {name: value for result in results.values() for name, value in result.figures.items()}},
        doubts=(*paced.doubts, *(doubt for result in results.values() for doubt in result.doubts), *_short(setting)),
        raw=dict(paced.raw),
        facts=paced.facts,
        notes=[*networks.notes, *notes, *(note for result in results.values() for note in result.notes), *modifiers.notes()],
        tables=tables,
        at_limit=None if load is None else frames_at_limit(paced, load),
    )


async def _in_order(stand: SuiteContext) -> tuple[dict[Benchmark, Rfc2544Result], list[str]]:
    """Return the result of each test that could be run, and why others could not."""
    results, notes = dict[Benchmark, Rfc2544Result](), list[str]()
    for test in stand.setting.tests:
        work = _work(test, stand)
        if work is None:
            notes.append(f"{test.value} needs the throughput, and none was found")
            continue
        try:
            results[test] = await work
        except MachineTooBusy:
            raise  # about the machine, not about this test
        except MeasurementError as e:
            notes.append(f"{test.value}: {e}")
            continue
        if test is Benchmark.THROUGHPUT and (rate := results[test].rows[0]["lower_pps"]) is not None:
            stand = replace(stand, throughput=Pps(float(rate)))
    return results, notes


def _work(test: Benchmark, stand: SuiteContext) -> Awaitable[Rfc2544Result] | None:
    """Return the test's measurement; None if it needs a throughput and there is none."""
    if test is Benchmark.THROUGHPUT:
        return throughput.measure(stand)
    if test is Benchmark.FRAME_LOSS:
        return frame_loss.measure(stand)
    if test is Benchmark.BURSTY:
        return bursty.measure(stand)
    if test is Benchmark.HOP_BY_HOP:
        return frame_loss.hop_by_hop(stand)
    if stand.throughput is None:
        return None
    needing = {
        Benchmark.LATENCY: latency.measure,
        Benchmark.BACK_TO_BACK: back_to_back.measure,
        Benchmark.RECOVERY: recovery.measure,
        Benchmark.RESET: reset.measure,
    }
    return needing[test](stand, stand.throughput)


def _short(setting: Rfc2544Setting) -> Iterator[Doubt]:
    if (seconds := setting.seconds(RFC2544_TRIAL_S)) < RFC2544_TRIAL_S:
        yield Doubt(DoubtKind.SHORT_TRIAL, f"{seconds:g} s, at a scale of {setting.scale:g}")
