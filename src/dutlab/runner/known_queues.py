"""Methods on queues of known effect (tc-netem(8), tc-tbf(8)) at the outgoing port of a router with its own kernel.

A queue counts the frames that it dropped, duplicated and reordered; the method must count exactly as many. This holds for offers in which
ports and router dropped nothing by their own counters; on a busy machine they drop some, and the offer is repeated at half the rate.
netem does not count the frames it damages: their number must be within four standard deviations of the configured share. Delays are
those in excess of the same path without a queue.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from statistics import fmean

from dutlab import labs
from dutlab.dut.linux_state import COUNT_FORWARDED
from dutlab.ending import closing, ended_by
from dutlab.hosts.host import Host
from dutlab.hosts.netns import NetnsHost
from dutlab.methods import bloat, latency, soak
from dutlab.methods.flow import Flow
from dutlab.methods.known.case import DRAINED, LINK, Known, cell, found_by
from dutlab.methods.ports import NO_TIME, Bench, Offer, Outcome
from dutlab.methods.search import method as search
from dutlab.spec.goals import Goal
from dutlab.spec.links import DUT
from dutlab.spec.mixes import Mix, frame_mix
from dutlab.spec.workloads.bloat import BloatSetting, LoadWay
from dutlab.spec.workloads.latency import LatencySetting
from dutlab.spec.workloads.search import SearchSetting
from dutlab.spec.workloads.soak import SoakSetting
from dutlab.tools.engine.engine import Engine
from dutlab.tools.iperf3.transfers import Iperf3Transfers
from dutlab.units import FCS_BYTES, Pps, Seconds

LAB = "uml-router"
FRAME, COUNTED_PPS, COUNTED_S = frame_mix(200), Pps(1000.0), Seconds(5.0)
DELAYS_NS, JITTER_NS, DELAY_WITHIN_NS = (5_000_000, 20_000_000), 2_000_000, 100_000
LOST_PERCENT, DOUBLED_PERCENT, DAMAGED_PERCENT = 5, 10, 5
OVERTAKES, OVERTAKEN_PPS, OVERTAKEN_S = 5, Pps(30.0), Seconds(10.0)
"""Each fifth frame has no delay, the others 50 ms. With a gap of 33 ms it overtakes one frame, even if a frame is 16 ms late."""
LONG_FRAME, RATE_BPS, RATE_WITHIN = frame_mix(1000), 5_000_000, 0.01
_ROOM, _RATE_S = 20, Seconds(2.0)
"""Most frames in the queue, and duration of a trial of the search. The queue acts as a bucket of so many frames, see known.rates."""
FILLED_BPS, FILLED_NS, FILLED_WITHIN_NS = 10_000_000, (20_000_000, 100_000_000, 500_000_000), 2_000_000
RANKED_BPS, LONGEST_BYTES = 2_000_000, 1514
"""Rate in bit/s, and length of the longest frame without its FCS, as a queue counts it."""
SHORT_NS = 5_000_000
"""Target delay of CoDel (RFC 8289 section 4.4). Flows that fill no queue must not wait longer behind one that does."""
_SIGMAS = 4
_WIDTH = 0.0025
_TRIES = 6
"""Most tries of an offer, each at half the rate of the one before."""
_DROPPED = "cat /sys/class/net/{port}/statistics/{way}_dropped"
_CHANGED = "/proc/sys/net/ipv6/conf/*/disable_ipv6 /proc/sys/net/ipv4/ip_forward"
_WAS = f'for one in {_CHANGED}; do echo "echo $(cat $one) >$one"; done'
_READY = "for one in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 >$one; done; echo 1 >/proc/sys/net/ipv4/ip_forward"
"""Script that makes the DUT forward, and not send its own packets through the queue."""


@dataclass(frozen=True)
class QueuedPath:
    """Link of these queues, and the DUT's port that has them."""

    engine: Engine
    dut: Host
    port: str
    outside: Host
    """Namespace around the DUT, whose ports pass on the frames of the DUT's kernel."""
    sink: Host
    end: str
    """Port of the sink."""
    transfers: Iperf3Transfers

    @contextlib.asynccontextmanager
    async def queued(self, words: str, inner: str = "") -> AsyncIterator[None]:
        """Set the queue `words`, with `inner` in it, during the context. Raises HostError."""
        async with ended_by(lambda: self.dut.run(["tc", "qdisc", "del", "dev", self.port, "root"], check=False)):
            await self.dut.run(["tc", "qdisc", "replace", "dev", self.port, "root", "handle", "1:", *words.split()])
            if inner:
                await self.dut.run(["tc", "qdisc", "replace", "dev", self.port, "parent", "1:1", "handle", "2:", *inner.split()])
            yield

    async def counters(self) -> dict[str, int]:
        """Return the queue's counters: `packets` sent, `drops`, and `requeues` (frames that netem reordered). Raises HostError."""
        document = json.loads((await self.dut.run(["tc", "-s", "-j", "qdisc", "show", "dev", self.port, "root"])).text)
        return {name: int(document[0][name]) for name in ("packets", "drops", "requeues")}

    async def elsewhere(self) -> tuple[int, int]:
        """Return counters since start-up: datagrams forwarded by the router, frames dropped by ports after the queue. Raises HostError."""
        asked = (
            (self.dut, COUNT_FORWARDED),
            (self.dut, _DROPPED.format(port=self.port, way="tx")),
            (self.outside, _DROPPED.format(port=self.port, way="tx")),
            (self.sink, _DROPPED.format(port=self.end, way="rx")),
        )
        forwarded, *dropped = [int((await host.run(["sh", "-c", script])).text) for host, script in asked]
        return forwarded, sum(dropped)

    async def counted(self, words: str, offer: Callable[[Pps], Awaitable[Flow]]) -> tuple[Flow, dict[str, int], int]:
        """Make an offer into the queue `words` that loses nothing elsewhere.

        Return its flow, the queue's counters, and the number of frames that reached the queue. If every try loses frames elsewhere,
        return the last one. Raises ToolFailed, HostError.
        """
        for halved in range(_TRIES):
            async with self.queued(words):
                (forwarded, dropped), flow = await self.elsewhere(), await offer(Pps(COUNTED_PPS / 2**halved))
                counters, (forwarded_now, dropped_now) = await self.counters(), await self.elsewhere()
            reached = forwarded_now - forwarded
            if (reached, dropped_now) == (flow.sent_frames, dropped):
                break
        return flow, counters, reached

    async def sent(self, rate: Pps = COUNTED_PPS, duration: Seconds = COUNTED_S, frame: Mix = FRAME) -> Flow:
        """Offer one load, and return its flow. Raises ToolFailed, HostError."""
        outcome = await self.engine.offer(Offer((LINK,), frame, rate, duration))
        return outcome.flows[0]


