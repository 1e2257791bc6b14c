"""Generator `trafgen` of netsniff-ng (0.6): a process for each stream, ended by timeout(1) or after its frames.

It pins itself to the core that its configuration names, else to core 0. With a rate (`-b`) it sends a second's frames at once, each by a
separate call, and waits for the next second. Without a rate it fills a ring that the kernel empties. If the kernel takes no frames for a
moment, as before a veth whose other end is slow, trafgen 0.6.8 gives up. Then it is started again with a rate that it cannot reach, so that
it makes a call for each frame and waits.
"""

from __future__ import annotations

import re

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import ToolFailed, ToolMissing
from dutlab.hosts.host import NO_SUCH_PROGRAM, Done, Host
from dutlab.hosts.running import together
from dutlab.spec.generators import GeneratorModel
from dutlab.spec.generators.base import StreamsModel
from dutlab.tools.engine.load import DESTINATION_PORT, Direction
from dutlab.tools.generator_tool import GeneratorSite, GeneratorTool
from dutlab.tools.generators.counted import CountedGenerator, SendOrder, SendReport, run_for
from dutlab.units import Pps

TOOL = PROGRAM = "trafgen"
INSTALL = "install netsniff-ng (Debian: apt install netsniff-ng)"
UNREACHED = Pps(50e6)
RING_GAVE_UP = b"Flushing TX_RING failed"
_FCS = 4
_HEADERS = {"ipv4": 14 + 20 + 8, "ipv6": 14 + 40 + 8}
_VERSION = re.compile(r"^trafgen (\d+\.\d+(?:\.\d+)?)")
_TOTAL = re.compile(rb"^\s*(\d+) packets outgoing", re.MULTILINE)
_PROCESS = re.compile(rb"^\s*(\d+) sec, (\d+) usec on CPU\d+ \((\d+) packets\)", re.MULTILINE)


def make(model: GeneratorModel, place: GeneratorSite) -> GeneratorTool:
    """Make the generator; tools.generators.registry calls this."""
    assert isinstance(model, StreamsModel)  # noqa: S101 -- the registry's key
    return CountedGenerator(Trafgen(model, place), place)


class Trafgen:
    """Program `trafgen`, a generators.counted.SendingProgram."""

    tool = TOOL

    def __init__(self, model: StreamsModel, place: GeneratorSite) -> None:
        self._model, self._place = model, place
        self._ring_gives_up = False

    async def check(self, host: Host) -> str:
        """Return its version. Raises ToolMissing, HostError."""
        done = await host.run([PROGRAM, "--version"], check=False)
        if (match := _VERSION.search(done.text)) is None:
            what = "is not installed" if done.status == NO_SUCH_PROGRAM else f"reports no version: {(done.text + done.errors)[:80]!r}"
            raise ToolMissing(f"trafgen {what}", tool=TOOL, host=host.name, remedy=INSTALL)
        return match[1]

    async def send(self, direction: Direction, asked: SendOrder) -> SendReport:
        """Send by the ring, or by a call for each frame. Raises ToolFailed, HostError."""
        if asked.rate is None and not self._ring_gives_up:
            try:
                return await self._sent(direction, asked)
            except ToolFailed as e:
                if not any(RING_GAVE_UP in text for text in e.raw.values()) or self._model.streams > 1:
                    raise
                self._ring_gives_up = True
        return await self._sent(direction, asked)

    async def _sent(self, direction: Direction, asked: SendOrder) -> SendReport:
        host = self._place.hosts[direction.sender]
        rate = UNREACHED if asked.rate is None and self._ring_gives_up else asked.rate
        configs = [packet_of(direction, asked, core, rate) for core in self._cores(direction.sender, rate)]
        done = await together(_stream(host, direction, asked, config) for config in configs)
        raw = {f"trafgen-{direction.name}-{i}.txt": d.stdout + d.stderr for i, d in enumerate(done)}
        read = [read_end(d, host=host.name, raw=raw) for d in done]
        doubts = () if asked.rate is None else (Doubt(DoubtKind.SENT_IN_BURSTS, about=direction.name),)
        seconds = max(seconds for _, seconds in read)
        if asked.rate is not None:  # it does not wait after the last second's frames
            seconds = max(seconds, float(asked.seconds))
        facts = {"trafgen_path": "its ring failed, so a call for each frame" if rate is UNREACHED else "ring" if rate is None else "calls"}
        return SendReport(sum(frames for frames, _ in read), seconds, raw, doubts, facts)

    def _cores(self, role: str, rate: Pps | None) -> list[int]:
        """Return a core for each stream: core 0, 1, … if none is named, since trafgen pins itself in any case."""
        if rate is not None:
            return [0]
        cores = self._place.cores(self._model, role) or tuple(range(self._model.streams))
        return [cores[n % len(cores)] for n in range(self._model.streams)]


def packet_of(direction: Direction, asked: SendOrder, core: int, rate: Pps | None) -> tuple[str, list[str]]:
    """Return its configuration, and the options for it (trafgen(8))."""
    ip = "ipv6" if ":" in direction.source else "ipv4"
    hops = "hl=64" if ip == "ipv6" else "id=0, ttl=64"
    payload = asked.frame_bytes - _FCS - _HEADERS[ip]
    body = f"eth(da={direction.destination_mac}), {ip}({hops}, sa={direction.source}, da={direction.destination})"
    frame = f"{{ {body}, udp(sp={direction.source_port}, dp={DESTINATION_PORT}), fill(0, {payload}) }}\n"
    if rate is not None:
        count = [] if asked.frames is None else ["--num", str(asked.frames)]
        return frame, ["--cpus", "1", *count, "--rate", f"{max(1, round(rate))}pps"]  # 0 is not a limit
    return f"cpu({core}): {frame}", ["--cpus", str(core + 1)]


async def _stream(host: Host, direction: Direction, asked: SendOrder, config: tuple[str, list[str]]) -> Done:
    frame, options = config
    longest = asked.seconds + (0 if asked.rate is None else 2)  # with a rate it ends automatically, within a second of the last frame
    argv = [PROGRAM, "--out", direction.sends_on.interface, "--in", "-", *options]
    return await run_for(host, argv, longest, tool=TOOL, stdin=frame.encode())


def read_end(done: Done, *, host: str, raw: dict[str, bytes]) -> tuple[int, float]:
    """Return frames and seconds from its final output. Raises ToolFailed."""
    output = done.stdout + b"\n" + done.stderr
    total, processes = _TOTAL.search(output), [tuple(map(int, groups)) for groups in _PROCESS.findall(output)]
    if total is None or not processes:
        tail = " ".join(line for line in output.decode("utf-8", "replace").splitlines() if line.strip() and "socket memory" not in line)[
            -200:
        ]
        what = f"ended with {done.status} and no count of its frames: {tail or 'it printed nothing'}"
        raise ToolFailed(what, tool=TOOL, host=host, raw=raw)
    frames = int(total[1])
    if frames == 0:
        raise ToolFailed("sent nothing", tool=TOOL, host=host, raw=raw)
    return frames, max(s + us / 1e6 for s, us, _ in processes)
