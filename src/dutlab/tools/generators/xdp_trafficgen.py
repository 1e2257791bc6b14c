"""Generator `xdp-trafficgen` of xdp-tools: `xdp-trafficgen udp`, ended by timeout(1).

It reports rates and no totals, so all numbers are those of the ports. The time to load its program counts as time of sending: rates are
too low by some tens of milliseconds of the trial.
"""

from __future__ import annotations

import re

from dutlab.errors import ToolFailed, ToolMissing
from dutlab.hosts.host import NO_SUCH_PROGRAM, Done, Host
from dutlab.spec.generators import GeneratorModel
from dutlab.spec.generators.base import StreamsModel
from dutlab.spec.generators.xdp_trafficgen import SHORTEST_FRAME
from dutlab.tools.engine.load import DESTINATION_PORT, Direction
from dutlab.tools.generator_tool import GeneratorSite, GeneratorTool
from dutlab.tools.generators.counted import CountedGenerator, SendOrder, SendReport, run_for

TOOL = PROGRAM = "xdp-trafficgen"
INSTALL = "install xdp-tools (Debian: apt install xdp-tools)"
PROBE_S = 2.0
ENDED_BY_TIMEOUT = 124  # timeout(1)
_FCS = 4
_VERSION = re.compile(r"version (\d+\.\d+(?:\.\d+)?)")
_UNABLE = re.compile(r"failed to load|Error probing|Couldn't|doesn't support|is missing from")


def make(model: GeneratorModel, place: GeneratorSite) -> GeneratorTool:
    """Make the generator; tools.generators.registry calls this."""
    assert isinstance(model, StreamsModel)  # noqa: S101 -- the registry's key
    return CountedGenerator(XdpTrafficgen(model, place), place)


class XdpTrafficgen:
    """Program `xdp-trafficgen`, a generators.counted.SendingProgram."""

    tool = TOOL

    def __init__(self, model: StreamsModel, place: GeneratorSite) -> None:
        self._model, self._place = model, place

    async def check(self, host: Host) -> str:
        """Return its version, after a frame to the loopback proved that this kernel takes its programs. Raises ToolMissing, HostError."""
        done = await host.run([PROGRAM, "udp", "--version"], check=False)
        if (match := _VERSION.search(done.text + done.errors)) is None:
            what = "is not installed" if done.status == NO_SUCH_PROGRAM else "reports no version"
            raise ToolMissing(f"xdp-trafficgen {what}", tool=TOOL, host=host.name, remedy=INSTALL)
        tried = await run_for(host, [PROGRAM, "udp", "-n", "1", "lo"], PROBE_S, tool=TOOL)
        if why := failure_line(tried):
            remedy = "install xdp-tools that know this kernel, or use another generator"
            raise ToolMissing(f"xdp-trafficgen {match[1]} does not work with this kernel: {why}", tool=TOOL, host=host.name, remedy=remedy)
        return match[1]

    async def send(self, direction: Direction, asked: SendOrder) -> SendReport:
        """Run the program. Raises ToolFailed, HostError."""
        host = self._place.hosts[direction.sender]
        if asked.frame_bytes != SHORTEST_FRAME and "--pkt-size" not in (await host.run([PROGRAM, "udp", "--help"], check=False)).text:
            what = f"this version sends {SHORTEST_FRAME} bytes with FCS and no other size"
            raise ToolFailed(what, tool=TOOL, host=host.name, remedy=f"write frame_sizes: [{SHORTEST_FRAME}], or install xdp-tools 1.5")
        done = await run_for(host, command(direction, asked, self._model.streams), float(asked.seconds), tool=TOOL)
        raw = {f"xdp-trafficgen-{direction.name}.txt": done.stdout + done.stderr}
        if (why := failure_line(done)) or done.status not in {0, ENDED_BY_TIMEOUT}:
            raise ToolFailed(why or f"ended with {done.status} and no reason given", tool=TOOL, host=host.name, raw=raw)
        return SendReport(None, float(asked.seconds), raw)


def command(direction: Direction, asked: SendOrder, streams: int) -> list[str]:
    """Return the command of xdp-trafficgen(8). On a link without IPv6 it uses its own link-local addresses."""
    argv = [PROGRAM, "udp", "--dst-mac", direction.destination_mac, "--dst-port", str(DESTINATION_PORT), "--threads", str(streams)]
    if ":" in direction.source:
        argv += ["--dst-addr", direction.destination, "--src-addr", direction.source]
    if asked.frame_bytes != SHORTEST_FRAME:
        argv += ["--pkt-size", str(asked.frame_bytes - _FCS)]
    return [*argv, direction.sends_on.interface]


def failure_line(done: Done) -> str:
    """Return the first line that says that it cannot work; empty if there is none."""
    lines = (done.text + "\n" + done.errors).splitlines()
    return next((line.strip() for line in lines if _UNABLE.search(line)), "")
