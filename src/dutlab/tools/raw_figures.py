"""A trial's rates worked out again from the untouched outputs of its tools, for those who do not take a record's word."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dutlab.tools.iperf3 import json_output

Ends = Mapping[str, tuple[str, str]]
"""Link → the ports at its two ends, as in `source:eth-a`."""


class CannotRecompute(Exception):
    """The raw files do not hold what is needed; the text says what."""


def rates_of(tool: str, links: Ends, raw: Mapping[str, bytes]) -> dict[str, float]:
    """Link → goodput_bps of iperf3, received_pps of the engine; several links also as their sum, `a+b`. Raises CannotRecompute."""
    readers = {"iperf3": _goodput, "engine": _received}
    if tool not in readers:
        raise CannotRecompute(f"raw files of {tool} are not read here")
    try:
        found = {link: readers[tool](link, ends, raw) for link, ends in links.items()}
    except (KeyError, TypeError, ValueError, ZeroDivisionError, json_output.UnreadableError) as error:
        raise CannotRecompute(f"its raw files cannot be read: {error!r}") from error
    return found | ({"+".join(found): sum(found.values())} if len(found) > 1 else {})


def _goodput(link: str, _ends: tuple[str, str], raw: Mapping[str, bytes]) -> float:
    return json_output.parse(raw[f"iperf3-{link}-client.json"]).received_bps


def _received(_link: str, ends: tuple[str, str], raw: Mapping[str, bytes]) -> float:
    """Frames that arrived over the seconds they were sent in, of the last exchange: earlier ones were the warm-up."""
    sent = _last_reply(raw["engine-source.jsonl"], "wait", ends[0])["streams"][-1]
    arrived = {s["stream"]: s for s in _last_reply(raw["engine-sink.jsonl"], "settle", ends[1])["streams"]}[sent["stream"]]
    return float(arrived["received"]) / float(sent["seconds"])


def _last_reply(lines: bytes, op: str, port: str) -> dict[str, Any]:
    asked: set[int] = set()
    found: dict[str, Any] | None = None
    for line in lines.splitlines():
        said = json.loads(line)
        if said.get("op") == op and said.get("port") == port:
            asked.add(said["id"])
        elif said.get("id") in asked and isinstance(said.get("ok"), dict):
            found = said["ok"]
    if found is None:
        raise ValueError(f"no reply to {op} of {port}")
    return found
