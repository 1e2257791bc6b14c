"""What pkt-gen and ipgen print as trials of ours: frames on one link as a sweep finds them, ipgen's own benchmark as `generation`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from dutlab.errors import InputError
from dutlab.interop.imported_run import LINK, Imported, ImportOptions, imported_cell, mended
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.tools.generators import ipgen_benchmark, ipgen_log, pkt_gen_log
from dutlab.units import Pps, l1_rate

FCS_BYTES = 4


def pktgen(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """One log, of a sender or a receiver: its rate over the whole, and of each report. Raises InputError."""
    del options
    log = pkt_gen_log.parse(data.decode("utf-8", "replace"))
    if log.total is None and not log.reports:
        raise InputError(f"{name}: no line of it is one of pkt-gen's", remedy="keep both standard output and standard error of pkt-gen")
    what = "received" if log.total is not None and log.total.direction == "Received" else "offered"
    frame = None if log.total is None or not log.total.packets else log.total.bytes / log.total.packets + FCS_BYTES
    seconds = sum(r.seconds for r in log.reports)
    rate = Pps(log.total.pps if log.total is not None else sum(r.packets for r in log.reports) / seconds if seconds else 0.0)
    figures = {f"{what}_pps": float(rate)} | ({} if frame is None else {f"{what}_bps_l1": float(l1_rate(rate, frame))})
    doubts = [f"line {n} is like a report and cannot be read" for n in log.unread]
    doubts += ["it has no closing account: it was cut, and its rate is that of its reports"] if log.total is None else []
    rows: list[Row] = [{"at_s": r.end_s, f"{what}_pps": r.pps} for r in log.reports]
    measured = Measured(figures={LINK: figures}, doubts=mended(doubts), tables={"seconds": rows})
    size = round(frame) if frame is not None else None
    return [Imported(_cell(name, "pkt-gen", size, log.total.seconds if log.total else seconds), measured)]


def ipgen(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """A log of `-L` as one trial, the answer of `--rfc2544-output-json` as one a frame size, or what `-X` printed. Raises InputError."""
    del options
    text = data.decode("utf-8", "replace")
    if '"framesize"' in text[:200]:
        try:
            answers = ipgen_log.parse_answer(text)
        except ValueError as error:
            raise InputError(f"{name}: {error}") from error
        return [_answered(name, answer) for answer in answers]
    batches, unread = ipgen_benchmark.parse_benchmark(text)
    if batches:
        return [_benchmark(name, batch, unread if n == 0 else ()) for n, batch in enumerate(batches)]
    seconds, faults = ipgen_log.parse_log(text)
    if not seconds:
        raise InputError(
            f"{name}: no line of it is one of ipgen's{f'; {faults[0]}' if faults else ''}",
            remedy="import what -L wrote, or what -X printed",
        )
    return [_logged(name, seconds, faults)]


def _benchmark(name: str, batch: Sequence[ipgen_benchmark.BenchmarkProcess], unread: Sequence[str]) -> Imported:
    figures, rows = ipgen_benchmark.made_by(batch)
    first, seconds = batch[0], sorted({len(process.made) for process in batch})
    faults = [*unread]
    if len(seconds) > 1:
        faults.append(f"of {len(batch)} processes at once some made frames for {seconds[0]} s, others for {seconds[-1]} s")
    params = {"frame_size": first.frame_bytes, "work": first.work.value, "streams": len(batch), "duration_s": seconds[-1]}
    cell = imported_cell(PurePath(name).stem, workload="generation", tool="ipgen", params=params)
    return Imported(cell, Measured(figures={LINK: figures}, doubts=mended(faults), tables={"processes": rows}))


def _logged(name: str, seconds: Sequence[ipgen_log.IpgenSecond], faults: Sequence[str]) -> Imported:
    last, lasted = seconds[-1], seconds[-1].at_s - seconds[0].at_s or 1.0
    sent, received = Pps((last.sent - seconds[0].sent) / lasted), Pps((last.received - seconds[0].received) / lasted)
    figures = {
        "offered_pps": float(sent),
        "received_pps": float(received),
        "offered_bps_l1": float(l1_rate(sent, last.frame_bytes)),
        "received_bps_l1": float(l1_rate(received, last.frame_bytes)),
        "loss_ratio": max(0, last.lost) / last.sent if last.sent else 0.0,
    }
    latency = {"min": last.latency_min_ns, "mean": last.latency_avg_ns, "max": last.latency_max_ns}
    figures |= {f"latency_{word}_ns": value for word, value in latency.items() if value is not None}
    doubts = list(faults)
    if last.lost < 0:
        doubts.append(f"it counts {-last.lost} frames more received than sent")
    rows: list[Row] = [{"at_s": s.at_s, "offered_pps": s.offered_pps, "received_pps": s.received_pps} for s in seconds]
    measured = Measured(figures={LINK: figures}, doubts=mended(doubts), tables={"seconds": rows})
    return Imported(_cell(name, "ipgen", last.frame_bytes, round(lasted, 3)), measured)


def _answered(name: str, answer: ipgen_log.IpgenThroughput) -> Imported:
    rate = Pps(answer.pps)
    figures = {"received_pps": answer.pps, "received_bps_l1": float(l1_rate(rate, answer.frame_bytes))}
    notes = (
        f"{answer.frame_bytes} bytes: ipgen's throughput, {answer.pps / answer.ceiling_pps:.1%} of the line rate"
        if answer.ceiling_pps
        else "",
    )
    return Imported(_cell(name, "ipgen", answer.frame_bytes, None), Measured({LINK: figures}, notes=notes))


def _cell(name: str, tool: str, frame: int | None, seconds: float | None) -> Cell:
    params = {"frame_size": frame if frame is not None else "not told", "duration_s": seconds}
    return imported_cell(PurePath(name).stem, workload="sweep", tool=tool, params=params)