@dataclass(frozen=True)
class KnownQueue:
    """Known queue, and its measurement."""

    name: str
    measure: Callable[[QueuedPath], Awaitable[list[Known]]]


async def verify(tell: Callable[[Known], None], binary: str, *, standing: str | None = None, names: Collection[str] = ()) -> list[Known]:
    """Measure the queues in `names`, or all of them, in a new lab or in the lab labelled `standing`; call `tell` with each figure.

    Raises LabError, ToolsMissing, ToolMissing, ToolFailed, HostError.
    """
    results = list[Known]()
    async with labs.used(LAB, standing) as lab:
        hosts = lab.hosts()
        engine = Engine(hosts, lab.testbed, lab.cpus, binary, backend=lab.backend)
        link, outside = lab.testbed.links[LINK], NetnsHost("outside", lab.namespaces[DUT])
        transfers = Iperf3Transfers(hosts, lab.testbed, lab.cpus)
        path = QueuedPath(engine, hosts[DUT], link.dut_out.interface, outside, hosts[link.sink.host], link.sink.interface, transfers)
        async with closing(engine, outside, *hosts.values()):
            was = (await path.dut.run(["sh", "-c", _WAS])).text
            async with ended_by(lambda: path.dut.run(["sh", "-c", was], check=False)):
                await path.dut.run(["sh", "-c", _READY])
                for queue in (q for q in QUEUES if not names or q.name in names):
                    for known in await queue.measure(path):
                        results.append(known)
                        tell(known)
    return results


