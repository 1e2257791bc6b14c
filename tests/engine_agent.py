"""An agent that follows the protocol as a script, hosts to run it on, and what it was asked."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dutlab.errors import HostError
from dutlab.hosts.host import Done, Process
from dutlab.hosts.local import LocalHost
from dutlab.labs import description
from dutlab.methods.ports import Offer
from dutlab.spec.mixes import frame_mix
from dutlab.units import Pps, Seconds

BED = description("three-node").testbed
SCHEMA = json.loads((Path(__file__).parents[1] / "contracts" / "protocol.schema.json").read_text())

# An agent that keeps to the protocol: every frame arrives, 2 of them twice. `twist(op, request, ok)` may change, replace or withhold an answer.
AGENT = """#!{python} -IS
import json, sys, time, os
class Path(str):  # pathlib takes longer to import than all else that an agent does
    def exists(self): return os.path.exists(self)
    def touch(self): open(self, "a").close()
    def glob(self, names): return [n for n in os.listdir(self) if n.startswith(names[:-1])]
def out(line): print(line, flush=True)
def twist(op, request, ok):
    {twist}
    return ok
def answer(op, q):
    if op == "hello":
        return dict(version="0.1.0", protocol=3, monotonic_ns=5_000, realtime_ns=1_000_005_000, kernel="6.1", cpus=[0, 1])
    if op == "open":
        return dict(port=q["port"], iface=q["iface"], backend="af_packet", mac="02:00:00:00:00:02", mtu_bytes=1500, addresses=[], notes=["no GRO"])
    if op == "arm":
        plans[q["port"]] = q
        return dict(armed=q["port"], streams=[])
    if op == "start":
        return dict(at_monotonic_ns=6_000)
    if op == "clock":
        return dict(received_monotonic_ns=time.monotonic_ns() + ahead, replied_monotonic_ns=time.monotonic_ns() + ahead, realtime_ns=1)
    if op == "status":  # a tenth of the frames is lost, at 1 kpps
        t = round((time.monotonic() - born) * 1000)
        when, plan, reply = dict(monotonic_ns=t * 10**6, age_ns=0), plans[q["port"]], dict(port=q["port"])
        if "send" in plan:
            (s,) = plan["send"]["streams"]
            reply["sending"] = when | dict(streams=[dict(stream=s["stream"], sent=t, numbered=t, backpressure=0)])
        if "receive" in plan:
            (s,) = plan["receive"]["streams"]
            reply["receiving"] = when | dict(streams=[dict(stream=s, received=t - t // 10, duplicated=0, reordered=0, next_sequence=t,
                latency_count=t, latency_sum_ns=t * 50)])
        return reply
    if op == "wait":
        send = plans[q["port"]]["send"]
        (s,) = send["streams"]
        seconds = send["duration_ns"] / 1e9 if "duration_ns" in send else s["frames"] / s["rate"]["pps"]
        n = s.get("frames") or round(s["rate"].get("pps", 1e6) * seconds)
        return dict(port=q["port"], ended="finished", streams=[dict(stream=s["stream"], intended=n, sent=n, refused=0, backpressure=0, sent_bytes=64 * n, seconds=seconds,
            achieved_pps=n / seconds, achieved_bps_l1=0.0, achieved_bps_l2=0.0, late_max_ns=0)])
    if op == "settle":
        (s,) = q["sent"]
        n = s["frames"]
        latency = dict(count=n, negative=0, min_ns=1, p50_ns=2, p90_ns=3, p99_ns=4, p999_ns=5, max_ns=6, mean_ns=2.5, histogram=[[6, n]])
        return dict(port=q["port"], foreign=0, stale=0, kernel_dropped=0, streams=[dict(stream=s["stream"], sent=n, received=n + 2, received_bytes=64 * (n + 2),
            lost=0, duplicated=2, reordered=1, reordered_at_least=1, reorder_extent_max=1, reorder_extents_unknown=0, guessed=0, corrupted=0, balances=True, latency=latency,
            sources=[dict(address="172.16.10.1", port=1)])])
    return dict()
plans, waiting, born, ahead = dict(), [], time.monotonic(), {ahead}
def heard(line, me):
    q = json.loads(line)
    op = q["op"]
    with open({log!r} + "-" + str(me), "a") as f: f.write(line)
    reply = twist(op, q, answer(op, q))
    if reply is not None:
        out(json.dumps({{"id": q["id"], **(reply if list(reply) == ["err"] else {{"ok": reply}})}}))
if __name__ == "__main__":
    for line in sys.stdin: heard(line, os.getpid())
"""
NEEDS_PROCESS = ("sys.exit", "os.kill", "time.sleep")
"""What a twist may do to a process of its own only."""


class AgentHere:
    """A hosts.host.Process: the script in this process."""

    numbers = itertools.count(2**22 + 1)

    def __init__(self, host: str, argv: Sequence[str], script: str) -> None:
        self.host_name, self.argv, self._number, self._ended = host, tuple(argv), next(self.numbers), False
        self._lines, self._of = asyncio.Queue[bytes](), dict[str, Any]()
        exec(compile(script, "agent", "exec"), self._of)
        self._of["out"] = lambda line: self._lines.put_nowait(f"{line}\n".encode())

    async def write(self, data: bytes) -> None:
        for line in data.decode().splitlines(keepends=True):
            self._of["heard"](line, self._number)

    async def readline(self) -> bytes:
        return b"" if self._ended and self._lines.empty() else await self._lines.get()

    async def close_stdin(self) -> None:
        self._ended = True
        self._lines.put_nowait(b"")

    async def end(self, grace_s: float = 2.0) -> Done:
        await self.close_stdin()
        return Done(self.host_name, self.argv, 0, b"", b"", time.time(), 0.0)


class NeighbourlyHost(LocalHost):
    """Knows the DUT's MAC without asking it."""

    boot = b"one\n"
    gone = False

    async def spawn(self, argv: Sequence[str], *, tied: bool = True) -> Process:
        script = Path(argv[0]).read_text() if Path(argv[0]).is_file() else ""
        if not script or any(word in script for word in NEEDS_PROCESS):
            return await super().spawn(argv, tied=tied)
        return AgentHere(self.name, argv, script)  # type: ignore[return-value]

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, check: bool = True, most_bytes: int = 0
    ) -> Done:
        if self.gone:
            raise HostError("network namespace is gone", host=self.name)
        said = (
            b'[{"dst":"x","lladdr":"02:00:00:00:00:01","state":["STALE"]}]'
            if argv[0] == "ip"
            else self.boot
            if "boot_id" in argv[-1]
            else b""
        )
        return Done(self.name, tuple(argv), 0, said, b"", time.time(), 0.0)


def asked(tmp_path: Path) -> list[list[dict[str, Any]]]:
    """Every request that any agent got, by agent in the order of their start."""
    return [
        [json.loads(line) for line in f.read_text().splitlines()] for f in sorted(tmp_path.glob("asked-*"), key=lambda f: f.stat().st_ctime)
    ]


def offer(*links: str, rate: float | None = 1000.0, warmup: float = 0.0, size: int | str = 64) -> Offer:
    """Two seconds on link a, or on `links`; `rate` in frames a second, None for as fast as it goes."""
    return Offer(links or ("a",), frame_mix(size), None if rate is None else Pps(rate), Seconds(2.0), Seconds(warmup), Seconds(0.1))
