"""Traffic for a person to look at before a measurement: it is sent until the person answers, and changes no figure."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from dutlab.errors import InputError, MeasurementError
from dutlab.methods.ports import Bench, Offer, Outcome
from dutlab.plan.cell import Cell
from dutlab.units import Pps, Seconds, si

LOOK_S = Seconds(5.0)
"""Duration of one offer; the next one follows at once."""
_STOPS = frozenset({"stop", "no", "n"})


async def send_until_confirmed(bench: Bench, cell: Cell, offer: Offer, rate: Pps) -> str:
    """Send `offer` at a steady rate until a person has looked at it, and return a sentence with the counters and the answer.

    A trial of `cell` that is repeated does not ask again.

    Raises MeasurementError if the person stops the trial, InputError without a person; also ToolFailed, HostError.
    """
    if (before := bench.seen.get(key := cell.model_dump_json())) is not None:
        return f"a person looked at the traffic before an earlier attempt and answered: {before}"
    if bench.ask is None:
        raise InputError("verify_traffic needs a person who looks at the traffic", remedy="leave verify_traffic out")
    generator = bench.plain or bench.generator
    steady = replace(offer, profile=(), rate=rate, duration=LOOK_S)
    counted = _words(await generator.offer(steady))
    ends = "`stop` ends the trial, any other word begins the ramp"
    answer = asyncio.ensure_future(bench.ask(f"{si(rate, 'pps')} are sent each way ({counted}), and go on while you look at them; {ends}"))
    try:
        while not answer.done():
            counted = _words(await generator.offer(steady))
            await asyncio.sleep(0)  # the answer is also taken if the generator never waits
        reply = answer.result()
    finally:
        answer.cancel()
        with suppress(asyncio.CancelledError, InputError):
            await answer
    if reply.strip().lower() in _STOPS:
        raise MeasurementError(f"stopped by the person who looked at the traffic before the ramp ({counted})")
    bench.seen[key] = reply
    return f"a person looked at the traffic before the ramp ({counted}) and answered: {reply}"


def _words(outcome: Outcome) -> str:
    """Return the counters of the last offer."""
    return "; ".join(f"{f.link}: {f.sent_frames} frames sent, {f.received_frames} received, {f.lost_frames} lost" for f in outcome.flows)
