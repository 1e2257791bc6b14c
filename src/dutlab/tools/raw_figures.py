"""Recompute a trial's rates from the raw outputs of its tools, to check the record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dutlab.plan.cell import Cell
from dutlab.spec.workloads.multi_stream import MultiStreamSetting
from dutlab.subject import back_of, joined, part_figure
from dutlab.tools.engine.protocol import Received, ReceivedStream, Sent, SentStream
from dutlab.tools.engine.typed import MisfitError, read
from dutlab.tools.iperf3 import json_output
from dutlab.tools.json_text import read_object

R = TypeVar("R")

Ends = Mapping[str, tuple[str, str]]
"""Link → ports at its two ends, as in `source:eth-a`."""
Recomputed = Mapping[str, Mapping[str, float]]
"""Link (or several, joined by `+`) → figure → value."""


@dataclass(frozen=True)
class KeptTrial:
    """Files of a trial in a run folder."""

    cell: Cell
    raw: Mapping[str, bytes]
    facts: Mapping[str, str]
    """Facts about the tool."""
    resolved: Mapping[str, Any]
    """Content of the run's resolved.json."""

    def ends(self) -> Ends:
        """Return the ends of each link that was driven. Raises CannotRecompute."""
        try:
            links = self.resolved["testbed"]["links"]
            return {link: (str(links[link]["path"][0]), str(links[link]["path"][-1])) for link in self.cell.links}
        except (KeyError, TypeError, IndexError) as error:
            raise CannotRecompute(f"resolved.json does not state where link {error} runs") from error


class CannotRecompute(Exception):
    """The raw files lack what is needed; the text says what."""


def rates(kept: KeptTrial) -> Recomputed:
    """Return goodput_bps of iperf3, received_pps of the engine; for several links or both directions also the sum, `a+b`.

    Raises CannotRecompute.
    """
    if kept.cell.tool not in _READERS:
        raise CannotRecompute(f"raw files of {kept.cell.tool} are not read here")
    figure, read = _READERS[kept.cell.tool]
    backs = kept.cell.setting.ways.backs
    try:
        ends_of = kept.ends()
        rate_by_link = {
            (back_of(link) if back else link): read(link, ends_of[link], kept.raw, back=back) for link in kept.cell.links for back in backs
        }
    except (KeyError, TypeError, ValueError, ZeroDivisionError, json_output.UnreadableError) as error:
        raise CannotRecompute(_unread(error)) from error
    whole = {joined(rate_by_link): sum(rate_by_link.values())} if len(rate_by_link) > 1 else {}
    return {link: {figure: rate} for link, rate in (rate_by_link | whole).items()}


def not_read(kept: KeptTrial) -> Recomputed:
    """Refuse a workload whose figures follow from the outputs of several programs. Raises CannotRecompute."""
    raise CannotRecompute(f"raw files of {kept.cell.workload} are not read here")


def _goodput(link: str, _ends: tuple[str, str], raw: Mapping[str, bytes], *, back: bool) -> float:
    """Return the goodput of all clients on the link (tools/iperf3/tcp.py names their files)."""
    clients = [raw[f"iperf3-{link}-client.json"]]
    while (more := raw.get(f"iperf3-{link}.{len(clients) + 1}-client.json")) is not None:
        clients.append(more)
    read = [read_object(client) for client in clients]
    results = [json_output.result_of(*of, back=back and json_output.has_back(of[0])) for of in read]
    return json_output.of_clients(results).received_bps


def stream_rates(kept: KeptTrial) -> Recomputed:
    """Return NAME/received_pps of each stream of workload `multi-stream` that was sent. Raises CannotRecompute."""
    names = [stream.name for stream in kept.cell.setting_as(MultiStreamSetting).streams]
    rates_by_link: dict[str, dict[str, float]] = {}
    for link, ends in kept.ends().items():
        try:
            sent, arrived = _sent_and_arrived(ends, kept.raw)
            if len(sent) != len(names):
                raise CannotRecompute(f"its raw files have {len(sent)} streams on link {link}, and {len(names)} were asked for")
            rates_by_link[link] = {
                part_figure(name, "received_pps"): _rate(of, arrived)
                for name, of in zip(names, sorted(sent, key=lambda s: s.stream), strict=True)
                if of.sent
            }
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise CannotRecompute(_unread(error)) from error
    return rates_by_link


def _unread(error: Exception) -> str:
    what = f"they lack `{error.args[0]}`" if isinstance(error, KeyError) else str(error) if isinstance(error, MisfitError) else repr(error)
    return f"its raw files cannot be read: {what}"


def _received(_link: str, ends: tuple[str, str], raw: Mapping[str, bytes], *, back: bool) -> float:
    sent, arrived = _sent_and_arrived(ends, raw, back=back)
    return _rate(sent[-1], arrived)


def _sent_and_arrived(
    ends: tuple[str, str], raw: Mapping[str, bytes], *, back: bool = False
) -> tuple[Sequence[SentStream], Mapping[int, ReceivedStream]]:
    """Return the streams sent, and those received by number, of the last exchange; earlier ones were the warm-up."""
    at = (("engine-source.jsonl", ends[0]), ("engine-sink.jsonl", ends[1]))
    (sender, sends), (receiver, receives) = reversed(at) if back else at
    sent = _last_reply(Sent, raw[sender], "wait", sends)
    return sent.streams, {s.stream: s for s in _last_reply(Received, raw[receiver], "settle", receives).streams}


def _rate(sent: SentStream, arrived: Mapping[int, ReceivedStream]) -> float:
    """Return received frames ÷ seconds of sending."""
    return arrived[sent.stream].received / sent.seconds


def _last_reply(kind: type[R], lines: bytes, op: str, port: str) -> R:
    asked: set[int] = set()
    reply: dict[str, Any] | None = None
    for line in lines.splitlines():
        message = json.loads(line)
        if message.get("op") == op and message.get("port") == port:
            asked.add(message["id"])
        elif message.get("id") in asked and isinstance(message.get("ok"), dict):
            reply = message["ok"]
    if reply is None:
        raise ValueError(f"no reply to {op} of {port}")
    return read(kind, reply)


_READERS = {"iperf3": ("goodput_bps", _goodput), "engine": ("received_pps", _received)}
"""Tool → figure in its raw files, and the function that reads it."""
