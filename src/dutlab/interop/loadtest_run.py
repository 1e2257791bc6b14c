"""Import and export of trex-loadtest's files: conversion between such a file and a trial of a ramp."""

from __future__ import annotations

import itertools

from dutlab.errors import InputError
from dutlab.interop.imported_run import BACK, LINK, Imported, ImportOptions, imported_cell
from dutlab.interop.loadtest_json import Channel, LoadtestFile, LoadtestSample, from_bytes, profile_file
from dutlab.methods.loadtest import REFERENCE_LINE, LoadtestSecond, RampRequest, figures_of, notes_of, rows_of, together
from dutlab.methods.ports import Measured
from dutlab.plan.cell import Cell
from dutlab.stats.rescore import LOSS_THRESHOLD, RampSecond
from dutlab.store.record import TrialRecord
from dutlab.subject import back_of, joined
from dutlab.units import BpsL1, Pps, Seconds, parse_pps, si


def imported(name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """Read the file `name` as a trial. The device is named after the file, without `.json`. Raises InputError."""
    of = from_bytes(data, name)
    ramp = _ramp(of, options)
    directions = {LINK: _seconds(of, 0, ramp.line)} | ({} if of.unidirectional else {BACK: _seconds(of, 1, ramp.line)})
    seconds = dict(directions)
    if len(directions) > 1:
        seconds[joined(directions)] = together(list(directions.values()))
    figures = {name: figures_of(of_direction, ramp, LOSS_THRESHOLD) | _loss(of_direction) for name, of_direction in seconds.items()}
    notes = [
        *notes_of(seconds, ramp, LOSS_THRESHOLD, cut=_cut(of)),
        "loss is of the rates of each second: frames were not counted one by one",
    ]
    measured = Measured(
        figures=figures,
        notes=notes,
        tables={"seconds": [row for direction, of_direction in directions.items() for row in rows_of(direction, of_direction, ramp)]},
    )
    return [Imported(_cell(of, ramp, name.rsplit("/", 1)[-1].removesuffix(".json")), measured)]


def file_of(record: TrialRecord) -> LoadtestFile:
    """Return a trial of a ramp on one link as a trex-loadtest file. Raises InputError for any other trial."""
    rows, params = record.tables.get("seconds", []), record.cell.params
    if record.cell.workload != "loadtest" or not rows or len(record.cell.links) != 1:
        what = f"trial {record.trial} is not a ramp on one link with a result"
        raise InputError(what, remedy="trex-loadtest's file has two channels: those of one link")
    (link,) = record.cell.links
    there, back = ([row for row in rows if row["direction"] == direction] for direction in (link, back_of(link)))
    both = zip(there, back or [{}] * len(there), strict=False)  # as far as both directions were read
    begun = record.started.timestamp()

    def port(sends: dict[str, int | float | str | None], receives: dict[str, int | float | str | None]) -> Channel:
        tx, rx = ({k: float(row.get(k) or 0.0) for k in _COLUMNS} for row in (sends, receives))
        return Channel(
            tx["offered_pps"],
            rx["received_pps"],
            tx["offered_line_ratio"] * 100,
            rx["received_line_ratio"] * 100,
            tx["offered_bps_l1"],
            rx["received_bps_l1"],
        )

    return LoadtestFile(
        warmup_mult=str(params.get("warmup_mult") or si(float(params.get("warmup_pps") or 0.0), "pps", 6).replace(" ", "")),
        warmup_duration=float(params["warmup_s"] or 0.0),
        rampup_target=float(params["target_percent"] or 0.0),
        rampup_duration=float(params["rampup_s"] or 0.0),
        hold_duration=float(params["hold_s"] or 0.0),
        profile_file=profile_file(str(params["frame_size"])),
        samples=tuple(LoadtestSample(f"{begun + float(a['at_s'] or 0.0):.3f}", (port(a, b), port(b, a))) for a, b in both),
        unidirectional=params.get("directions") != "both",
    )


_LATE_S = 2.0
"""Time by which a file may end before its ramp and still be whole: the first and the last second may be missing."""
_COLUMNS = ("offered_pps", "received_pps", "offered_line_ratio", "received_line_ratio", "offered_bps_l1", "received_bps_l1")


def _ramp(of: LoadtestFile, options: ImportOptions) -> RampRequest:
    line_of_file = of.line_bps_l1
    line, source = (
        (options.line_rate, "the line rate that was given")
        if options.line_rate is not None
        else (BpsL1(line_of_file), "the line rate from bits and utilisation in the file")
        if line_of_file is not None
        else (REFERENCE_LINE, "a reference, since the file has no bits and no line rate was given")
    )
    try:
        warmup = parse_pps(of.warmup_mult)
    except ValueError:
        warmup = Pps(0.0)  # a share, or bits: kept as the file's text, and not used in computations here
    return RampRequest(warmup, Seconds(of.warmup_duration), Pps(0.0), Seconds(of.rampup_duration), Seconds(of.hold_duration), line, source)


def _seconds(of: LoadtestFile, sender: int, line: BpsL1) -> list[LoadtestSecond]:
    """Return the seconds of the direction from port `sender` to the other port."""
    seconds = []
    for at, sample in zip(_instants(of), of.samples, strict=True):
        tx, rx = sample.ports[sender], sample.ports[1 - sender]
        bits = [
            BpsL1(known if known is not None else util / 100 * line)
            for known, util in ((tx.tx_bps_l1, tx.tx_util), (rx.rx_bps_l1, rx.rx_util))
        ]
        seconds.append(LoadtestSecond(at, None, RampSecond(at, tx.tx_pps, rx.rx_pps), *bits))
    return seconds


def _cut(of: LoadtestFile) -> str:
    """Return a sentence if the file ends before its ramp; empty for a whole ramp."""
    asked, end_s = of.warmup_duration + of.rampup_duration, _instants(of)[-1]
    return "" if end_s >= asked - _LATE_S else f"the file ends {end_s:.0f} s into a ramp that was to last {asked:.0f} s"


def _instants(of: LoadtestFile) -> list[float]:
    """Return the end time of each sample, from the first frame on: from the keys if they are rising time stamps, else one a second."""
    try:
        stamps = [float(s.key) for s in of.samples]
    except ValueError:
        stamps = []
    if not stamps or any(b <= a for a, b in itertools.pairwise(stamps)):
        return [float(n) for n in range(1, len(of.samples) + 1)]
    return [round(stamp - stamps[0] + 1.0, 3) for stamp in stamps]


def _loss(seconds: list[LoadtestSecond]) -> dict[str, float]:
    sent = sum(s.counted.offered_pps for s in seconds)
    lost = sum(s.counted.loss_ratio * s.counted.offered_pps for s in seconds)
    return {"loss_ratio": lost / sent} if sent > 0 else {}


def _cell(of: LoadtestFile, ramp: RampRequest, device: str) -> Cell:
    return imported_cell(
        device,
        workload="loadtest",
        tool="trex-loadtest",
        params={
            "frame_size": of.profile,
            "directions": "forward" if of.unidirectional else "both",
            "warmup_mult": of.warmup_mult,
            "warmup_s": of.warmup_duration,
            "target_percent": of.rampup_target,
            "rampup_s": of.rampup_duration,
            "hold_s": of.hold_duration,
            "line_rate_bps_l1": ramp.line,
            "threshold_percent": LOSS_THRESHOLD * 100,
        },
    )
