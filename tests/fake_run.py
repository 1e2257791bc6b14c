"""A run folder as the runner would leave it, without a runner.

Goodput is that of tests/data/e302-9d-iperf3.csv: published by a review of a Supermicro E302-9D (Xeon D-2123IT, four 10G ports) under
pfSense 2.4.5, iperf3 -P 4 -O 5; the three repeats around each published figure are invented. So is the whole sweep, shaped by the same
review's words (0.6 Mpps a port at best, 0.35 with rules and NAT).
"""

from __future__ import annotations

import csv
import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from cells import cell_of
from dutlab.doubts import DoubtKind
from dutlab.methods.flow import Latency
from dutlab.physics.ceilings import frames, tcp_goodput
from dutlab.plan.cell import Cell
from dutlab.sensors.sensor import Sample
from dutlab.store.record import DoubtRecord, FlowRecord, TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.store.write import Sync
from dutlab.units import BpsL1

PUBLISHED = Path(__file__).parent / "data" / "e302-9d-iperf3.csv"
TEN_G = BpsL1(10e9)
SIZES: tuple[int | str, ...] = (64, 128, 256, 512, 1024, 1280, 1518, "imix")
IMIX_MEAN = (7 * 64 + 4 * 594 + 1518) / 12
PPS = {"router": 0.61e6, "filter-empty": 0.48e6, "filter-default": 0.39e6, "nat": 0.35e6}
COSTS_NS = {"router": 21_000, "filter-empty": 29_000, "filter-default": 33_000, "nat": 41_000}
NOW = datetime(2026, 11, 21, 8, 1, tzinfo=UTC)
MOST_KEPT = 20
"""Repeats of a run that is kept to be copied."""


@dataclass
class Wanted:
    """What the made-up run is like."""

    lab: bool = False
    repeats: int = 3
    seconds: int = 30
    modes: dict[str, str] = field(default_factory=lambda: {m: m for m in PPS})
    """Mode as published → as it is called here (for hostile names)."""
    bad_luck: bool = True
    """One failed trial, one mode refused in its last repeat, one open ledger, one starved generator."""
    cores: int = 4
    """None are watched when 0."""
    sizes: tuple[int | str, ...] = SIZES
    samples_a_second: int = 1
    cut_after: int | None = None
    """The run was killed after so many trials."""
    experiment: str = "firewall-modes"
    sync: Sync = Sync.AT_END
    hostile: str = ""
    """A text put wherever a text may stand."""


def doubt(kind: DoubtKind, detail: str = "", about: str = "") -> DoubtRecord:
    return DoubtRecord(kind=kind.name, grade=kind.grade.value, text=kind.text, remedy=kind.remedy, detail=detail, about=about)


def build(runs: Path, wanted: Wanted | None = None) -> Path:
    """Makes the run and returns its folder. What was made before is copied, which takes a tenth of the time."""
    w = wanted or Wanted()
    made = _made_before(repr(w)) / "run"
    if not made.exists():
        run = _make(runs, w)
        if w.repeats <= MOST_KEPT:
            shutil.copytree(run, made)
            (made.parent / "name").write_text(run.name)
        return run
    run = runs / (made.parent / "name").read_text()
    return _make(runs, w) if run.exists() else shutil.copytree(made, run)


@cache
def _made_before(wanted: str) -> Path:
    """A folder for this process's first run of the kind, which goes with the process."""
    return Path(tempfile.mkdtemp(dir=_folder().name))


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="dutlab-made-")


def _make(runs: Path, w: Wanted) -> Path:
    dice = random.Random(4711)
    cells = list(_cells(w))
    dice.shuffle(cells)
    plan = {
        "seed": 4711,
        "estimate_s": 1.2 * w.seconds * len(cells),
        "trials": [{"number": n, "cell": c.model_dump(mode="json"), "group": 1} for n, c in enumerate(cells, 1)],
    }
    links = {
        name: {
            "speed": None if w.lab else 10e9,
            "mtu": 1500,
            "path": [f"source:eth-{name}", f"dut:in-{name}", f"dut:out-{name}", f"sink:eth-{name}"],
        }
        for name in "ab"
    }
    resolved = {
        "experiment": {"name": w.experiment, "order": "shuffled", "repeats": w.repeats, "factors": {"mode": list(w.modes.values())}},
        "testbed": {"name": "three-node" if w.lab else "e302-9d", "lab": "three-node" if w.lab else None, "links": links},
        "command": ["dutlab", "run", "examples/firewall-modes/experiment.yaml", "--set", f"repeats={w.repeats}"],
    }
    run = RunFolder.create(
        runs,
        experiment=w.experiment,
        experiment_yaml=b"experiment: firewall-modes\n",
        testbed_yaml=None,
        resolved=resolved,
        plan=plan,
        now=NOW,
        token="3f2a",
        sync=w.sync,
    )
    for host in ("source", "dut", "sink"):
        run.write_host(host, _facts(host, w))
    at, watched, means = NOW, dict[tuple[str, int], Path](), dict[tuple[str, int], Any]()
    for number, cell in enumerate(cells, 1):
        if w.cut_after is not None and number > w.cut_after:
            return run.path
        record = _record(number, cell, at, w, dice)
        samples = list[Sample]()
        if record.status == "measured" and w.cores:
            samples = _samples(w, dice, watched.get((cell.tool, cell.repeat)))
        if record.status == "measured" and not samples:
            record = record.model_copy(update={"watched": means.get((cell.tool, cell.repeat), {})})
        kept = run.write_trial(
            record, {f"{cell.tool}.json": b'{"made": "up"}\n', "stderr.txt": b""} if record.status != "refused" else {}, samples
        )
        if record.status == "measured" and w.cores:
            path = run.path / f"trials/{number:04d}/samples.parquet"
            if not samples:
                shutil.copyfile(watched[cell.tool, cell.repeat], path)
            watched[cell.tool, cell.repeat], means[cell.tool, cell.repeat] = path, kept.watched
        at = record.ended + timedelta(seconds=2)
    run.write_manifest()
    return run.path