async def _delays(path: QueuedPath) -> list[Known]:
    """Measure delays by single loads, and by the method `latency` at half and at full load."""
    bare, results = await path.sent(), list[Known]()
    base = bare.latency.p50_ns if bare.latency is not None else 0
    for delay in DELAYS_NS:
        name = f"netem delay {delay // 1_000_000} ms"
        async with path.queued(f"netem delay {delay // 1000}us limit 10000"):
            of = (await path.sent()).latency
            results.append(Known(name, "sweep", "latency_p50_ns", delay, None if of is None else of.p50_ns - base, DELAY_WITHIN_NS))
            setting = LatencySetting(
                frame_size=FRAME, rate_pps=COUNTED_PPS, shares_percent=(50.0, 100.0), idle_pps=COUNTED_PPS, duration_s=_RATE_S,
                warmup_s=NO_TIME, drain_s=DRAINED,
            )  # fmt: skip
            answers = [(figure, delay, DELAY_WITHIN_NS) for figure in ("50%/tl_ns", "100%/tl_ns")]
            results += (await found_by(latency.measure, Bench(path.engine), setting)).against(name, answers, beyond=base)
    return results


async def _jitter(path: QueuedPath) -> list[Known]:
    """Measure jitter. Delays are uniform over mean ± jitter, so the 90th percentile is the median plus 0.8 of the jitter."""
    mean, jitter = 10_000_000, JITTER_NS
    async with path.queued(f"netem delay {mean // 1000}us {jitter // 1000}us limit 10000"):
        of = (await path.sent(Pps(2 * COUNTED_PPS))).latency
    spread = None if of is None else of.p90_ns - of.p50_ns
    name = f"netem delay {mean // 1_000_000} ms ± {jitter // 1_000_000} ms"
    return [Known(name, "sweep", "latency_p90_less_p50_ns", 0.8 * jitter, spread, DELAY_WITHIN_NS)]


async def _counts(path: QueuedPath) -> list[Known]:
    async def soaked(rate: Pps) -> Flow:
        setting = SoakSetting(
            frame_size=FRAME, rate_pps=rate, share_percent=100.0, threshold_percent=0.0, duration_s=COUNTED_S, warmup_s=NO_TIME,
            drain_s=DRAINED,
        )  # fmt: skip
        return (await soak.measure(Bench(path.engine), cell(setting))).flows[0]

    results = list[Known]()
    for method, offer in (("sweep", path.sent), ("soak", soaked)):
        flow, counters, _ = await path.counted(f"netem loss {LOST_PERCENT}% limit 10000", offer)
        results.append(Known(f"netem loss {LOST_PERCENT} %", method, "lost_frames", counters["drops"], flow.lost_frames, 0))
    flow, counters, reached = await path.counted(f"netem duplicate {DOUBLED_PERCENT}% limit 10000", path.sent)
    doubled = counters["packets"] + counters["drops"] - reached
    results.append(Known(f"netem duplicate {DOUBLED_PERCENT} %", "sweep", "duplicated_frames", doubled, flow.duplicated_frames, 0))
    return results


async def _overtakes(path: QueuedPath) -> list[Known]:
    async def offer(_: Pps) -> Flow:
        return await path.sent(OVERTAKEN_PPS, OVERTAKEN_S)

    flow, counters, _ = await path.counted(f"netem delay 50ms reorder 100% gap {OVERTAKES} limit 10000", offer)
    return [Known(f"netem reorder, gap {OVERTAKES}", "sweep", "reordered_frames", counters["requeues"], flow.reordered_frames, 0)]


async def _damages(path: QueuedPath) -> list[Known]:
    """Measure damage: one wrong bit anywhere in a frame. Some bits of headers do no harm; in a long frame they are a small share."""
    async with path.queued(f"netem corrupt {DAMAGED_PERCENT}% limit 10000"):
        flow = await path.sent(frame=LONG_FRAME)
    share = DAMAGED_PERCENT / 100
    wide = _SIGMAS * (flow.sent_frames * share * (1 - share)) ** 0.5
    return [Known(f"netem corrupt {DAMAGED_PERCENT} %", "sweep", "damaged_frames", flow.sent_frames * share, flow.lost_frames, wide)]


