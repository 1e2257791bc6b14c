"""Traffic from a program of one's own, over a real pair of veths: rates that change, fields that vary, chains, totals, and nothing left."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from capability import need_engine
from dutlab import engine
from dutlab.errors import HostError, InputError, PortRefused, ToolFailed
from processes import LIMIT_S

pytestmark = pytest.mark.timing

ROOT = Path(__file__).parents[2]

_numbers = itertools.count()


@pytest.fixture
def ends() -> Iterator[tuple[str, str]]:
    """Two namespaces and a cable between them: `eth-a`, 172.16.9.2, and `eth-b`, 172.16.9.3."""
    names = tuple(f"dutlab-t{os.getpid()}-api-{next(_numbers)}" for _ in "ab")
    for name in names:
        _ip("netns", "add", name)
    try:
        _ip("link", "add", "eth-a", "netns", names[0], "type", "veth", "peer", "name", "eth-b", "netns", names[1])
        for name, port, last in zip(names, ("eth-a", "eth-b"), (2, 3), strict=True):
            _ip("-n", name, "addr", "add", f"172.16.9.{last}/24", "dev", port)
            _ip("-n", name, "link", "set", port, "up")
        yield names[0], names[1]
    finally:
        for name in names:
            _ip("netns", "del", name)


def _ip(*argv: str) -> None:
    subprocess.run(["ip", *argv], check=True)


def _stream(to: engine.TrafficPort, number: int = 1, **more: object) -> dict[str, object]:
    settings = {"source": "172.16.9.2", "destination": "172.16.9.3", "destination_mac": to.mac, "rate": 1000} | more
    return engine.stream(number, **settings)


async def _until(running: engine.RunningTraffic, stream: int, received: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while (counted := (await running.counts()).get(stream)) is None or (counted.received or 0) < received:
            await asyncio.sleep(0.05)


async def test_a_program_starts_traffic_changes_its_rate_stops_it_and_has_every_frame_accounted_for(ends):
    async with engine.TrafficEngine(binary=need_engine()) as traffic:
        out = await traffic.open_port("eth-a", namespace=ends[0])
        back = await traffic.open_port("eth-b", namespace=ends[1])
        assert (out.namespace, back.addresses[0]) == (ends[0], "172.16.9.3/24")
        running = await traffic.start({out: [_stream(back, rate=200)]}, receive={back: [1]})
        await _until(running, 1, 20)
        before = (await running.counts())[1]
        await running.change_rate(1, 4000)
        await _until(running, 1, (before.received or 0) + 400)
        with pytest.raises(InputError, match=r"no port sends stream 9 \(sent: 1\)"):
            await running.change_rate(9, 1)
        await running.stop()
        (total,) = (await running.totals()).values()
        assert total.intended == total.sent + total.refused
        assert total.received == total.sent - total.lost and (total.lost, total.duplicated, total.corrupted) == (0, 0, 0)
        assert total.latency.count == total.received and sum(n for _, n in total.latency.histogram) == total.received
        # The same ports again: a trial that ends by itself, with streams that follow each other and fields that vary.
        vary = [{"field": "source_port", "values": {"step": {"from": 1024, "to": 1123}}}, {"field": "dscp", "values": {"list": [0, 46]}}]
        plan = {
            "streams": [_stream(back, 1, frames=100, vary=vary), _stream(back, 2, frames=50, size="imix", rate="max")],
            "chains": [{"steps": [{"stream": 1}, {"stream": 2, "gap_ns": 1_000_000}], "rounds": 3}],
        }
        running = await traffic.start({out: plan}, receive={back: [1, 2]})
        await running.wait()
        totals = await running.totals()
        assert {n: (t.intended, t.sent + t.refused, t.lost) for n, t in totals.items()} == {1: (300, 300, 0), 2: (150, 150, 0)}
        await traffic.close_port(out)


async def test_what_the_engine_refuses_is_an_error_in_its_words_and_the_engine_goes_on(ends):
    async with engine.TrafficEngine(binary=need_engine()) as traffic:
        with pytest.raises(HostError, match="eth-z"):
            await traffic.open_port("eth-z", namespace=ends[0])
        out = await traffic.open_port("eth-a", namespace=ends[0], backend="af_packet")
        with pytest.raises(InputError, match="no port sends anything"):
            await traffic.start({})
        probe = {"field": {"bits": {"byte": 42, "width": 8}}, "values": {"list": [1]}}
        with pytest.raises(ToolFailed, match="would overwrite the probe"):
            await traffic.start({out: [_stream(out, vary=[probe])]})
        with pytest.raises(PortRefused, match=r"8\.8\.8\.8"):
            await traffic.start({out: [_stream(out, destination="8.8.8.8")]})
        running = await traffic.start({out: [_stream(out, frames=10)]}, duration_s=5)
        await running.wait()
        (total,) = (await running.totals()).values()
        assert (total.intended, total.received, total.lost, total.receiver) == (10, None, None, None)
    with pytest.raises(InputError, match="closed"):
        await traffic.close_port(out)


async def test_traffic_ends_with_its_engine_also_when_the_program_fails(ends):
    async def program() -> None:
        async with engine.TrafficEngine(binary=need_engine()) as traffic:
            out = await traffic.open_port("eth-a", namespace=ends[0], backend="af_packet")
            await traffic.start({out: [_stream(out)]})
            raise KeyError("a fault of the program's own")

    with pytest.raises(KeyError):
        await program()


def test_the_program_of_the_page_runs_and_prints_its_account(ends):
    page = (ROOT / "docs/reference/python-engine.md").read_text()
    program = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    for name, there in zip(("source", "sink"), ends, strict=True):
        program = program.replace(f'namespace="{name}"', f'namespace="{there}"')
    env = os.environ | {"DUTLAB_ENGINE": str(need_engine())}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    sent, received, lost, p99_ns = map(int, done.stdout.split())
    assert (sent, lost) == (received, 0) and sent > 0 and p99_ns > 0
