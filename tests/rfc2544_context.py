"""What tests of the suite of RFC 2544 work with: a context on a simulated generator, and a sleep that takes no time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from cells import setting_of
from dutlab.choices import Benchmark
from dutlab.methods.dut_ports import PowerCut, ResetKind
from dutlab.methods.ports import Outcome
from dutlab.methods.rfc2544 import throughput
from dutlab.methods.rfc2544.context import Paced, SuiteContext
from dutlab.spec.mixes import Mix
from dutlab.units import Pps
from simulated import Dut, Simulation

MIX = Mix(name="64", parts=((64, 1),))
MAX = Pps(1_000_000.0)
SIMULATED = ("a",)


class Sleeper:
    """Notes how long it was told to sleep, and does not."""

    def __init__(self):
        self.slept = []

    async def __call__(self, seconds):
        self.slept.append(seconds)


def stand(generator, *, maximum=MAX, device=None, power=None, sleep=None, **asked):
    wanted = setting_of("rfc2544", **{"frame_size": MIX, "tests": tuple(Benchmark), "burst_repeats": 3, "latency_repeats": 4, **asked})
    return SuiteContext(
        SIMULATED,
        wanted,
        Paced(generator, wanted.seconds(5.0), sleep or Sleeper()),
        maximum,
        throughput.LINE_RATE,
        device=device,
        power=power,
    )


class Resetting:
    """A device that is out of service for `out_s` when it is reset, and a generator that sees it."""

    resets = (ResetKind.PROCESS, ResetKind.SOFTWARE)
    reach_pps = 1e12

    def __init__(self, **out_s):
        self.out_s, self.kinds, self.was_reset, self.cuts = out_s, [], asyncio.Event(), []

    async def reset(self, kind):
        self.kinds.append(kind)
        self.was_reset.set()
        return 0.25

    async def cut(self, off, *, loaded):
        self.cuts.append((off, loaded))
        self.kinds.append("power")
        self.was_reset.set()
        return PowerCut(off_s=off, off_command_s=0.5, back_s=90.0, mode_s=0.5)

    async def offer(self, offer):
        self.was_reset.clear()
        offer.begun()
        await self.was_reset.wait()
        outcome = await Simulation(Dut(1e9), reach_pps=self.reach_pps).offer(offer)
        kind = self.kinds[-1]
        lost = round(offer.rate * min(self.out_s[getattr(kind, "value", kind)], offer.duration - 15))
        return Outcome(tuple(replace(f, lost_frames=lost, received_frames=f.sent_frames - lost) for f in outcome.flows))
