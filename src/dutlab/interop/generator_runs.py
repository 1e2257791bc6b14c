"""Import of the output of pkt-gen and ipgen: trials of a sweep on one link; ipgen's benchmark becomes workload `generation`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import LINK, Imported, ImportOptions, LeftOut, Omission, imported_cell, repair_doubts
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.tools.generators import ipgen_benchmark, ipgen_log, pkt_gen_log
from dutlab.tools.generators.pkt_gen_log import PktGenRun, SizedReports, Total
from dutlab.units import Pps, l1_rate


def pktgen(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """Read a log of pkt-gen with one or several runs, each of a sender or a receiver. Raises InputError.

    Each run is a trial. A receiver with frames of several sizes gives one trial per size.
    """
    log = pkt_gen_log.parse(data.decode("utf-8", "replace"))
    if not any(run.total is not None or run.reports for run in log.runs):
        raise InputError(f"{name}: has no line of pkt-gen", remedy="keep both standard output and standard error of pkt-gen")
    return [trial for run in log.runs for trial in _of_run(name, run)]


def _of_run(name: str, run: PktGenRun) -> Iterator[Imported]:
    """Yield the trials of a run. A receiver's trials are by frame size, from its reports, since its closing account adds up all sizes."""
    doubts = [f"line {n} is like a report and cannot be read" for n in run.unread]
    doubts += ["it has no final summary: it was cut, and its rate is that of its reports"] if run.total is None else []
    doubts += ["it has the reports of two processes at once: the faster one is read as the sender"] if run.is_one_of_two else []
    doubts += [] if run.direction else ["it does not state whether it sent or received; it is read as a sender"]
    sizes, mixed = pkt_gen_log.by_size(run.reports)
    if len(sizes) < 2:  # noqa: PLR2004 -- one size, or none stated
        size = (sizes[0].frame_bytes if sizes else None) or run.frame_bytes
        yield _sized(name, run, SizedReports(size, tuple(run.reports)), run.total, doubts)
        return
    out: tuple[LeftOut, ...] = (LeftOut("reports", Omission.BETWEEN_TESTS, mixed),) if mixed else ()
    out += (LeftOut("closing accounts", Omission.SEVERAL_TESTS),) if run.total is not None else ()
    for n, reports in enumerate(sizes):
        yield replace(_sized(name, run, reports, None, doubts if n == 0 else ()), left_out=out if n == 0 else ())


def _sized(name: str, run: PktGenRun, reports: SizedReports, total: Total | None, doubts: Sequence[str]) -> Imported:
    """Return the trial of one frame size. `total` is the closing account of this size; None for reports only."""
    direction = "received" if run.direction == "Received" else "offered"
    rate = Pps(reports.pps if total is None else total.pps)
    seconds = sum(r.seconds for r in reports.reports) if total is None else total.seconds
    figures = {f"{direction}_pps": float(rate)}
    if reports.frame_bytes is not None:
        figures[f"{direction}_bps_l1"] = float(l1_rate(rate, reports.frame_bytes))
    if run.asked_pps is not None:
        figures["intended_pps"] = run.asked_pps
    rows: list[Row] = [{"at_s": r.end_s, f"{direction}_pps": r.pps} for r in reports.reports]
    queued = [Doubt(DoubtKind.QUEUED_NOT_SENT, about=LINK)] if direction == "offered" else []
    measured = Measured(figures={LINK: figures}, doubts=(*repair_doubts(doubts), *queued), tables={"seconds": rows})
    cell = _cell(name, "pkt-gen", reports.frame_bytes, float(round(seconds)), rate_pps=run.asked_pps)
    return Imported(cell, measured)


