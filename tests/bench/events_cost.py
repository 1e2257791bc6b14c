"""What events cost: the CPU time of one second's events of ten hosts, twenty sensors and a tool ÷ that second; the aim is less than 1 %.

SECONDS=600 of events unless told otherwise, as fast as they can be written, to a file in the folder for temporary files. Beside it the peer:
the same values written as bare JSON lines without a model.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

from dutlab.plan.plan import Plan
from dutlab.runner.event_log import EventLog

SECONDS = int(os.environ.get("SECONDS", "600"))
HOSTS, CORES, SENSORS = 10, 16, 20
AIM_PERCENT = 1.0


def values() -> list[tuple[str, str, dict[str, float]]]:
    """What one second brings."""
    cores = {f"cpu{n}_busy_percent": 12.5 + n for n in range(CORES)}
    rates = {"offered_pps": 1.2e6, "received_pps": 1.1e6, "backpressure_pps": 0.0, "lost_pps": 1e5}
    of_hosts = [(f"host{n}", "cpu", cores) for n in range(HOSTS)]
    of_sensors = [("this-machine", f"sensor{n}", {f"sensor{n}": 71.5}) for n in range(SENSORS)]
    return [*of_hosts, *of_sensors, ("a>", "dutlab-engine", rates), ("a<", "dutlab-engine", rates)]


def main() -> None:
    """Prints the share of a core and the ratio."""
    second = values()
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(experiment="bench", testbed="bench", order="as-written", seed=0, estimate_s=0.0, trials=())
        log = EventLog(Path(folder) / "events.jsonl", lambda _: None, plan)
        began = time.process_time()
        for _ in range(SECONDS):
            for where, who, found in second:
                log.reading(where, who, found)
        ours = time.process_time() - began
        size = (Path(folder) / "events.jsonl").stat().st_size
        began = time.process_time()
        with (Path(folder) / "bare.jsonl").open("wb", buffering=0) as bare:
            for _ in range(SECONDS):
                for where, who, found in second:
                    bare.write(json.dumps({"at": time.time(), "where": where, "who": who, "values": found}).encode() + b"\n")
        peer = time.process_time() - began
    share = ours / SECONDS * 100
    print(f"{len(second)} events a second, {size / SECONDS / 1000:.1f} kB: {share:.3f} % of a core (aim {AIM_PERCENT} %)")
    print(f"÷ bare JSON lines: {ours / peer:.2f}")


if __name__ == "__main__":
    main()
