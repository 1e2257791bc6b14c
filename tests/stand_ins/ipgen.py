#!/usr/bin/env -S python3 -S
"""Stands for IIJ's ipgen: carries a script (-S) out second by second at once, logs each second (-L), and has its benchmark (-X).

IPGEN_LOSES=10 has one frame in ten lost. IPGEN_MAKES=700 has it send no more than 700 a second, without a word, as the real one did where it
could not. IPGEN_BEHIND=1 has each line of the log tell what stood when its second began. IPGEN_LACKS=RX leaves a field out. IPGEN_LATE=1 has the benchmark end before it tells its last second, as 1.31 does every now and then. As in gen.c sizes are of layer 3, times are of a monotonic clock, and `reset` clears all totals.
"""

import json
import os
import sys
from itertools import pairwise
from pathlib import Path

words = sys.argv[1:]
if letters := sum(word.count("X") for word in words if set(word) <= set("-X") and word != "-"):
    # gentest_main and main of gen.c in iij/ipgen, commit b124ae8; here a second takes no time, and a frame of 46 bytes a microsecond.
    options = dict(pairwise(words))
    packet = int(options.get("-s", "46"))
    if not 46 <= packet <= 1500:
        sys.exit("usage: ipgen [options]")
    if "-v" in words:
        print("ipgen v1.30\n")
    work = (" with MEMCPY" if letters > 1 else "") + (" with CKSUM test" if letters > 2 else "")
    print(f"Packet generation benchmark. pktsize={packet}{work} start")
    each = 46_000_000 // packet
    for second in range(1, int(options["-t"]) + 1 - int(os.environ.get("IPGEN_LATE", "0"))):
        told = f"{each} pkt generated. totally {each * second} packet generated in {second} second. average: {each} pps"
        print(f"{told}, pktsize {packet}, {(packet + 14 + 4) * each * 8 / 1e6:.2f}Mbps")
    sys.exit(0)
loses = int(os.environ.get("IPGEN_LOSES", "0"))
options = {word: words[n + 1] for n, word in enumerate(words[:-1]) if word in ("-S", "-L", "-T", "-R")}
most, behind = int(os.environ.get("IPGEN_MAKES", str(10**9))), "IPGEN_BEHIND" in os.environ
sent = came = last = 0
size, rate, clock, lines = 46, 0, 1000.25, []
with Path(options["-S"]).open(encoding="utf-8") as script:
    for line in script:
        seconds, command, *rest = line.split()
        if command == "reset":
            sent = came = 0
        else:
            size, rate = map(int, rest)
        for _ in range(int(seconds)):
            before, made = (sent, came), min(rate, most)
            sent, clock = sent + made, clock + 1
            came += made - (made // loses if loses else 0)
            told, pps = (before, last) if behind else ((sent, came), made)
            last = made
            common = {"packetsize": size, "TXppsconfig": rate, "TXunderrun": 0}
            receiver = {**common, "interface": "ix0", "TX": 0, "RX": told[1], "TXpps": 0, "RXpps": pps, "RXdup": 0, "RXreorder": 0,
                        "latency-min": 0.01, "latency-avg": 0.05, "latency-max": 0.25}  # fmt: skip
            receiver.pop(os.environ.get("IPGEN_LACKS", ""), None)
            sender = {**common, "interface": "ix1", "TX": told[0], "RX": 0, "TXpps": pps, "RXpps": 0}
            lines.append(json.dumps({"apiversion": "1.2", "time": clock, "statistics": [receiver, sender]}))
Path(options["-L"]).write_text("\n".join(lines) + "\n", encoding="utf-8")
print("IP pktsize 46, 0 pps, 0.0 Mbps (0 bps)")
