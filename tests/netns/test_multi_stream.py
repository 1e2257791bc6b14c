"""The ready experiment of streams, cut short: real frames, an account of each stream, and their order on the wire."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from capability import needs
from run_records import records_below

EXAMPLE = Path(__file__).parents[2] / "examples/multi-stream/experiment.yaml"

_machine = needs("nft")


def test_each_stream_has_an_account_and_the_answer_names_the_one_that_the_filter_drops(dutlab, tmp_path, monkeypatch):
    monkeypatch.setattr("in_process.packet_sockets", nullcontext)  # with packet sockets the filter lets frames of `data` through
    data = "{frame_size: 1518, rate: 5kpps, frames: 300, traffic: {transport: tcp, flows: 100, burst: 10}}"
    settings = {
        "factors.mode": "router,filter-default", "order": "as-written", "repeats": "1", "workloads.multi-stream.duration": "1s", "workloads.multi-stream.streams.syn.frames": "100",
        "workloads.multi-stream.streams.data": data, "watch": "[]",
    }  # fmt: skip
    done = dutlab("run", str(EXAMPLE), *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")))
    assert done.returncode == 0, done.stderr
    record, filtered = records_below(tmp_path)
    assert {flow["link"]: flow["received_frames"] > 0 for flow in filtered["flows"]}["a:data"] is False
    flows = {flow["link"]: flow for flow in record["flows"]}
    assert list(flows) == ["a:syn", "a:data", "a:call"] and all(flow["balances"] for flow in flows.values())
    # A chain waits for its frames: each is sent, or refused once its time has passed.
    made = {name: flow["sent_frames"] + flow["refused_frames"] for name, flow in flows.items()}
    assert made == {"a:syn": 3 * 100, "a:data": 3 * 300, "a:call": 500}
    figures = record["figures"]["a"]
    assert all(figures[f"{name}/received_pps"] > 0 and figures[f"{name}/latency_p99_ns"] > 0 for name in ("syn", "data", "call"))
    (run,) = tmp_path.glob("runs/*")
    cards = dutlab("claims", str(run)).stdout.split()
    assert len(cards) == 2 and dutlab("verify-claim", *cards).returncode == 0