async def _rates(path: QueuedPath) -> list[Known]:
    """Measure limited rates. A queue counts a frame without its FCS."""
    rate, results = RATE_BPS / 8 / (LONG_FRAME.mean - FCS_BYTES), list[Known]()
    for words in (f"netem rate {RATE_BPS}bit limit {_ROOM}", f"tbf rate {RATE_BPS}bit burst 2000 limit {_ROOM * 1000}"):
        async with path.queued(words):
            outcome = await path.engine.offer(Offer((LINK,), LONG_FRAME, Pps(1.5 * rate), COUNTED_S))
            results.append(Known(_rated(words), "sweep", "received_pps", rate, _steady_pps(outcome), RATE_WITHIN * rate))
    goal = Goal("ndr", 0.0, 0.0, _RATE_S, _RATE_S, _WIDTH, _RATE_S, 1)
    setting = SearchSetting(
        frame_size=LONG_FRAME, goals=(goal,), highest_pps=Pps(1.5 * rate), lowest_pps=Pps(0.5 * rate), warmup_s=NO_TIME, drain_s=DRAINED
    )
    passing = rate + _ROOM / _RATE_S
    async with path.queued(words := f"netem rate {RATE_BPS}bit limit {_ROOM}"):
        searched = await found_by(search.measure, Bench(path.engine), setting)
    return [*results, *searched.against(_rated(words), [("ndr/lower_pps", passing, RATE_WITHIN * passing)])]


def _rated(words: str) -> str:
    return f"{words.split(maxsplit=1)[0]} rate {RATE_BPS / 1e6:g} Mbit/s (L2 without FCS)"


def _steady_pps(outcome: Outcome) -> float | None:
    """Return the mean rate over all seconds but the first, in which the queue fills."""
    rates = [r.value for r in sorted(outcome.readings, key=lambda r: r.at_s) if r.name == "received_pps"][1:]
    return fmean(rates) if rates else None


async def _fills(path: QueuedPath) -> list[Known]:
    """Measure latency behind a queue that TCP fills: bytes of the queue ÷ its rate."""
    load = _load_of(streams=16, probe=COUNTED_PPS, seconds=10)
    return [known for ns in FILLED_NS for known in await _filled(path, load, FILLED_BPS, ns)]


async def _ranks(path: QueuedPath) -> list[Known]:
    """Measure queues that must not delay other flows, and a plain one, which does. Few frames are sent, since the guest is slow."""
    load, rate, ns = _load_of(streams=4, probe=Pps(100.0), seconds=6), RANKED_BPS, FILLED_NS[-1]
    results = await _filled(path, load, rate, ns)
    for name, words, inner in (("fq_codel", _fifo(rate, ns), "fq_codel"), ("cake", f"cake bandwidth {rate}bit", "")):
        async with path.queued(words, inner):
            short = await found_by(bloat.measure, Bench(path.engine, transfers=path.transfers), load)
            allowed = float(SHORT_NS + _frame_ns(rate))
            results += short.against(name, [(f"latency_increase_{p}_ns", 0.0, allowed) for p in ("p50", "p95")])
    return results


async def _filled(path: QueuedPath, load: BloatSetting, rate: int, ns: int) -> list[Known]:
    async with path.queued(_fifo(rate, ns)):
        outcome = await found_by(bloat.measure, Bench(path.engine, transfers=path.transfers), load)
    allowed = float(FILLED_WITHIN_NS + _frame_ns(rate))
    return outcome.against(f"tbf {ns // 1_000_000} ms", [("latency_increase_p99_ns", float(ns), allowed)])


def _fifo(rate: int, ns: int) -> str:
    return f"tbf rate {rate}bit burst 4000 limit {ns * rate // 8_000_000_000}"


def _frame_ns(rate: int) -> int:
    return round(LONGEST_BYTES * 8 * 1e9 / rate)


def _load_of(*, streams: int, probe: Pps, seconds: int) -> BloatSetting:
    return BloatSetting(
        load=LoadWay.UP, streams=streams, probe_pps=probe, connections_per_s=0.0, idle_s=_RATE_S, ramp_s=3, duration_s=seconds,
        settle_s=Seconds(1.0),
    )  # fmt: skip


QUEUES = (
    KnownQueue("counts", _counts),
    KnownQueue("overtakes", _overtakes),
    KnownQueue("damages", _damages),
    KnownQueue("delays", _delays),
    KnownQueue("jitter", _jitter),
    KnownQueue("rates", _rates),
    KnownQueue("fills", _fills),
    KnownQueue("ranks", _ranks),
)
