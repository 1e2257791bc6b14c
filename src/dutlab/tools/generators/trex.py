"""Generator `trex`: TRex in stateless mode, with a server of the run or one that runs already, driven by TRex's own Python client.

A small script (trex_client.py) is copied to TRex's machine and drives the client there. Counters are those of TRex's ports; they are
cleared before a trial and read after its drain, once they no longer change. TRex takes more time rather than sending fewer frames. So a
late trial is stopped and has its real length; the frames that it did not send are asked less sent. Frames that TRex's receiver missed
(`ierrors`) had reached its port: they count as received, with a doubt. Foreign frames at its ports are recognised only if they are few, as
for every generator that counts at ports.

Tested with TRex 3.08 on af_packet interfaces, with a device between them that drops every 1000th frame: at 10, 50 and 100 kpps, with frames
of 64 and of 512 bytes, the loss ratio was 0.0010 each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from dutlab.doubts import Doubt, DoubtKind
from dutlab.ending import cancelled, run_to_end
from dutlab.errors import CommandFailed, HostError, ToolFailed, ToolMissing
from dutlab.hosts.host import Done, Host, Process
from dutlab.hosts.own_time import own_timeout
from dutlab.hosts.private_folder import held_folder
from dutlab.methods.flow import Flow
from dutlab.methods.ledger import negative_loss
from dutlab.methods.ports import Offer, Outcome
from dutlab.spec.generators import GeneratorModel
from dutlab.spec.generators.trex import TrexModel
from dutlab.spec.mixes import sizes_in_words
from dutlab.tools.engine.directions import direction_of, directions_of
from dutlab.tools.engine.load import Direction
from dutlab.tools.generator_tool import GeneratorSite, GeneratorTool, both_ends, require_sent_frames
from dutlab.tools.generators.trex_words import TrexPort, config_of, streams_of
from dutlab.tools.path_counters import strangers_among
from dutlab.units import Seconds

TOOL = "trex"
STARTS_S = 60.0
"""Time limit of the server's start, which takes some ten seconds."""
REPLY_S = 40.0
"""Time limit of a reply beyond the requested time. The script itself stops a late trial and pushes out its remaining frames."""
WARMUP_DRAIN = Seconds(0.1)
_ENDS_WITH_RUN_S = 366 * 86400.0
"""Time limit of the server, longer than any run: dutlab ends it."""
_CLIENT_AT = "automation/trex_control_plane/interactive/trex"
# t-rex-64 is a script, also in a clone that was never built; the program itself is next to it under one of two names.
_LACKS = (
    f'cd "$1" 2>/dev/null || {{ echo folder; exit; }}; [ -d {_CLIENT_AT} ] || echo {_CLIENT_AT}; [ "$2" = running ] && exit 0; '
    "[ -x t-rex-64 ] || echo t-rex-64; [ -x _t-rex-64 ] || [ -x _t-rex-64-o ] || echo _t-rex-64"
)
_SERVER = 'cd "$1" && exec ./t-rex-64 -i --iom 0 --no-scapy-server --cfg "$2"'
# find_python.sh is how TRex's own tools find their Python; it sets PYTHON.
_CLIENT = 'cd "$1" || exit 1; [ ! -f find_python.sh ] || source ./find_python.sh >&2; exec "${PYTHON:-python3}" "$2"'
_SCRIPT = Path(__file__).with_name("trex_client.py")


def make(model: GeneratorModel, place: GeneratorSite) -> GeneratorTool:
    """Make the generator; tools.generators.registry calls this."""
    assert isinstance(model, TrexModel)  # noqa: S101 -- the registry's key
    return Trex(model, place)


