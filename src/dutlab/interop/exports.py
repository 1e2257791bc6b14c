"""Export of runs: samples as Parquet, CSV and InfluxDB's line protocol, trials in the formats of iperf3 and trex-loadtest."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dutlab.errors import InputError
from dutlab.interop.loadtest_json import to_bytes
from dutlab.interop.loadtest_run import file_of
from dutlab.store.cell_figures import counts
from dutlab.store.memory_database import to_parquet
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.store.samples import interruptible, literal_glob, samples_in_order
from dutlab.subject import subject_of

SAMPLE_COLUMNS = ("run", "trial", "mode", "workload", "repeat", "at", "t_s", "host", "sensor", "name", "unit", "value")
"""Columns of samples. `at` is UTC by the clock of the measuring machine, `t_s` counts from the start of the trial."""
_NO_SAMPLES = "SELECT 0.0 AS t_s, '' AS host, '' AS sensor, '' AS name, '' AS unit, 0.0 AS value WHERE false"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sample_rows(runs: Sequence[RunFolder]) -> Iterator[tuple[Any, ...]]:
    """Yield every sample of every trial of `runs`, in the order of SAMPLE_COLUMNS; `at` is a datetime. Raises ManySamples, StoreError."""
    for run in runs:
        for r in run.records():
            if (path := run.samples_path(r.trial)) is None:
                continue
            place = (run.name, r.trial, r.cell.mode, r.cell.workload, r.cell.repeat)
            for t_s, *rest in samples_in_order(path):
                yield (*place, r.started + timedelta(seconds=t_s), t_s, *rest)


def samples_csv(runs: Sequence[RunFolder]) -> Iterator[str]:
    """Yield lines of CSV (RFC 4180, but ended by a line feed), the header first. Raises StoreError."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(SAMPLE_COLUMNS)
    for row in sample_rows(runs):
        writer.writerow([value.isoformat() if n == SAMPLE_COLUMNS.index("at") else value for n, value in enumerate(row)])
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()


def samples_parquet(runs: Sequence[RunFolder], path: Path) -> int:
    """Write every sample to `path` as a stream of DuckDB, in the order of their files, and return their number. Raises StoreError."""
    import numpy as np  # noqa: PLC0415 - 80 ms that only this needs

    trials = [(r, run, file) for run in runs for r in run.records() if (file := run.samples_path(r.trial)) is not None]
    places: dict[str, Any] = {
        "filename": _objects([str(file) for _, _, file in trials]),
        "run": _objects([run.name for _, run, _ in trials]),
        "trial": np.array([r.trial for r, _, _ in trials], dtype="int32"),
        "mode": _objects([r.cell.mode for r, _, _ in trials]),
        "workload": _objects([r.cell.workload for r, _, _ in trials]),
        "repeat": np.array([r.cell.repeat for r, _, _ in trials], dtype="int32"),
        "started": np.array([r.started.astimezone(UTC).replace(tzinfo=None) for r, _, _ in trials], dtype="datetime64[us]"),
    }
    source = "read_parquet($globs, filename = true) JOIN places USING (filename)" if trials else f"places, ({_NO_SAMPLES})"
    globs = {"globs": [literal_glob(file) for _, _, file in trials]} if trials else {}
    at = "started + to_microseconds(round(t_s * 1e6)::BIGINT)"
    select = f'SELECT run, trial, mode, workload, repeat, {at} AS "at", t_s, host, sensor, name, unit, value FROM {source}'  # noqa: S608 - our words
    with interruptible():
        return to_parquet(path, select, {"places": places}, globs)


def _objects(texts: Sequence[str]) -> Any:  # noqa: ANN401 - an array of NumPy, which is imported where it is used
    import numpy as np  # noqa: PLC0415 - as above

    array = np.empty(len(texts), dtype="O")
    array[:] = texts
    return array


