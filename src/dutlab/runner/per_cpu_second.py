"""The rate per CPU second of the testbed's own threads: a figure that other work changes less than the rate.

Known where one machine does everything, as in the embedded lab. It is what came through in the time that the load was on, warm-up included,
by the CPU time of the threads that sent, forwarded and received it. It tells modes apart by what a frame costs, not by how fast it went.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dutlab.analysis.interference import Interference
from dutlab.methods.ports import Measured
from dutlab.plan.cell import Cell
from dutlab.sensors.cpu_account import THIS_MACHINE
from dutlab.workloads import LoadPattern, plug_of

PER_CPU_SECOND = {"received_pps": "received_frames_per_cpu_s", "goodput_bps": "goodput_bits_per_cpu_s"}
"""Rate → its figure by CPU time."""


def with_rate_per_cpu_second(measured: Measured, cell: Cell, found: Mapping[str, Interference]) -> Measured:
    """The same with that figure of everything that was driven together, where it is known."""
    whole = measured.figures.get(cell.link_label)
    run_s = found[THIS_MACHINE].run_s if set(found) == {THIS_MACHINE} else 0.0
    loaded_s = cell.setting.loaded_s
    if whole is None or plug_of(cell.workload).load is not LoadPattern.STEADY or run_s <= 0 or loaded_s <= 0:
        return measured
    more = {figure: whole[rate] * loaded_s / run_s for rate, figure in PER_CPU_SECOND.items() if rate in whole}
    return replace(measured, figures={**measured.figures, cell.link_label: {**whole, **more}})
