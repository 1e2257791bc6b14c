#!/usr/bin/env -S python3 -S
"""Stands for netmap's pkt-gen: its options, its lines (PKT_GEN_FORM: 2015, then or now) and its ends, without a port and without a frame.

`-f tx` sends `-R` frames a second until `-n` or SIGINT; `-f rx` says at its end that it received what the file PKT_GEN_CAME holds.
"""

import os
import signal
import sys
import time
from pathlib import Path

CAME = Path(os.environ.get("PKT_GEN_CAME", ""))

words = sys.argv[1:]
if "-h" in words:
    print("usage: pkt-gen [-i interface] [-f tx|rx|ping|pong]", file=sys.stderr)
    sys.exit(0)
options = dict(zip(words[::2], words[1::2], strict=True))
with CAME.with_suffix("." + options["-f"]).open("a", encoding="utf-8") as log:
    log.write(" ".join(words) + "\n")
stopped = []
signal.signal(signal.SIGINT, lambda *_: stopped.append(True))
sends, rate = options["-f"] == "tx", float(options.get("-R", "5000"))
limit = float(options["-n"]) / rate if "-n" in options else float("inf")


def norm(value):
    return f"{value / 1e3:.3f} K" if value >= 1e3 else f"{value:.3f} "


def report(frames, seconds):
    now = time.time()
    head = f"{int(now % 1000):03d}.{int(now % 1 * 1e6):06d} main_thread"
    pps, micros = frames / seconds, round(seconds * 1e6)
    form = os.environ.get("PKT_GEN_FORM", "now")
    if form == "2015":
        return f"{head} [1418] {pps:.0f} pps ({frames:.0f} pkts in {micros} usec)"
    if form == "then":
        return f"{head} [1708] {norm(pps)}pps ({norm(frames)}pkts 1.000 Mbps in {micros} usec) 3.00 avg_batch"
    rate = f"{norm(pps)}pps [avg/std {norm(pps)}pps/0.000 pps]({norm(frames)}pkts 1.000 Mbps in {micros} usec)"
    return f"{head} [2781] {rate} 3.00 avg_batch 0 min_space"


began = last = time.monotonic()
while not stopped and time.monotonic() - began < limit:
    time.sleep(0.02)
    if (now := time.monotonic()) - last >= 0.1:
        print(report(5000 * (now - last) if not sends else rate * (now - last), now - last), file=sys.stderr, flush=True)
        last = now
seconds = min(time.monotonic() - began, limit)
frames, word = (round(rate * seconds), "Sent") if sends else (int(CAME.read_text(encoding="utf-8")), "Received")
if frames:
    print(f"{word} {frames} packets {frames * 60} bytes {frames} events 60 bytes each in {seconds:.2f} seconds.")
    print("Speed: 5.000 Kpps Bandwidth: 2.400 Mbps (raw 3.360 Mbps). Average batch: 3.00 pkts")
else:
    print(f"{word} nothing.")