class Trex:
    """Generator `trex`, a tools.generator_tool.GeneratorTool."""

    def __init__(self, model: TrexModel, place: GeneratorSite) -> None:
        self._model, self._place = model, place
        self._folder = AsyncExitStack()
        self._server: Process | None = None
        self._server_ended: asyncio.Future[Done] | None = None
        self._client: Client | None = None
        self._facts: dict[str, str] = {}

    async def check(self) -> str:
        """Start TRex and return the version of its server. Raises ToolMissing, ToolFailed, HostError."""
        client = await self._started()
        return str(client.hello.get("version", "not stated"))

    async def close(self) -> None:
        """End the client and a server of the run, and remove the copied files."""
        client, self._client, server, self._server, folder = self._client, None, self._server, None, self._folder.pop_all()
        if client is not None:
            await client.close()
        if server is not None:
            await server.end(grace_s=10.0)
        if self._server_ended is not None:
            await asyncio.gather(self._server_ended, return_exceptions=True)
            self._server_ended = None
        await folder.aclose()

    async def offer(self, offer: Offer) -> Outcome:
        """Carry out a trial. Raises ToolFailed, ToolMissing, HostError."""
        client = await self._started()
        directions = await directions_of(self._place.hosts, self._place.testbed, offer)
        asked = {"mult": self._mult(offer), "directions": [await self._asked(direction, offer) for direction in directions]}
        if offer.warmup > 0:
            await client.offer(asked, offer.warmup, WARMUP_DRAIN)
        reply = await client.offer(asked, offer.duration, offer.drain)
        raw = {"trex-client.jsonl": client.take_lines()}
        flows = [self._flow(direction, offer, reply, raw) for direction in directions]
        facts = {name: str(reply[name]) for name in ("queue_full", "cpu_percent") if reply.get(name) is not None}
        facts |= {"stopped_late_after_s": f"{reply['seconds']:.3f}"} if reply.get("late") else {}
        return Outcome(
            flows=tuple(flows),
            doubts=(
                *(Doubt(DoubtKind.COUNTED_BY_PORTS, f"TRex's ports of link {direction.link}", direction.name) for direction in directions),
                *(d for flow in flows for d in negative_loss(flow)),
                *(Doubt(DoubtKind.TOOL_INCOMPLETE, str(warning)) for warning in reply.get("warnings", ())),
                *(d for direction in directions for d in self._of_receiver(direction, reply)),
            ),
            raw=raw,
            facts={**self._facts, **{f"trex_{name}": fact for name, fact in facts.items()}, "frame_sizes": sizes_in_words(offer.mix.parts)},
            began_s=_number(reply, "began_s", self._host.name, raw),
        )

    @property
    def _host(self) -> Host:
        return self._place.hosts[self._place.senders[0]]

    def _mult(self, offer: Offer) -> str:
        """Return TRex's factor for its streams: 1 for our streams, the intended rate for those of a profile, 100 % at full speed."""
        if offer.rate is None:
            return "100%"
        return f"{offer.rate:.6f}pps" if self._model.profile else "1"

    async def _asked(self, direction: Direction, offer: Offer) -> dict[str, Any]:
        tx, rx = self._port_numbers(direction)
        request: dict[str, Any] = {"tx": tx, "rx": rx}
        if self._model.profile:
            return {**request, "profile": self._model.profile, "tunables": dict(self._model.tunables), "direction": int(direction.is_back)}
        return {**request, "streams": streams_of(direction, offer.mix, offer.rate, await self._mac(direction.sends_on.interface))}

    def _port_numbers(self, direction: Direction) -> tuple[int, int]:
        source = 2 * list(self._place.testbed.links).index(direction.link)
        return (source + 1, source) if direction.is_back else (source, source + 1)

    def _of_receiver(self, direction: Direction, totals: Mapping[str, Any]) -> list[Doubt]:
        """Return doubts about frames that the receiving port missed, or does not count."""
        missed = totals["ports"][str(self._port_numbers(direction)[1])].get("ierrors")
        if missed is None:
            return [Doubt(DoubtKind.TOOL_INCOMPLETE, "TRex does not count what its receiver missed (ierrors)", direction.name)]
        return [Doubt(DoubtKind.RX_DROPPED, f"{missed} frames", direction.name)] if missed else []

    def _flow(self, direction: Direction, offer: Offer, totals: Mapping[str, Any], raw: Mapping[str, bytes]) -> Flow:
        """Return the flow of a direction. Raises ToolFailed if the counters of its ports are missing."""
        tx, rx = self._port_numbers(direction)
        try:
            sender, receiver, seconds = totals["ports"][str(tx)], totals["ports"][str(rx)], float(totals["seconds"])
            sent, sent_bytes = int(sender["opackets"]), int(sender["obytes"])
            came = int(receiver["ipackets"]) + int(receiver.get("ierrors") or 0)
        except (KeyError, TypeError, ValueError) as e:
            raise ToolFailed(f"its counters cannot be read: {e!r}", tool=TOOL, host=self._host.name, raw=raw) from e
        asked = None if offer.rate is None else round(offer.rate * offer.duration)
        require_sent_frames(sent, asked=asked, tool=TOOL, host=self._host.name, raw=raw)
        wanted, strangers = max(sent, asked or 0), strangers_among(came, sent=sent)
        mean = sent_bytes / sent if self._model.profile and sent else offer.mix.mean
        return Flow.counted(
            direction.name, asked=wanted, sent=sent, received=came - strangers, seconds=seconds, frame_bytes=mean, foreign_frames=strangers
        )

    async def _started(self) -> Client:
        if self._client is not None and self._client.alive:
            return self._client
        await self.close()
        try:
            await self._start()
        except BaseException:
            await run_to_end(self.close())
            raise
        assert self._client is not None  # noqa: S101 -- _start() made it or has raised
        return self._client

    async def _start(self) -> None:
        host, path = self._host, self._model.path
        if lacks := (await host.run(["sh", "-c", _LACKS, "trex", path, self._model.server])).text.split():
            what = f"{path} holds no TRex that can be started: it lacks {', '.join(lacks)}"
            remedy = "unpack a release there, build what was cloned (linux_dpdk/b configure, b build), or name its folder with `path`"
            raise ToolMissing(what, tool=TOOL, host=host.name, remedy=remedy)
        if self._model.needs_one_machine:
            await both_ends(self._place, tool=TOOL)
        folder = await self._folder.enter_async_context(held_folder(host))
        script = f"{folder}/trex_client.py"
        await host.put(_SCRIPT.read_bytes(), script)
        if self._model.server == "own":
            self._server = await host.spawn(["sh", "-c", _SERVER, "trex", path, self._model.config or await self._written(folder)])
            self._server_ended = asyncio.ensure_future(self._server.wait(_ENDS_WITH_RUN_S))
        self._client = Client(host, await host.spawn(["bash", "-c", _CLIENT, "trex", path, script]))
        try:
            hello = await self._connected(self._client)
        except ToolFailed as e:
            raise ToolFailed(f"{e.what}{await self._server_output()}", tool=TOOL, host=host.name, raw=e.raw) from e
        self._facts = {f"trex_{name}": str(hello[name]) for name in ("version", "python") if name in hello}
        if hello.get("ports", 0) < (needed := 2 * len(self._place.testbed.links)):
            what = f"its server has {hello.get('ports')} ports, the testbed's links need {needed}"
            raise ToolMissing(
                what, tool=TOOL, host=host.name, remedy="name all ports in its configuration, source and sink of each link in turn"
            )

    async def _connected(self, client: Client) -> Mapping[str, Any]:
        """Return the server's greeting. Raises ToolFailed at once if the server has ended, HostError."""
        hello = asyncio.ensure_future(client.connect(self._model.path, self._model.address))
        either: list[asyncio.Future[Any]] = [hello, *([self._server_ended] if self._server_ended else [])]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if hello.done():
                return hello.result()
        finally:
            await cancelled(hello)
        raise ToolFailed("its server did not start", tool=TOOL, host=self._host.name)

    async def _written(self, folder: str) -> str:
        """Write the configuration for the links' interfaces; return its path."""
        directions = [
            await direction_of(self._place.hosts, self._place.testbed, link, reverse=reverse)
            for link, reverse in itertools.product(self._place.testbed.links, (False, True))
        ]
        ports = [TrexPort(w.sends_on.interface, await self._mac(w.sends_on.interface), w.destination_mac) for w in directions]
        path = f"{folder}/trex_cfg.yaml"
        await self._host.put(config_of(ports).encode(), path)
        return path

    async def _mac(self, interface: str) -> str:
        """Return the MAC of an interface. A card that DPDK has taken shows none: TRex then inserts its own. Raises CommandFailed."""
        try:
            return (await self._host.run(["cat", f"/sys/class/net/{interface}/address"])).text.strip()
        except CommandFailed:
            if self._model.config is None and self._model.server == "own":
                raise
            return "00:00:00:00:00:00"

    async def _server_output(self) -> str:
        if self._server is None:
            return ""
        done = await self._server.end()
        return f"; its server ended with {done.status}: {done.reason}"