def ipgen(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """Read a log of `-L` as one trial per test, a result of the RFC 2544 test as one per frame size, or the output of `-X`.

    The result is the file of `--rfc2544-output-json`, or the printed table. Raises InputError.
    """
    text = data.decode("utf-8", "replace")
    if '"framesize"' in text[:200]:
        try:
            answers = ipgen_log.parse_answer(text)
        except ValueError as error:
            raise InputError(f"{name}: {error}") from error
        return [_answered(name, answer) for answer in answers]
    if tables := ipgen_log.parse_tables(text):
        return [_answered(name, answer) for table in tables for answer in table]
    batches, unread = ipgen_benchmark.parse_benchmark(text)
    if batches:
        return [_benchmark(name, batch, unread if n == 0 else ()) for n, batch in enumerate(batches)]
    seconds, faults = ipgen_log.parse_log(text)
    if not seconds:
        raise InputError(
            f"{name}: has no line of ipgen{f'; {faults[0]}' if faults else ''}",
            remedy="import what -L wrote, or what -X printed",
        )
    return [_logged(name, test, faults if n == 0 else ()) for n, test in enumerate(ipgen_log.tests_of(seconds))]


def _benchmark(name: str, batch: Sequence[ipgen_benchmark.BenchmarkProcess], unread: Sequence[str]) -> Imported:
    figures, rows = ipgen_benchmark.made_by(batch)
    first, seconds = batch[0], sorted({len(process.made) for process in batch})
    faults = [*unread]
    if len(seconds) > 1:
        faults.append(f"{len(batch)} processes ran at the same time; some made frames for {seconds[0]} s, others for {seconds[-1]} s")
    params = {"frame_size": first.frame_bytes, "work": first.work.value, "streams": len(batch), "duration_s": seconds[-1]}
    cell = imported_cell(PurePath(name).stem, workload="generation", tool="ipgen", params=params)
    return Imported(cell, Measured(figures={LINK: figures}, doubts=repair_doubts(faults), tables={"processes": rows}))


def _logged(name: str, seconds: Sequence[ipgen_log.IpgenSecond], faults: Sequence[str]) -> Imported:
    last, lasted = seconds[-1], seconds[-1].at_s - seconds[0].at_s or 1.0
    sent, received = Pps((last.sent - seconds[0].sent) / lasted), Pps((last.received - seconds[0].received) / lasted)
    figures = {
        "offered_pps": float(sent),
        "received_pps": float(received),
        "offered_bps_l1": float(l1_rate(sent, last.frame_bytes)),
        "received_bps_l1": float(l1_rate(received, last.frame_bytes)),
        "loss_ratio": last.lost / last.sent if last.sent else 0.0,
    }
    latency = {"min": last.latency_min_ns, "mean": last.latency_avg_ns, "max": last.latency_max_ns}
    figures |= {f"latency_{word}_ns": value for word, value in latency.items() if value is not None}
    rows: list[Row] = [{"at_s": s.at_s, "offered_pps": s.offered_pps, "received_pps": s.received_pps} for s in seconds]
    measured = Measured(figures={LINK: figures}, doubts=repair_doubts(faults), tables={"seconds": rows})
    return Imported(_cell(name, "ipgen", last.frame_bytes, round(lasted, 3)), measured)


def _answered(name: str, answer: ipgen_log.IpgenThroughput) -> Imported:
    """Return the trial of a search's result: the last offered rate, which the DUT forwarded with at most the tolerated loss."""
    rate = Pps(answer.pps)
    figures = {"intended_pps": answer.pps, "received_pps": answer.pps, "received_bps_l1": float(l1_rate(rate, answer.frame_bytes))}
    note = f"{answer.frame_bytes} bytes: ipgen's throughput, {answer.pps / (answer.ceiling_pps or 1.0):.1%} of the line rate"
    notes = (note,) if answer.ceiling_pps else ()
    cell = _cell(name, "ipgen", answer.frame_bytes, answer.trial_s, loss_percent=answer.tolerated_percent)
    return Imported(cell, Measured({LINK: figures}, notes=notes))


def _cell(name: str, tool: str, frame: int | None, seconds: float | None, **settings: float | None) -> Cell:
    params = {"frame_size": frame if frame is not None else "not stated", "duration_s": seconds}
    params |= {key: value for key, value in settings.items() if value is not None}
    return imported_cell(PurePath(name).stem, workload="sweep", tool=tool, params=params)
