"""What is around a trial: the wall time of an offer of frames ÷ the time that was asked for it.

ROUNDS=9 unless told otherwise. In the lab `two-port`, the engine offers 1,000 frames a second of 64 bytes through the box for 1 s, with a
warm-up of 0.5 s and a drain of 0.2 s: so much has to be waited, whatever else is done. Overhead is the rest: ports opened and given back,
programs loaded, counters read, agents asked. The first trial, which loads what later ones find loaded, is shown apart. Needs root.
"""

from __future__ import annotations

import asyncio
import os
import time
from statistics import median

from dutlab import labs
from dutlab.methods.ports import Offer
from dutlab.spec.mixes import frame_mix
from dutlab.tools.engine.binary import find_engine
from dutlab.tools.engine.engine import Engine
from dutlab.units import Pps, Seconds

ROUNDS = int(os.environ.get("ROUNDS", "9"))
OFFER = Offer(("a",), frame_mix(64), Pps(1000.0), duration=Seconds(1.0), warmup=Seconds(0.5), drain=Seconds(0.2))
ASKED_S = OFFER.warmup + OFFER.duration + OFFER.drain


async def walls_s() -> list[float]:
    """Of each trial in turn, the first with fresh agents."""
    label = labs.new_label()
    lab = await labs.up("two-port", label=label)
    try:
        hosts = lab.hosts()
        engine = Engine(hosts, lab.testbed, lab.cpus, str(find_engine()))
        try:
            return [await wall_s(engine) for _ in range(ROUNDS + 1)]
        finally:
            await engine.close()
            for host in hosts.values():
                await host.close()
    finally:
        await labs.down(label)


async def wall_s(engine: Engine) -> float:
    """Of one trial. A trial that lost its frames measured something else."""
    began = time.perf_counter()
    outcome = await engine.offer(OFFER)
    took = time.perf_counter() - began
    (flow,) = outcome.flows
    if flow.received_frames < flow.sent_frames / 2:
        raise RuntimeError(f"{flow.received_frames} of {flow.sent_frames} frames came through the box")
    return took


def main() -> None:
    first, *later = asyncio.run(walls_s())
    load, *_ = os.getloadavg()
    print(
        f"{ASKED_S:g} s asked for, {ROUNDS} trials: wall ÷ asked {median(later) / ASKED_S:.2f} (median), "
        f"{min(later) / ASKED_S:.2f} to {max(later) / ASKED_S:.2f}; overhead {median(later) - ASKED_S:.2f} s a trial, "
        f"of the first {first - ASKED_S:.2f} s (load average {load:.1f})"
    )


if __name__ == "__main__":
    main()
