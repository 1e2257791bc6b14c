"""Several hosts send to one port: each with a clock of its own, and one that is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

import pytest

from capability import have_engine, need
from dutlab import labs
from dutlab.doubts import DoubtKind
from dutlab.dut import family
from dutlab.errors import ToolFailed
from dutlab.hosts.netns import NetnsHost
from dutlab.methods.ports import Offer
from dutlab.spec.mixes import frame_mix
from dutlab.spec.testbed import Testbed
from dutlab.spec.traffic import Directions
from dutlab.tools.engine.binary import find_engine
from dutlab.tools.engine.engine import Engine
from dutlab.units import Pps, Seconds
from processes import LIMIT_S, programs

pytestmark = pytest.mark.timing

S = 10**9
LINKS = ("a", "b", "c", "d")
AHEAD_S = {"s1": 3600, "s2": 400 * 3600, "s3": -3}
"""The clock of s4 is that of the sink. The time in a probe begins again every 78 hours."""
TRIES = 10
"""On a busy machine the bound may be wider than a latency, which then may come out below 0."""


class Ahead(NetnsHost):
    """Its monotonic clock is ahead of the machine's, in a time namespace (time_namespaces(7))."""

    def _carry(self, argv: Sequence[str]) -> list[str]:
        return super()._carry(["unshare", "--time", f"--monotonic={AHEAD_S[self.name]}", "--fork", "--kill-child", *argv])


FanIn = Callable[..., AbstractAsyncContextManager[tuple[Engine, Testbed]]]


@pytest.fixture
def fan_in(label: str) -> FanIn:
    """The lab `fan-in` as a router, and an engine in it; the clocks of the hosts that are named are ahead by AHEAD_S."""
    need("engine", have_engine())

    @asynccontextmanager
    async def up(*ahead: str) -> AsyncIterator[tuple[Engine, Testbed]]:
        lab = await labs.up("fan-in", label=label)
        try:
            hosts = {name: Ahead(name, lab.namespaces[name]) if name in ahead else host for name, host in lab.hosts().items()}
            await family("linux").modes["router"].apply(hosts["dut"], lab.testbed)
            engine = Engine(hosts, lab.testbed, lab.cpus, str(find_engine()))
            try:
                yield engine, lab.testbed
            finally:
                await engine.close()
        finally:
            await labs.down(label)

    return up


async def test_the_latency_of_each_link_is_known_to_within_the_bound_of_its_own_two_clocks(fan_in: FanIn) -> None:
    async with fan_in(*AHEAD_S) as (engine, testbed):
        offer = Offer(LINKS, frame_mix(128), Pps(300.0), Seconds(1.0), Seconds(0.2), Seconds(0.3), directions=Directions.BOTH)
        for _ in range(TRIES):
            outcome = await engine.offer(offer)
            before = {d.about: int(d.detail.split()[0]) for d in outcome.doubts if d.kind is DoubtKind.LATENCY_UNKNOWN}
            if not before:
                break
    assert [f.link for f in outcome.flows] == list(offer.flow_names)
    assert before == {}, "frames that arrived before they were sent"
    ahead_ns = dict(zip(LINKS, (int(of.split(": ")[1]) for of in outcome.facts["sink_clock_ahead_ns"].split(", ")), strict=True))
    for flow in outcome.flows:
        assert flow.intended_frames == 300 and flow.received_frames == flow.sent_frames > 100 and flow.balances
        assert flow.latency is not None and flow.latency.count == flow.sent_frames and flow.latency_error_ns is not None
        link = flow.link.removesuffix(".back")
        made_ns = AHEAD_S.get(testbed.links[link].source.host, 0) * S
        assert abs(ahead_ns[link] + made_ns) <= flow.latency_error_ns < S, "what the clocks are apart was set here"
        assert flow.latency.p50_ns < S + flow.latency_error_ns
    errors = {f.link: f.latency_error_ns or 0 for f in outcome.flows}
    assert errors["d"] == errors["d.back"] == 0, "one clock has no error"
    assert int(outcome.facts["clock_error_ns"]) == max(errors.values()) > 0
    assert "a program in the kernel reads a clock from which this time namespace is 3600000000000 ns away" in outcome.facts["engine_ports"]


async def test_a_sender_that_is_killed_ends_the_trial_of_all_and_is_named_and_the_next_trial_has_all_four(fan_in: FanIn) -> None:
    async with fan_in() as (engine, _):
        offer = Offer(LINKS, frame_mix(128), Pps(300.0), Seconds(0.5), drain=Seconds(0.2))
        sending = asyncio.Event()
        trial = asyncio.create_task(engine.offer(replace(offer, duration=Seconds(LIMIT_S), begun=sending.set)))
        await asyncio.wait_for(sending.wait(), LIMIT_S)
        await engine._agents["s2"]._process.end(grace_s=0.0)
        with pytest.raises(ToolFailed, match="s2: dutlab-engine: ended with status -9 while it was needed"):
            await asyncio.wait_for(trial, LIMIT_S)
        assert programs() == [], "the agents of the others have ended too"
        again = await engine.offer(offer)
        assert all(f.balances and f.received_frames == f.sent_frames > 0 for f in again.flows)