def _cells(w: Wanted) -> Iterator[Cell]:
    for mode in w.modes.values():
        for repeat in range(1, w.repeats + 1):
            for links in (("a",), ("b",), ("a", "b")):
                params: dict[str, Any] = {"streams": 4, "omit_s": 5, "duration_s": w.seconds}
                yield cell_of("iperf3", mode=mode, links=links, repeat=repeat, **params)
            for size in w.sizes:
                mix = "64:7,594:4,1518:1" if size == "imix" else f"{size}:1"
                params = {"frame_size": size, "frame_mix": mix, "duration_s": w.seconds, "rate_pps": None}
                yield cell_of("sweep", mode=mode, repeat=repeat, **params)


def _record(number: int, cell: Cell, at: datetime, w: Wanted, dice: random.Random) -> TrialRecord:
    published = {name: mode for mode, name in w.modes.items()}[cell.mode]
    doubts = [doubt(DoubtKind.SHORT_TRIAL, f"{w.seconds} s")] if w.seconds < 60 else []
    if w.lab:
        doubts.append(doubt(DoubtKind.EMBEDDED_LAB))
    made: dict[str, Any] = {
        "trial": number, "cell": cell, "started": at, "ended": at + timedelta(seconds=w.seconds + 5.4), "status": "measured", "figures": {},
        "counters": {"dut": {"softirq_net_rx": dice.randint(10**6, 2 * 10**6), "softnet_dropped": dice.choice([0, 0, 12])}},
        "tool_facts": {"iperf3": "3.12", "engine": "0.1.0, af_packet"} | ({"note": w.hostile} if w.hostile else {}),
        "checks": _checks(published, w),
    }  # fmt: skip
    if w.bad_luck and published == "nat" and cell.repeat == w.repeats and "frame_size" not in cell.params:
        made |= {
            "status": "refused",
            "why": f"mode {cell.mode} is not in force: the source address is translated: found 172.16.0.2 {w.hostile}".strip(),
        }
    elif w.bad_luck and published == "filter-empty" and cell.params.get("frame_size") == 512:
        made |= {
            "status": "failed",
            "why": f"sink: engine: ended with 1 before the trial was over: link in-a went down {w.hostile}".strip(),
        }
    elif cell.tool == "iperf3":
        made["figures"] = _goodput(published, cell, dice)
        made["ceilings"] = {} if w.lab else {link: {"goodput_bps": tcp_goodput(TEN_G) * len(link.split("+"))} for link in made["figures"]}
    else:
        flow, figures = _flow(published, cell, w, dice)
        if w.bad_luck and published == "router" and cell.params["frame_size"] == 128 and cell.repeat == 1:
            flow = replace(flow, received_frames=flow.received_frames - 3, balances=False)
            doubts.append(doubt(DoubtKind.LEDGER_OPEN, "3 frames unaccounted for", "a"))
        if w.bad_luck and cell.params["frame_size"] == 1518 and published in {"router", "nat"}:
            doubts.append(doubt(DoubtKind.RX_DROPPED, f"{dice.randint(20, 90)} frames in the sink's card", "loss_ratio"))
        mean = IMIX_MEAN if cell.params["frame_size"] == "imix" else float(cell.params["frame_size"])
        made |= {"figures": {"a": figures}, "flows": [flow]}
        limit = frames(TEN_G, mean)
        made["ceilings"] = (
            {} if w.lab else {"a": {"received_pps": limit.pps, "received_bps_l1": limit.bps_l1, "received_bps_l2": limit.bps_l2}}
        )
    if w.hostile:
        doubts.append(DoubtRecord(kind=w.hostile, grade="warning", text=w.hostile, remedy=w.hostile, detail=w.hostile))
    return TrialRecord(**made, doubts=doubts)


