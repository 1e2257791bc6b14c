"""A run whose tools' outputs give the figures of its records: as iperf3 3.12 and the engine print them, cut down to what a rate follows from."""

from __future__ import annotations

import json
import shutil
from dataclasses import MISSING, fields
from pathlib import Path

from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.tools.engine.protocol import Received, ReceivedStream, Sent, SentStream


def raw_of(record: TrialRecord) -> dict[str, bytes]:
    if record.cell.tool == "iperf3":
        return {f"iperf3-{link}-client.json": iperf3(record.figures[link]["goodput_bps"]) for link in record.cell.links}
    flow = record.flows[0]
    sent, warm = (sent_reply((7, flow.sent_frames, flow.sent_seconds)), sent_reply((6, 1, 0.2)))
    got = received_reply((7, flow.received_frames))
    return {
        "engine-source.jsonl": exchange((1, "wait", "source:eth-a", warm), (2, "wait", "source:eth-a", sent)),
        "engine-sink.jsonl": exchange((3, "settle", "sink:eth-a", got)),
    }


def iperf3(bps: float) -> bytes:
    start = {"version": "iperf 3.12", "test_start": {"protocol": "TCP", "num_streams": 4, "duration": 30}}
    rates = {"bytes": int(bps * 30 / 8), "seconds": 30, "bits_per_second": bps}
    return json.dumps({"start": start, "intervals": [], "end": {"sum_sent": rates, "sum_received": rates}}).encode()


def sent_reply(*streams: tuple[int, int, float]) -> dict[str, object]:
    """A reply to `wait`: stream, frames sent, seconds."""
    return whole(Sent, streams=[whole(SentStream, stream=n, sent=sent, seconds=seconds) for n, sent, seconds in streams])


def received_reply(*streams: tuple[int, int]) -> dict[str, object]:
    """A reply to `settle`: stream, frames received."""
    return whole(Received, streams=[whole(ReceivedStream, stream=n, received=received) for n, received in streams])


def whole(kind: type, **known: object) -> dict[str, object]:
    """A record of the protocol; what is not named and must be there is empty, or 0."""
    empty = {"Count": 0, "float": 0.0, "bool": True, "str": "", "Ended": "finished"}
    return {f.name: empty.get(str(f.type), []) for f in fields(kind) if f.default is MISSING} | known


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
