"""Queues of known effect before a port of a router with a kernel of its own: `dutlab verify --lab uml-truth`."""

from __future__ import annotations

from dutlab.runner.known_queues import verify
from dutlab.tools.engine.binary import find_engine


async def test_what_a_queue_drops_and_doubles_is_counted_to_the_frame(uml_router: str) -> None:
    told = []
    assert await verify(told.append, str(find_engine()), standing=uml_router, names=("counts", "overtakes")) == told
    found = {(k.method, k.figure): k for k in told}
    for known in (found["sweep", "lost_frames"], found["soak", "lost_frames"], found["sweep", "duplicated_frames"]):
        assert known.holds and known.expected > 0, known
    reordered = found["sweep", "reordered_frames"]
    assert reordered.expected > 0 and (reordered.found or 0) > 0, "on a busy machine a late frame is overtaken too, or not at all"


async def test_queues_that_tcp_fills_are_ranked_by_the_time_that_they_take(uml_router: str) -> None:
    told = []
    await verify(told.append, str(find_engine()), standing=uml_router, names=("ranks",))
    found = {(known.device, known.figure): known.found for known in told}
    assert len(found) == 5 and None not in found.values(), told
    fifo = found["tbf 500 ms", "latency_increase_p99_ns"]
    short = [found[name, "latency_increase_p50_ns"] for name in ("cake", "fq_codel")]
    assert max(short) < fifo / 2, "behind a queue that fills, other flows wait"
