"""Datagrams between one pair of hosts, for the workload `matrix`: what one end sent and the other had of it.

Figures of a link: goodput_bps (payload that arrived), sent_bps, and loss_ratio of datagrams.
"""

from __future__ import annotations

from dutlab.doubts import Doubt, DoubtKind
from dutlab.methods.ports import Measured
from dutlab.spec.workloads.matrix import MatrixSetting
from dutlab.tools.iperf3.datagrams import DatagramEnd, Datagrams, Sent, send
from dutlab.tools.iperf3.program import FIRST_PORT


async def datagrams_between(near: DatagramEnd, far: DatagramEnd, link: str, setting: MatrixSetting) -> Measured:
    """From a client on `near` to a server on `far`. Raises ToolFailed, ToolMissing, HostError."""
    wanted = Datagrams(setting.length_bytes, setting.rate_pps, setting.duration_s, setting.streams)
    sent = await send(near, far, wanted, name=link, first_port=FIRST_PORT)
    doubts = [Doubt(DoubtKind.TOOL_INCOMPLETE, "; ".join(sent.repairs), link)] if sent.repairs else []
    return Measured(figures={link: figures_of(sent, wanted.length)}, raw=sent.raw, doubts=tuple(doubts))


def figures_of(sent: Sent, length: int) -> dict[str, float]:
    """Rates count payload; what arrived twice is not a gain, so nothing is lost below 0."""
    arrived, asked = (count * length * 8 / sent.seconds for count in (sent.received, sent.sent))
    return {"goodput_bps": arrived, "sent_bps": asked, "loss_ratio": max(0.0, 1 - sent.received / sent.sent) if sent.sent else 0.0}
