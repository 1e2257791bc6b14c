"""Generator `ipgen` of IIJ: a script (-S) makes it warm up, rest, clear its counters, send and drain; its log (-L) has a line a second.

Faults of ipgen that are corrected (ipgen_log): its sizes are of layer 3, a latency of a second or more is wrong, and its own loss misses
frames lost at the end. So loss here is sent less received at the end of the drain. A script counts in whole seconds.

ipgen writes a log line at the end of each second of its clock, not at the end of a step of the script. So the script drains for one
interval more than requested, and the account is that of the last interval in which nothing moved. It is a doubt if counters moved to the
end, if fewer frames were sent than asked, or if more frames arrived than were sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dutlab.bounds import OUTPUT_BYTES
from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import ToolFailed
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import negative_loss, starved
from dutlab.methods.ports import Offer, Outcome, ToolReading
from dutlab.spec.generators import GeneratorModel
from dutlab.spec.generators.ipgen import L2_BYTES, SHORTEST_PACKET, FrameWork, IpgenModel
from dutlab.spec.links import Link
from dutlab.spec.mixes import sizes_in_words
from dutlab.tools.engine.directions import directions_of
from dutlab.tools.engine.load import Direction
from dutlab.tools.generator_tool import GeneratorSite, GeneratorTool, both_ends, require_sent_frames
from dutlab.tools.generators.ipgen_benchmark import TOOL, BenchmarkRun, run_benchmark, version_of
from dutlab.tools.generators.ipgen_log import IpgenSecond, parse_log
from dutlab.units import Seconds

UNREACHED_PPS = 148_809_524
"""Rate of the shortest frames at 100 Gb/s: ipgen's own default for a port of unknown speed (gen.c, main)."""
LINKS_UP_S = 60.0
"""Time limit for both links to go down and up again as ipgen takes the ports."""
BENCHMARK_S = 3
# Script and log are in a folder that is removed when the command ends. The log goes to standard output, ipgen's output to standard error.
_RUN = (
    'd=$(mktemp -d) && trap \'rm -rf "$d"\' EXIT && cat >"$d/script" && "$@" -S "$d/script" -L "$d/log" >&2; '
    's=$?; cat "$d/log" 2>/dev/null; exit $s'
)


def make(model: GeneratorModel, place: GeneratorSite) -> GeneratorTool:
    """Make the generator; tools.generators.registry calls this."""
    assert isinstance(model, IpgenModel)  # noqa: S101 -- the registry's key
    return Ipgen(model, place)


class Ipgen:
    """Generator `ipgen`, a tools.generator_tool.GeneratorTool."""

    def __init__(self, model: IpgenModel, place: GeneratorSite) -> None:
        self._model, self._place = model, place
        self._facts: dict[str, str] = {}

    async def check(self) -> str:
        """Return its version, and run its benchmark if requested. Raises ToolMissing, ToolFailed, HostError."""
        host = await both_ends(self._place, tool=TOOL)
        version = await version_of(host, self._model.program)
        self._facts = {"ipgen_version": version}
        if self._model.benchmark:
            cores = self._place.cores(self._model, self._place.senders[0]) or (0,)
            work = list(FrameWork)[self._model.benchmark - 1]
            run = BenchmarkRun(self._model.program, work, SHORTEST_PACKET + L2_BYTES, BENCHMARK_S)
            processes, _ = await run_benchmark(host, run, cores)
            self._facts[f"ipgen_{work.letters}_pps"] = ", ".join(f"core {c}: {m.pps:.0f}" for c, m in zip(cores, processes, strict=True))
        return version

    async def close(self) -> None:
        """Do nothing: no process runs between trials."""

    async def offer(self, offer: Offer) -> Outcome:
        """Carry out a trial. Raises ToolFailed, HostError."""
        (direction,) = await directions_of(self._place.hosts, self._place.testbed, offer)
        ((size, _),) = offer.mix.parts  # spec.generators allows one size only
        script, seconds = script_of(offer, size)
        argv = [self._model.program, "--nocurses", *ends_of(self._place.testbed.links[direction.link])]
        host = self._place.hosts[self._place.senders[0]]
        done = await host.run(
            ["sh", "-c", _RUN, "ipgen", *argv], stdin=script.encode(), timeout_s=seconds + LINKS_UP_S, check=False, most_bytes=OUTPUT_BYTES
        )
        raw = {
            f"ipgen-{direction.name}.jsonl": done.stdout,
            f"ipgen-{direction.name}.txt": done.stderr,
            f"ipgen-{direction.name}.script": script.encode(),
        }
        log, faults = parse_log(done.text)
        if not log:
            why = f"a log that cannot be read: {faults[0]}" if faults else f"an empty log: {done.reason}"
            raise ToolFailed(f"ended with {done.status} and {why}", tool=TOOL, host=host.name, raw=raw)
        measured = since_cleared(log)
        flow = flow_of(direction, measured[-1], size, offer)
        whole = replace(offer, duration=Seconds(flow.sent_seconds))
        doubts = [Doubt(DoubtKind.TX_STARVED, short, direction.name)] if (short := starved(whole, flow)) else []
        if moving := still_moving(measured):
            doubts.append(Doubt(DoubtKind.TOOL_INCOMPLETE, moving, direction.name))
        asked = None if offer.rate is None else flow.intended_frames
        require_sent_frames(flow.sent_frames, asked=asked, tool=TOOL, host=host.name, raw=raw)
        incomplete = [Doubt(DoubtKind.TOOL_INCOMPLETE, "; ".join(faults), direction.name)] if faults else []
        return Outcome(
            flows=(flow,),
            doubts=(*incomplete, *doubts, *negative_loss(flow)),
            raw=raw,
            facts={**self._facts, **_latency(measured[-1]), "frame_sizes": sizes_in_words(offer.mix.parts)},
            readings=readings_of(direction, measured, ended_s=done.started_s + done.seconds),
        )