class Client:
    """The conversation with trex_client.py."""

    def __init__(self, host: Host, process: Process) -> None:
        self.hello: Mapping[str, Any] = {}
        self._host, self._process = host, process
        self._ids = itertools.count(1)
        self._lines: list[bytes] = []
        self.alive = True

    async def connect(self, path: str, address: str) -> Mapping[str, Any]:
        """Return the greeting of the server at `address`. Raises ToolFailed, HostError."""
        self.hello = await self._ask("connect", STARTS_S + REPLY_S, path=path, address=address, wait_s=STARTS_S)
        return self.hello

    async def offer(self, asked: Mapping[str, Any], duration: Seconds, drain: Seconds) -> Mapping[str, Any]:
        """Send a load and return the counters. Raises ToolFailed, HostError."""
        return await self._ask("offer", duration + drain + REPLY_S, **asked, duration_s=duration, drain_s=drain)

    def take_lines(self) -> bytes:
        """Return every line sent and received since the last call."""
        lines, self._lines = self._lines, []
        return b"".join(lines)

    async def close(self) -> None:
        """End the script; it releases its ports when its input ends."""
        self.alive = False
        with contextlib.suppress(HostError, TimeoutError):
            await self._process.close_stdin()
            async with own_timeout(5.0):
                await self._process.readline()
        await self._process.end()

    async def _ask(self, op: str, timeout_s: float, **arguments: object) -> Mapping[str, Any]:
        line = json.dumps({"id": (number := next(self._ids)), "op": op, **arguments}).encode() + b"\n"
        self._lines.append(line)
        try:
            await self._process.write(line)
            async with own_timeout(timeout_s):
                heard = await self._process.readline()
        except TimeoutError:
            raise await self._failed(f"did not answer `{op}` within {timeout_s:g} s") from None
        self._lines.append(heard)
        answer = _object(heard)
        if answer.get("id") != number or not ("err" in answer or isinstance(answer.get("ok"), dict)):
            raise await self._failed(f"answered `{op}` with {heard[:100]!r}")
        if "err" in answer:
            self.alive = False  # whatever is wrong, the next trial begins with a new client, and a new server if that is ours
            raise ToolFailed(f"{op}: {answer['err']}", tool=TOOL, host=self._host.name, raw={"trex-client.jsonl": self.take_lines()})
        return dict(answer["ok"])

    async def _failed(self, what: str) -> ToolFailed:
        self.alive = False
        done = await self._process.end()
        raw = {"trex-client.jsonl": self.take_lines(), "trex-client.txt": done.stderr}
        return ToolFailed(f"{what}{f': {done.complaint}' if done.complaint else ''}", tool=TOOL, host=self._host.name, raw=raw)


def _object(line: bytes) -> Mapping[str, Any]:
    """Return the JSON object in a line; empty if it is anything else."""
    try:
        document = json.loads(line)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _number(document: Mapping[str, Any], name: str, host: str, raw: Mapping[str, bytes]) -> float:
    """Return a number of the reply. Raises ToolFailed that names a missing one."""
    try:
        return float(document[name])
    except (KeyError, TypeError, ValueError) as e:
        raise ToolFailed(f"its answer has no {name}: {e!r}", tool=TOOL, host=host, raw=raw) from e
