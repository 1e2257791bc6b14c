"""Workload `datagrams`: `iperf3 -u` with one length after another, and the step where one packet no longer carries a datagram.

A datagram longer than the path MTU less its headers is sent in fragments (RFC 791 section 3.2, RFC 8200 section 4.5): more packets for the
same datagram, and the loss of any one loses all of it. The limit follows from the path MTU, which pings find, not from the results.

Figures of a link: path_mtu_bytes, whole_bytes (the longest datagram that one packet carries), offered_step_ratio and received_step_ratio.
The ratios are datagrams a second at the measured length just above the limit, divided by those just below it. Table `lengths`: a row per
link and length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import MeasurementError
from dutlab.hosts.host import Host
from dutlab.hosts.running import together
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.spec.cores import cores_on
from dutlab.spec.generators.iperf3_udp import IP_UDP
from dutlab.spec.testbed import Testbed
from dutlab.spec.workloads.datagrams import DatagramsSetting
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.iperf3.datagrams import DatagramEnd, Datagrams, Sent, send
from dutlab.tools.iperf3.program import FIRST_PORT, PORTS_TRIED
from dutlab.tools.ping import Ping
from dutlab.units import si

_UDP = 8
_IP_HEADER = {4: 20, 6: 40 + 8}
"""Header bytes of each fragment; over IPv6 with the fragment header."""
_UNIT = 8
"""Unit of fragment offsets, in bytes."""


class Iperf3Lengths:
    """iperf3 on both ends of a path. `cpus` is host → cores."""

    def __init__(self, hosts: Mapping[str, Host], testbed: Testbed, cpus: Mapping[str, Sequence[int]]) -> None:
        self._hosts, self._testbed, self._cpus = hosts, testbed, cpus

    async def measure(self, cell: Cell) -> Measured:
        """Measure each length in turn. Raises InputError, ToolFailed, HostError."""
        setting = cell.setting_as(DatagramsSetting)
        wanted = [
            Datagrams(n, setting.rate_pps, setting.duration_s, setting.streams, setting.omit_s, setting.rate_bps)
            for n in setting.lengths_bytes
        ]
        mtus, notes = await self._path_mtus(cell)
        rows: list[Row] = []
        raw: dict[str, bytes] = {}
        doubts: list[Doubt] = []
        for datagrams in wanted:
            sent = await together(self._one(name, nth, datagrams) for nth, name in enumerate(cell.links))
            for name, of_link in zip(cell.links, sent, strict=True):
                rows.append(_row(name, datagrams.length, of_link, mtus[name], self._version(name)))
                raw |= of_link.raw
                doubts += [Doubt(DoubtKind.TOOL_INCOMPLETE, "; ".join(of_link.repairs), name)] if of_link.repairs else []
        steps = {name: step_of([r for r in rows if r["link"] == name], mtus[name] - IP_UDP[self._version(name)]) for name in cell.links}
        figures = {
            name: {
                "path_mtu_bytes": float(mtu),
                "whole_bytes": float(mtu - IP_UDP[self._version(name)]),
                **(step.figures if (step := steps[name]) else {}),
            }
            for name, mtu in mtus.items()
        }
        notes += [step.words(name, mtus[name], self._version(name)) for name, step in steps.items() if step]
        return Measured(figures=figures, tables={"lengths": rows}, raw=raw, notes=notes, doubts=tuple(doubts))

    async def _path_mtus(self, cell: Cell) -> tuple[dict[str, int], list[str]]:
        """Return the path MTU of each link; if pings are not answered, the MTU of its ports, and a note that states it."""
        try:
            record = await Ping(self._hosts, self._testbed).path_mtu(cell)
        except MeasurementError as e:
            of_ports = {name: cell.mtu(self._testbed.links[name].mtu) for name in cell.links}
            return of_ports, [f"the path MTU is taken from the testbed, since pings do not show it: {e}"]
        return {name: int(record.figures[name]["path_mtu_bytes"]) for name in cell.links}, []

    async def _one(self, name: str, nth: int, datagrams: Datagrams) -> Sent:
        link = self._testbed.links[name]
        near, far = (
            DatagramEnd(self._hosts[port.host], str(address.ip), cores_on(self._cpus.get(port.host), name))
            for port, address in ((link.source, link.source_address), (link.sink, link.sink_address))
        )
        return await send(near, far, datagrams, name=f"{name}-{datagrams.length}", first_port=FIRST_PORT + nth * PORTS_TRIED)

    def _version(self, name: str) -> int:
        return self._testbed.links[name].source_address.version


async def lengths(site: GeneratorSite, cell: Cell) -> Measured:
    """Run workload `datagrams`. Raises as Iperf3Lengths.measure."""
    return await Iperf3Lengths(site.hosts, site.testbed, site.cpus).measure(cell)


def packets_of(length: int, mtu: int, version: int) -> int:
    """Return the number of IP packets for a datagram of `length` bytes of payload."""
    if length + IP_UDP[version] <= mtu:
        return 1
    each = (mtu - _IP_HEADER[version]) // _UNIT * _UNIT
    return -(-(length + _UDP) // each)


@dataclass(frozen=True)
class LengthStep:
    """Longest measured length that one packet carried, and shortest that took several."""

    whole: Row
    split: Row

    def ratio(self, name: str) -> float:
        """Return the value above the limit ÷ the value below it."""
        return _number(self.split, name) / _number(self.whole, name)

    @property
    def figures(self) -> dict[str, float]:
        """Both ratios, under the names of figures."""
        return {f"{what}_step_ratio": self.ratio(f"{what}_pps") for what in ("offered", "received")}

    def words(self, link: str, mtu: int, version: int) -> str:
        """Return a sentence with the place of the step, its cause and its size."""
        below, above = (int(_number(row, "length_bytes")) for row in (self.whole, self.split))
        headers, packets = IP_UDP[version], int(_number(self.split, "packets_per_datagram"))
        limit = f"the path MTU of {mtu} bytes carries datagrams of up to {mtu - headers} bytes whole ({headers} bytes are headers)"
        why = f"{above} bytes take {packets} packets; the loss of one loses the datagram"
        return f"link {link}: {limit}. {why}: from {below} to {above} bytes {self._change('offered')}, {self._change('received')}"

    def _change(self, what: str) -> str:
        whole, split = (si(_number(row, f"{what}_pps"), "pps") for row in (self.whole, self.split))
        return f"{what} goes from {whole} to {split} ({(self.ratio(f'{what}_pps') - 1) * 100:+.0f} %)"


def step_of(rows: Sequence[Row], whole_bytes: int) -> LengthStep | None:
    """Return the step of a link; None if all lengths are on one side of the limit, or nothing was received below it."""
    whole = max((r for r in rows if _number(r, "length_bytes") <= whole_bytes), key=lambda r: _number(r, "length_bytes"), default=None)
    split = min((r for r in rows if _number(r, "length_bytes") > whole_bytes), key=lambda r: _number(r, "length_bytes"), default=None)
    return LengthStep(whole, split) if whole is not None and split is not None and _number(whole, "received_pps") > 0 else None


def _row(link: str, length: int, sent: Sent, mtu: int, version: int) -> Row:
    return {
        "link": link,
        "length_bytes": float(length),
        "packets_per_datagram": float(packets_of(length, mtu, version)),
        "offered_pps": sent.sent / sent.seconds,
        "received_pps": sent.received / sent.seconds,
        "goodput_bps": sent.received * length * 8 / sent.seconds,
        "loss_ratio": (sent.sent - sent.received) / sent.sent if sent.sent else 0.0,
    }


def _number(row: Row, name: str) -> float:
    value = row[name]
    return float(value) if value is not None else 0.0