def script_of(offer: Offer, frame_bytes: int) -> tuple[str, int]:
    """Return the script (`seconds command size rate`), and its length in seconds. Each step takes whole seconds, at least one."""
    packet, rate = frame_bytes - L2_BYTES, UNREACHED_PPS if offer.rate is None else round(offer.rate)
    parts = [] if offer.warmup <= 0 else [(math.ceil(offer.warmup), rate), (1, 0)]
    warm = [f"{seconds} tx1 {packet} {pps}" for seconds, pps in parts]
    duration, drain = max(1, math.ceil(offer.duration)), max(1, math.ceil(offer.drain)) + 1  # an interval begins within a step
    lines = [*warm, "0 reset", f"{duration} tx1 {packet} {rate}", f"{drain} tx1 {packet} 0"]
    return "\n".join(lines) + "\n", sum(seconds for seconds, _ in parts) + duration + drain


def ends_of(link: Link) -> list[str]:
    """Return the options for its two ports, each with its gateway and its own address."""
    ends = (("-T", link.source, link.source_gateway, link.source_address), ("-R", link.sink, link.sink_gateway, link.sink_address))
    return [word for option, port, gateway, own in ends for word in (option, f"{port.interface},{gateway.ip},{own}")]


def since_cleared(log: Sequence[IpgenSecond]) -> list[IpgenSecond]:
    """Return the log lines after the counters were cleared: from the line where totals fell, or all lines."""
    fell = [n for n in range(1, len(log)) if log[n].sent < log[n - 1].sent]
    return list(log[fell[-1] :] if fell else log)


def still_moving(log: Sequence[IpgenSecond]) -> str:
    """Return a sentence about frames of ipgen that still moved in the last interval; empty if none did."""
    before, last = log[-2:] if len(log) > 1 else (None, log[-1])
    foreign = 0 if before is None else last.foreign - before.foreign
    moved = {"sent": last.offered_pps, "received": max(0, last.received_pps - foreign)}
    rates = ", ".join(f"{word} {pps} frames/s" for word, pps in moved.items() if pps)
    return f"its counters moved in its last interval: {rates}" if rates else ""


def flow_of(direction: Direction, last: IpgenSecond, size: int, offer: Offer) -> Flow:
    """Return the account at the end of the drain."""
    seconds = max(1, math.ceil(offer.duration))
    wanted = max(last.sent, 0 if offer.rate is None else round(offer.rate) * seconds)
    return Flow(
        link=direction.name,
        intended_frames=wanted,
        sent_frames=last.sent,
        refused_frames=wanted - last.sent,
        received_frames=last.received,
        lost_frames=last.lost,
        duplicated_frames=last.duplicated,
        reordered_frames=last.reordered,
        foreign_frames=last.foreign,
        sent_seconds=float(seconds),
        mean_frame_bytes=float(size),
        received_bytes=last.received * size,
    )


def readings_of(direction: Direction, log: Sequence[IpgenSecond], *, ended_s: float) -> list[ToolReading]:
    """Return the readings of a log. Its clock gives only distances between lines; the last line was logged as the process ended."""
    out = []
    for second in log:
        at_s = ended_s - (log[-1].at_s - second.at_s)
        lost = float(max(0, second.offered_pps - second.received_pps))
        for name, value in (("offered_pps", float(second.offered_pps)), ("received_pps", float(second.received_pps)), ("lost_pps", lost)):
            out.append(ToolReading(at_s, direction.name, name, value))
    return out


def _latency(last: IpgenSecond) -> dict[str, str]:
    known = {"min": last.latency_min_ns, "mean": last.latency_avg_ns, "max": last.latency_max_ns}
    return {f"ipgen_latency_{word}_ns": f"{value:.0f}" for word, value in known.items() if value is not None}
