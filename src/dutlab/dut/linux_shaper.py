"""Factor `shaper` of Linux: a mode whose DUT sends at a set rate, with a queue before each test port (SQM).

`cake` and `fq_codel` are set as by the scripts of OpenWrt (sqm-scripts: layer_cake.qos, simplest.qos). `fifo` is a router without them
before a slower line: one queue of 100 ms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from dutlab.dut.linux_queues import bucket_bytes, queues_of, script_of, taken, undo_of, unknown
from dutlab.dut.mode import Check, Mode, Prober, TellsState, UndoStep
from dutlab.hosts.host import Host
from dutlab.spec.testbed import Testbed
from dutlab.units import parse_bit_rate

_LINES: Mapping[str, Sequence[str]] = {
    "cake": ("qdisc add dev {port} root handle 1: cake bandwidth RATEbit",),
    "fq_codel": (
        "qdisc add dev {port} root handle 1: htb default 1",
        "class add dev {port} parent 1: classid 1:1 htb rate RATEbit burst BUCKET cburst BUCKET",
        "qdisc add dev {port} parent 1:1 handle 11: fq_codel",
    ),
    "fifo": ("qdisc add dev {port} root handle 1: tbf rate RATEbit burst BUCKET latency 100ms",),
}
_RATE = re.compile(r"^class htb .* rate ([0-9]+)([KMGT]?)bit ", re.MULTILINE)
_SCALES = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_DIGITS = 1e-3
"""Relative error of a rate as tc(8) prints it."""
_KINDS = {"cake": ["cake"], "fq_codel": ["htb", "fq_codel"], "fifo": ["tbf"]}
_OPTIONS = {"cake": "CONFIG_NET_SCH_CAKE", "fq_codel": "CONFIG_NET_SCH_HTB, CONFIG_NET_SCH_FQ_CODEL", "fifo": "CONFIG_NET_SCH_TBF"}


@dataclass(frozen=True)
class Shaper:
    """Level of the factor, for any mode."""

    kind: str
    rate_bps: int

    @classmethod
    def from_level(cls, level: str) -> Self:
        """Parse a level such as `cake 50Mbit/s`. Raises UnitError."""
        kind, _, rate = level.partition(" ")
        return cls(kind, round(parse_bit_rate(rate)))

    async def faults(self, dut: Host, testbed: Testbed) -> Sequence[str]:
        """Return why the DUT cannot have the queues: the kernel lacks them, or a port's present queue could not be restored."""
        if why := await unknown(dut, [self.script("lo", 1500)]):
            return [f"{dut.name}: no shaper {self.kind}: {why}; its kernel needs {_OPTIONS[self.kind]}"]
        distant = [link for link in testbed.links.values() if link.is_distant and link.distance_ports[0].host == dut.name]
        if distant:
            words = f"it adds the distance of link {distant[0].name} itself, before the ports that a shaper uses"
            return [f"{dut.name}: {words}; leave one of both out"]
        return await taken(dut, testbed.ports_of(dut.name))

    def of(self, mode: Mode) -> Mode:
        """Return the mode with shapers; any mode can have them."""
        return ShapedMode(mode, self)

    def script(self, port: str, mtu: int) -> str:
        """Return a script for `sh -e` that sets the port's queues."""
        bucket = str(bucket_bytes(self.rate_bps, mtu))
        return script_of(port, [line.replace("RATE", str(self.rate_bps)).replace("BUCKET", bucket) for line in _LINES[self.kind]])

    async def holds(self, dut: Host, port: str, queues: Sequence[Mapping[str, object]]) -> bool:
        """Return whether a port has these queues at this rate. Raises CommandFailed, HostError."""
        if [of["kind"] for of in queues] != _KINDS[self.kind]:
            return False
        if self.kind == "fq_codel":  # tc(8) of iproute2 6.1 has no JSON of classes
            matches = _RATE.findall((await dut.run(["tc", "class", "show", "dev", port])).text)
            rates = [float(number) * _SCALES[prefix] / 8 for number, prefix in matches]
        else:
            options = queues[0]["options"]
            assert isinstance(options, dict)  # noqa: S101 -- as tc writes it
            rates = [options["bandwidth" if self.kind == "cake" else "rate"]]
        return len(rates) == 1 and abs(rates[0] * 8 - self.rate_bps) <= _DIGITS * self.rate_bps


@dataclass(frozen=True)
class ShapedMode:
    """Mode with a shaper on each test port."""

    mode: Mode
    shaper: Shaper

    @property
    def name(self) -> str:
        """Name of the mode."""
        return self.mode.name

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that remove the queues and undo the mode. Raises HostError."""
        queues = undo_of(dut, testbed.ports_of(dut.name), "the kernel's own queues, as they were found")
        return [queues, *await self.mode.undo(dut, testbed)]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Apply the mode and set the queues. Raises CommandFailed, HostError."""
        await self.mode.apply(dut, testbed)
        mtus = {port.interface: link.mtu for link in testbed.links.values() for port in link.ports if port.host == dut.name}
        await dut.run(["sh", "-e"], stdin="".join(self.shaper.script(port, mtu) for port, mtu in mtus.items()).encode())

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check the queues and the mode, and that the queues of the outer ports counted its frames."""
        outer = list(dict.fromkeys(link.dut_out.interface for link in testbed.links.values()))
        before = [await _packets(dut, port) for port in outer]
        checks = list(await self.mode.verify(dut, testbed, prober))
        counted = {port: await _packets(dut, port) - then for port, then in zip(outer, before, strict=True)}
        passed = ", ".join(f"{packets} by {port}" for port, packets in counted.items())
        return [
            *await self._checks(dut, testbed),
            *checks,
            Check("frames pass the queues", all(counted.values()), f"packets counted: {passed}"),
        ]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> Sequence[Check]:
        """Check the queues and the mode."""
        of_mode = await self.mode.checks_of_state(dut, testbed) if isinstance(self.mode, TellsState) else ()
        return [*await self._checks(dut, testbed), *of_mode]

    async def _checks(self, dut: Host, testbed: Testbed) -> list[Check]:
        checks = []
        for port in testbed.ports_of(dut.name):
            queues = await queues_of(dut, port)
            text = ", ".join(f"{of['kind']} ({of['packets']} packets, {of['drops']} dropped)" for of in queues)
            what = f"{port} sends at {self.shaper.rate_bps} bit/s by {self.shaper.kind}"
            checks.append(Check(what, await self.shaper.holds(dut, port, queues), text or "no queue"))
        return checks


async def _packets(dut: Host, port: str) -> int:
    """Return the number of packets that have left the first queue of a port."""
    queues = await queues_of(dut, port)
    return int(queues[0].get("packets", 0)) if queues else 0