def influx_lines(runs: Sequence[RunFolder]) -> Iterator[str]:
    """Yield lines of InfluxDB's protocol: `dutlab_sample` for each sample, `dutlab_figure` for each figure of a trial that counts.

    Times are in nanoseconds. Raises StoreError.
    """
    for run in runs:
        for r in run.records():
            for link, of_link in r.figures.items() if counts(r) else ():
                tags = {"run": run.name, "trial": r.trial, "mode": r.cell.mode, "workload": r.cell.workload, "link": link}
                for figure, value in of_link.items():
                    yield _line("dutlab_figure", {**tags, "figure": figure}, value, r.ended)
        for row in sample_rows([run]):
            *_, value = row
            tags = {name: row[n] for n, name in enumerate(SAMPLE_COLUMNS) if name not in ("at", "t_s", "value")}
            yield _line("dutlab_sample", tags, value, row[SAMPLE_COLUMNS.index("at")])


def _line(measurement: str, tags: dict[str, Any], value: float, at: datetime) -> str:
    at_ns = (at - _EPOCH) // timedelta(microseconds=1) * 1000
    tag_text = "".join(f",{name}={_tag(str(tag))}" for name, tag in tags.items() if str(tag))
    return f"{measurement}{tag_text} value={float(value)!r} {at_ns}\n"


def _tag(text: str) -> str:
    """Return a tag value with commas, spaces and equals signs escaped; line feeds and a final backslash cannot be, and are removed."""
    plain = " ".join(text.encode(errors="backslashreplace").decode().split()).rstrip("\\ ")
    return "".join(f"\\{c}" if c in ", =" else c for c in plain) or "-"


def iperf3_files(run: RunFolder) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of a file in the format of `iperf3 -J`, for each link and direction of a trial with goodput or a frame rate.

    A frame rate is converted to bits at layer 2, FCS included. `intervals` is empty. Raises StoreError.
    """
    for r in run.records():
        for link, of_link in r.figures.items() if counts(r) else ():
            if not subject_of(link).is_sum and (rates := _rates(r, of_link)) is not None:
                yield f"trial-{r.trial:04d}-{link}.json", _iperf3(run, r, link, rates)


def _rates(r: TrialRecord, figures: Mapping[str, float]) -> tuple[float, float] | None:
    """Return the sent and received rate in bits per second. Without a sent rate, the received one counts for both."""
    if "goodput_bps" in figures:
        return figures.get("sent_bps", figures["goodput_bps"]), figures["goodput_bps"]
    size = r.cell.setting.size
    if "received_pps" not in figures or not size.isdecimal():
        return None
    received = figures["received_pps"] * int(size) * 8
    return figures.get("offered_pps", figures["received_pps"]) * int(size) * 8, received


def _iperf3(run: RunFolder, r: TrialRecord, link: str, rates: tuple[float, float]) -> bytes:
    seconds = float(r.cell.params.get("duration_s") or (r.ended - r.started).total_seconds())
    sent, received = (
        {"start": 0, "end": seconds, "seconds": seconds, "bytes": int(rate * seconds / 8), "bits_per_second": rate} for rate in rates
    )
    document = {
        "start": {
            "version": f"dutlab, {r.cell.tool}",
            "timestamp": {"time": r.started.strftime("%a, %d %b %Y %H:%M:%S GMT"), "timesecs": int(r.started.timestamp())},
            "test_start": {"protocol": "TCP" if "goodput_bps" in r.figures[link] else "UDP", "duration": seconds,
                           "num_streams": int(r.cell.params.get("streams") or 1)},
        },
        "intervals": [],
        "end": {"sum_sent": sent, "sum_received": received},
        "dutlab": {"run": run.name, "trial": r.trial, "mode": r.cell.mode, "factors": r.cell.factors, "workload": r.cell.workload,
                   "link": link, "repeat": r.cell.repeat, "doubts": [d.kind for d in r.doubts]},
    }  # fmt: skip
    return json.dumps(document, indent=1).encode() + b"\n"


def loadtest_files(run: RunFolder) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of a file in the format of trex-loadtest, for each ramp on one link. Raises StoreError."""
    for r in run.records():
        if counts(r):
            try:
                yield f"trial-{r.trial:04d}.json", to_bytes(file_of(r))
            except InputError:
                continue  # of another workload, or on several links
