"""A run whose tools' outputs give the figures of its records: as iperf3 3.12 and the engine print them, cut down to what a rate follows from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder


def raw_of(record: TrialRecord) -> dict[str, bytes]:
    if record.cell.tool == "iperf3":
        return {f"iperf3-{link}-client.json": iperf3(record.figures[link]["goodput_bps"]) for link in record.cell.links}
    flow = record.flows[0]
    sent = {"port": "source:eth-a", "ended": "finished", "streams": [{"stream": 7, "sent": flow.sent_frames, "seconds": flow.sent_seconds}]}
    warm = {"port": "source:eth-a", "ended": "finished", "streams": [{"stream": 6, "sent": 1, "seconds": 0.2}]}
    got = {"port": "sink:eth-a", "streams": [{"stream": 7, "received": flow.received_frames}]}
    return {
        "engine-source.jsonl": exchange((1, "wait", "source:eth-a", warm), (2, "wait", "source:eth-a", sent)),
        "engine-sink.jsonl": exchange((3, "settle", "sink:eth-a", got)),
    }


def iperf3(bps: float) -> bytes:
    start = {"version": "iperf 3.12", "test_start": {"protocol": "TCP", "num_streams": 4, "duration": 30}}
    rates = {"bytes": int(bps * 30 / 8), "seconds": 30, "bits_per_second": bps}
    return json.dumps({"start": start, "intervals": [], "end": {"sum_sent": rates, "sum_received": rates}}).encode()


def exchange(*said: tuple[int, str, str, dict[str, object]]) -> bytes:
    lines = [
        line for n, op, port, reply in said for line in ({"id": n, "op": op, "port": port}, {"event": "second"}, {"id": n, "ok": reply})
    ]
    return "\n".join(map(json.dumps, lines)).encode()


def with_raw_outputs(path: Path) -> Path:
    """The run at `path`, its trials written anew with such outputs, and closed."""
    run = RunFolder.open(path)
    for record in list(run.records()):
        shutil.rmtree(path / "trials" / f"{record.trial:04d}")
        run.write_trial(record.model_copy(update={"raw": []}), raw_of(record))
    (path / "MANIFEST.sha256").unlink()
    run.write_manifest()
    return path
