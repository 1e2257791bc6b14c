"""Generator `pktgen` of the Linux kernel (net/core/pktgen.c), configured and read through files under /proc/net/pktgen.

Each stream is a device `PORT@n` on the kernel thread of one core. With a rate it sends a number of frames and ends automatically. Without
one it sends until the process that started it is interrupted. The threads' devices are always removed afterwards.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from dutlab.ending import run_to_end
from dutlab.errors import ToolFailed, ToolMissing
from dutlab.hosts.host import Done, Host
from dutlab.spec.generators import GeneratorModel
from dutlab.spec.generators.pktgen import PktgenModel
from dutlab.tools.engine.load import DESTINATION_PORT, Direction
from dutlab.tools.generator_tool import GeneratorSite, GeneratorTool
from dutlab.tools.generators.counted import CountedGenerator, SendOrder, SendReport, run_for

TOOL = "pktgen"
FOLDER = "/proc/net/pktgen"
LATE_S = 5.0
"""Time after its expected end at which it is interrupted."""
_FCS = 4
_FIND = f"modprobe -q pktgen 2>/dev/null; cat {FOLDER}/pgctrl"
_VERSION = re.compile(r"Version:\s*([\w.]+)")
# Documentation/networking/pktgen.rst: `Result: OK: 15430(c15405+d25) usec, 100000 (60byte,0frags)`, next line `… errors: 0`
_RESULT = re.compile(r"Result: OK: (\d+)\(c\d+\+d\d+\) usec, (\d+) \((\d+)byte,\d+frags\)")


def make(model: GeneratorModel, place: GeneratorSite) -> GeneratorTool:
    """Make the generator; tools.generators.registry calls this."""
    assert isinstance(model, PktgenModel)  # noqa: S101 -- the registry's key
    return CountedGenerator(Pktgen(model, place), place)


class Pktgen:
    """The kernel's pktgen, a generators.counted.SendingProgram."""

    tool = TOOL

    def __init__(self, model: PktgenModel, place: GeneratorSite) -> None:
        self._model, self._place = model, place

    async def check(self, host: Host) -> str:
        """Return the version in its control file; load the module if possible. Raises ToolMissing, HostError."""
        done = await host.run(["sh", "-c", _FIND], check=False)
        if (match := _VERSION.search(done.text)) is None:
            remedy = "`modprobe pktgen` as root, on a kernel with CONFIG_NET_PKTGEN"
            raise ToolMissing(f"this kernel has no pktgen: {FOLDER}/pgctrl cannot be read", tool=TOOL, host=host.name, remedy=remedy)
        return match[1]

    async def send(self, direction: Direction, asked: SendOrder) -> SendReport:
        """Set up the devices, send, and read their results. Raises ToolFailed, HostError."""
        host, cores = self._place.hosts[direction.sender], self._cores(direction.sender)
        try:
            self._whole(
                host, await host.run(["sh", "-e"], stdin=settings(direction, asked, cores, self._model.burst).encode(), check=False)
            )
            longest = asked.seconds + (0.0 if asked.rate is None else LATE_S)
            await run_for(host, ["sh", "-c", f"echo start > {FOLDER}/pgctrl"], longest, tool=TOOL)
            files = [f"{FOLDER}/{device}" for device in devices(direction, cores)]
            done = self._whole(host, await host.run(["cat", *files], check=False))
        finally:
            idle = "; ".join(f"echo rem_device_all > {FOLDER}/kpktgend_{core}" for core in set(cores))
            await run_to_end(host.run(["sh", "-c", idle], check=False))
        raw = {f"pktgen-{direction.name}.txt": done.stdout}
        frames, seconds = read_results(done.text, len(cores), host=host.name, raw=raw)
        return SendReport(frames, seconds, raw)

    def _cores(self, role: str) -> list[int]:
        """Return a core for each stream; each core has a kernel thread of pktgen."""
        cores = self._place.cores(self._model, role) or tuple(range(self._model.streams))
        return [cores[n % len(cores)] for n in range(self._model.streams)]

    @staticmethod
    def _whole(host: Host, done: Done) -> Done:
        if done.status != 0:
            reason = done.complaint or "no reason given"
            raise ToolFailed(
                f"its files under {FOLDER} refuse: {reason}", tool=TOOL, host=host.name, raw={"pktgen.txt": done.stdout + done.stderr}
            )
        return done


def devices(direction: Direction, cores: Sequence[int]) -> list[str]:
    """Return a device name for each stream, so that several threads can use one port."""
    return [f"{direction.sends_on.interface}@{n}" for n in range(len(cores))]


def settings(direction: Direction, asked: SendOrder, cores: Sequence[int], burst: int) -> str:
    """Return the shell script that configures every device (Documentation/networking/pktgen.rst)."""
    lines = [f"echo rem_device_all > {FOLDER}/kpktgend_{core}" for core in dict.fromkeys(cores)]
    six = "6" if ":" in direction.source else ""
    for n, (core, device) in enumerate(zip(cores, devices(direction, cores), strict=True)):
        lines.append(f"echo add_device {device} > {FOLDER}/kpktgend_{core}")
        addresses = [f"dst{six} {direction.destination}", f"src{six} {direction.source}"] if six else [
            f"dst_min {direction.destination}", f"dst_max {direction.destination}",
            f"src_min {direction.source}", f"src_max {direction.source}",
        ]  # fmt: skip
        of_rate = [] if asked.rate is None else [f"ratep {max(1, round(asked.rate / len(cores)))}"]
        words = (
            f"count {_share(asked, n, len(cores))}",
            "clone_skb 0",
            f"burst {burst}",
            f"pkt_size {asked.frame_bytes - _FCS}",
            *of_rate,
            f"dst_mac {direction.destination_mac}",
            *addresses,
            f"udp_src_min {direction.source_port + n}",
            f"udp_src_max {direction.source_port + n}",
            f"udp_dst_min {DESTINATION_PORT}",
            f"udp_dst_max {DESTINATION_PORT}",
        )
        lines += [f"echo {shlex.quote(word)} > {FOLDER}/{device}" for word in words]
    return "\n".join(lines) + "\n"


def read_results(text: str, streams: int, *, host: str, raw: dict[str, bytes]) -> tuple[int, float]:
    """Return the frames of all streams, and the seconds of the longest. Raises ToolFailed."""
    results = [(int(frames), int(us) / 1e6) for us, frames, _ in _RESULT.findall(text)]
    if len(results) != streams:
        message = " ".join(line.strip() for line in text.splitlines() if line.startswith("Result:")) or "nothing"
        what = f"{len(results)} of {streams} streams have a result: {message[:200]}"
        raise ToolFailed(what, tool=TOOL, host=host, raw=raw)
    frames, seconds = sum(f for f, _ in results), max(s for _, s in results)
    if frames == 0 or seconds <= 0:
        raise ToolFailed("sent nothing", tool=TOOL, host=host, raw=raw)
    return frames, seconds


def _share(asked: SendOrder, nth: int, streams: int) -> int:
    """Return the frames of one stream; 0 means that it sends until it is stopped."""
    return 0 if asked.frames is None else asked.frames // streams + (1 if nth < asked.frames % streams else 0)
