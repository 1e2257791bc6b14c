"""What pkt-gen and ipgen print as trials of ours: frames on one link as a sweep finds them, ipgen's own benchmark as `generation`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import LINK, Imported, ImportOptions, imported_cell, mended
from dutlab.methods.ports import Measured, Row
from dutlab.physics.ceilings import frames
from dutlab.plan.cell import Cell
from dutlab.tools.generators import ipgen_benchmark, ipgen_log, pkt_gen_log
from dutlab.tools.generators.pkt_gen_log import PktGenRun, SizedReports
from dutlab.units import Pps, l1_rate


def pktgen(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """A log of one or several runs, each of a sender or a receiver: a trial a run, of a receiver that took several sizes one a size.

    Raises InputError.
    """
    log = pkt_gen_log.parse(data.decode("utf-8", "replace"))
    if not any(run.total is not None or run.reports for run in log.runs):
        raise InputError(f"{name}: no line of it is one of pkt-gen's", remedy="keep both standard output and standard error of pkt-gen")
    return [trial for run in log.runs for trial in _of_run(name, run, options)]


def _of_run(name: str, run: PktGenRun, options: ImportOptions) -> Iterator[Imported]:
    """What a receiver took is of as many sizes as its reports say; its closing account is of all of them together."""
    doubts = [f"line {n} is like a report and cannot be read" for n in run.unread]
    doubts += ["it has no closing account: it was cut, and its rate is that of its reports"] if run.total is None else []
    doubts += [] if run.direction else ["nothing says whether it sent or received; it is taken for a sender"]
    sizes, mixed = pkt_gen_log.by_size(run.reports)
    if len(sizes) > 1:
        note = f"it received frames of {len(sizes)} sizes one after another; {mixed} reports between them are left out"
        for n, of in enumerate(sizes):
            yield _sized(name, run, of, options, doubts=doubts if n == 0 else [], notes=[note] if n == 0 else [])
        return
    (of,) = sizes or [SizedReports(None, tuple(run.reports))]
    yield _sized(name, run, SizedReports(of.frame_bytes or run.frame_bytes, tuple(run.reports)), options, whole=True, doubts=doubts)


def _sized(
    name: str,
    run: PktGenRun,
    of: SizedReports,
    options: ImportOptions,
    *,
    whole: bool = False,
    doubts: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Imported:
    what = "received" if run.direction == "Received" else "offered"
    total = run.total if whole else None
    rate = Pps(of.pps if total is None else total.pps)
    seconds = sum(r.seconds for r in of.reports) if total is None else total.seconds
    figures = {f"{what}_pps": float(rate)}
    if of.frame_bytes is not None:
        figures[f"{what}_bps_l1"] = float(l1_rate(rate, of.frame_bytes))
    if run.asked_pps is not None:
        figures["intended_pps"] = run.asked_pps
    rows: list[Row] = [{"at_s": r.end_s, f"{what}_pps": r.pps} for r in of.reports]
    queued = [Doubt(DoubtKind.QUEUED_NOT_SENT, about=LINK)] if what == "offered" else []
    measured = Measured(figures={LINK: figures}, doubts=(*mended(doubts), *queued), notes=notes, tables={"seconds": rows})
    cell = _cell(name, "pkt-gen", of.frame_bytes, float(round(seconds)), rate_pps=run.asked_pps)
    return Imported(cell, measured, ceilings=_ceilings(of.frame_bytes, options))


def _ceilings(frame: int | None, options: ImportOptions) -> dict[str, dict[str, float]]:
    """What a line of the user's rate carries of such frames."""
    if frame is None or options.line_rate is None:
        return {}
    most = frames(options.line_rate, frame)
    return {LINK: {"received_pps": float(most.pps), "received_bps_l1": float(most.bps_l1), "received_bps_l2": float(most.bps_l2)}}


def ipgen(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """A log of `-L` as one trial, the answer of its RFC 2544 test as one a frame size, or what `-X` printed. Raises InputError.

    The answer is what `--rfc2544-output-json` wrote, or the table that it prints.
    """
    text = data.decode("utf-8", "replace")
    if '"framesize"' in text[:200]:
        try:
            answers = ipgen_log.parse_answer(text)
        except ValueError as error:
            raise InputError(f"{name}: {error}") from error
        return [_answered(name, answer, options) for answer in answers]
    if tables := ipgen_log.parse_tables(text):
        return [_answered(name, answer, options) for table in tables for answer in table]
    batches, unread = ipgen_benchmark.parse_benchmark(text)
    if batches:
        return [_benchmark(name, batch, unread if n == 0 else ()) for n, batch in enumerate(batches)]
    seconds, faults = ipgen_log.parse_log(text)
    if not seconds:
        raise InputError(
            f"{name}: no line of it is one of ipgen's{f'; {faults[0]}' if faults else ''}",
            remedy="import what -L wrote, or what -X printed",
        )
    return [_logged(name, seconds, faults, options)]


def _benchmark(name: str, batch: Sequence[ipgen_benchmark.BenchmarkProcess], unread: Sequence[str]) -> Imported:
    figures, rows = ipgen_benchmark.made_by(batch)
    first, seconds = batch[0], sorted({len(process.made) for process in batch})
    faults = [*unread]
    if len(seconds) > 1:
        faults.append(f"of {len(batch)} processes at once some made frames for {seconds[0]} s, others for {seconds[-1]} s")
    params = {"frame_size": first.frame_bytes, "work": first.work.value, "streams": len(batch), "duration_s": seconds[-1]}
    cell = imported_cell(PurePath(name).stem, workload="generation", tool="ipgen", params=params)
    return Imported(cell, Measured(figures={LINK: figures}, doubts=mended(faults), tables={"processes": rows}))


def _logged(name: str, seconds: Sequence[ipgen_log.IpgenSecond], faults: Sequence[str], options: ImportOptions) -> Imported:
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
    return Imported(_cell(name, "ipgen", last.frame_bytes, round(lasted, 3)), measured, ceilings=_ceilings(last.frame_bytes, options))


def _answered(name: str, answer: ipgen_log.IpgenThroughput, options: ImportOptions) -> Imported:
    """The rate that its search ended with: what it offered last and what came through, but for the loss that it tolerates."""
    rate = Pps(answer.pps)
    figures = {"intended_pps": answer.pps, "received_pps": answer.pps, "received_bps_l1": float(l1_rate(rate, answer.frame_bytes))}
    notes = (
        f"{answer.frame_bytes} bytes: ipgen's throughput, {answer.pps / answer.ceiling_pps:.1%} of the line rate"
        if answer.ceiling_pps
        else "",
    )
    cell = _cell(name, "ipgen", answer.frame_bytes, answer.trial_s, loss_percent=answer.tolerated_percent)
    return Imported(cell, Measured({LINK: figures}, notes=notes), ceilings=_ceilings(answer.frame_bytes, options))


def _cell(name: str, tool: str, frame: int | None, seconds: float | None, **told: float | None) -> Cell:
    params = {"frame_size": frame if frame is not None else "not told", "duration_s": seconds}
    params |= {key: value for key, value in told.items() if value is not None}
    return imported_cell(PurePath(name).stem, workload="sweep", tool=tool, params=params)
