"""A line of ipgen's log."""

from __future__ import annotations

import json


def line(*, tx=1000, rx=990, dup=0, latency=0.25, size=46):
    common = {"packetsize": size, "TXppsconfig": 1000, "TXunderrun": 0}
    receiver = common | {"interface": "ix0", "TX": 0, "RX": rx, "TXpps": 0, "RXpps": 990, "RXdup": dup, "RXreorder": 2,
                         "latency-min": 0.01, "latency-avg": 0.05, "latency-max": latency}  # fmt: skip
    sender = common | {"interface": "ix1", "TX": tx, "RX": 0, "TXpps": 1000, "RXpps": 0}
    return json.dumps({"apiversion": "1.2", "time": 123.5, "statistics": [receiver, sender]})
