#!/usr/bin/env -S python3 -S
"""Stands for IIJ's ipgen: carries a script (-S) out second by second at once, logs each second (-L), and has a benchmark (-X).

IPGEN_LOSES=10 has one frame in ten lost. As in gen.c sizes are of layer 3, times are of a monotonic clock, and `reset` clears all totals.
"""

import json
import os
import sys
from pathlib import Path

words = sys.argv[1:]
if any(word.startswith("-X") for word in words):
    print(
        "ipgen v1.30"
        if "-v" in words
        else "1000000 pkt generated. totally 3000000 packet generated in 3 second. average: 1000000 pps, pktsize 46, 1.0Mbps"
    )
    sys.exit(0)
loses = int(os.environ.get("IPGEN_LOSES", "0"))
options = {word: words[n + 1] for n, word in enumerate(words[:-1]) if word in ("-S", "-L", "-T", "-R")}
sent = came = 0
size, rate, clock, lines = 46, 0, 1000.25, []
with Path(options["-S"]).open(encoding="utf-8") as script:
    for line in script:
        seconds, command, *rest = line.split()
        if command == "reset":
            sent = came = 0
        else:
            size, rate = map(int, rest)
        for _ in range(int(seconds)):
            sent, clock = sent + rate, clock + 1
            came += rate - (rate // loses if loses else 0)
            common = {"packetsize": size, "TXppsconfig": rate, "TXunderrun": 0}
            receiver = {**common, "interface": "ix0", "TX": 0, "RX": came, "TXpps": 0, "RXpps": rate, "RXdup": 0, "RXreorder": 0,
                        "latency-min": 0.01, "latency-avg": 0.05, "latency-max": 0.25}  # fmt: skip
            sender = {**common, "interface": "ix1", "TX": sent, "RX": 0, "TXpps": rate, "RXpps": 0}
            lines.append(json.dumps({"apiversion": "1.2", "time": clock, "statistics": [receiver, sender]}))
Path(options["-L"]).write_text("\n".join(lines) + "\n", encoding="utf-8")
print("IP pktsize 46, 0 pps, 0.0 Mbps (0 bps)")