def _goodput(published: str, cell: Cell, dice: random.Random) -> dict[str, dict[str, float]]:
    with PUBLISHED.open() as f:
        row = next(r for r in csv.DictReader(f) if r["mode"] == published)
    how = "single" if len(cell.links) == 1 else "dual"
    middle = {"a": float(row[f"{how}_ixl2_ixl0_gbps"]) * 1e9, "b": float(row[f"{how}_ixl3_ixl1_gbps"]) * 1e9}
    step = {1: -1, 2: 0, 3: 1}.get(cell.repeat, dice.uniform(-1, 1))  # the median of three is the published figure
    found = {
        link: {"goodput_bps": middle[link] * (1 + step * 0.006 * (1 + i)), "retransmits": float(dice.randint(0, 900))}
        for i, link in enumerate(cell.links)
    }
    if len(cell.links) > 1:
        found["a+b"] = {name: sum(of[name] for of in found.values()) for name in ("goodput_bps", "retransmits")}
    return found


def _flow(published: str, cell: Cell, w: Wanted, dice: random.Random) -> tuple[FlowRecord, dict[str, float]]:
    size = cell.params["frame_size"]
    mean = IMIX_MEAN if size == "imix" else float(size or 0)
    line = frames(TEN_G, mean).pps
    sent = min(line, 0.93e6 * (1 - mean / 9000)) * dice.uniform(0.99, 1.01)
    got = min(sent, PPS[published] * (1 - mean / 12000) * dice.uniform(0.985, 1.015))
    frames_sent, received = int(sent * w.seconds), int(got * w.seconds)
    p50 = int(COSTS_NS[published] * (1 + mean / 900) * dice.uniform(0.95, 1.05))
    late = Latency(
        count=received,
        min_ns=p50 // 2,
        p50_ns=p50,
        p90_ns=p50 * 2,
        p99_ns=int(p50 * 5.4),
        p999_ns=p50 * 11,
        max_ns=p50 * 60,
        mean_ns=p50 * 1.2,
    )
    flow = FlowRecord(
        link="a", intended_frames=frames_sent, sent_frames=frames_sent, refused_frames=0, received_frames=received, lost_frames=frames_sent - received,
        duplicated_frames=0, reordered_frames=0, foreign_frames=0, sent_seconds=float(w.seconds), mean_frame_bytes=mean, received_bytes=int(received * mean),
        balances=True, latency=late,
    )  # fmt: skip
    figures = {
        "offered_pps": frames_sent / w.seconds, "offered_bps_l1": sent * (mean + 20) * 8, "received_pps": received / w.seconds,
        "received_bps_l1": got * (mean + 20) * 8, "received_bps_l2": got * mean * 8, "loss_ratio": flow.lost_frames / frames_sent,
        "latency_p50_ns": float(late.p50_ns), "latency_p99_ns": float(late.p99_ns), "latency_max_ns": float(late.max_ns),
    }  # fmt: skip
    return flow, figures


def _samples(w: Wanted, dice: random.Random, like: Path | None) -> list[Sample]:
    """None where they are to be `like` those of another trial: a file of them takes longer to write than all else of a trial."""
    if like is not None:
        for _ in range(w.seconds * w.samples_a_second * w.cores * 3):
            dice.random()  # what comes after is the same either way
        return []
    out = []
    for tick in range(w.seconds * w.samples_a_second):
        for core in range(w.cores):
            soft = (78 if core == 0 else 30 if core == 1 else 4) * dice.uniform(0.9, 1.05)
            shares = {"softirq": soft, "system": 6 * dice.random(), "user": 2 * dice.random(), "irq": 0.4, "steal": 0.0, "iowait": 0.0}
            shares["idle"] = max(0.0, 100 - sum(shares.values()))
            out += [Sample(tick / w.samples_a_second, "dut", "cpu", f"cpu{core}_{kind}_percent", "%", v) for kind, v in shares.items()]
    return out


def _checks(published: str, w: Wanted) -> list[dict[str, Any]]:
    found = [
        {"what": f"a frame from source reaches sink on link {link}", "passed": True, "found": f"10 of 10 {w.hostile}".strip()}
        for link in "ab"
    ]
    if published == "filter-default":
        found.append({"what": "a new flow from sink to source is dropped", "passed": True, "found": "0 of 10 arrived"})
    if published == "nat":
        found.append({"what": "the source address is translated", "passed": True, "found": "172.16.10.1"})
    return found


def _facts(host: str, w: Wanted) -> dict[str, Any]:
    return {
        "hostname": host, "os": "Debian GNU/Linux 12 (bookworm)", "kernel": "6.1.0-28-amd64",
        "cpu": {"model": "Intel(R) Xeon(R) D-2123IT CPU @ 2.20GHz", "count": 8, "governor": "performance"},
        "mitigations": {"spectre_v2": "Mitigation: Retpolines; IBPB: conditional", "meltdown": "Mitigation: PTI"},
        "interfaces": {"in-a": {"driver": "i40e", "mtu": 1500, "offloads": {"gro": True, "tso": False}}},
        "sysctls": {"net.core.rmem_max": 212992}, "note": w.hostile or f"host {host}", "tools": {"iperf3": "3.12", "engine": "0.1.0"},
    }  # fmt: skip
