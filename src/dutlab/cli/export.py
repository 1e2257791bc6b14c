"""Command `export`: write runs for other programs."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.terminal import say

if TYPE_CHECKING:
    from dutlab.store.run_folder import RunFolder

_METRICS, _SAMPLES, _FILES = ("metrics", "openmetrics"), ("parquet", "csv", "influx"), ("iperf3", "loadtest")


@click.command()
@click.argument("kind", metavar="KIND", type=click.Choice((*_METRICS, *_SAMPLES, *_FILES)))
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("-o", "--output", "out", type=click.Path(path_type=Path),
              help="Where to write: a file; for iperf3 and loadtest a folder.  [standard output]")  # fmt: skip
@click.option("--follow", is_flag=True, help="With metrics: write the file again each second until the run ends.")
@click.option("--json", "as_json", is_flag=True, help="With -o: print the written files, for programs.")
def export(*, kind: str, runs: tuple[Path, ...], out: Path | None, follow: bool, as_json: bool) -> None:
    """KIND is metrics or openmetrics (one run, finished or not), parquet, csv or influx (all samples), iperf3 or loadtest (one file for
    each trial).

    \b
    Example:
      dutlab export metrics runs/2026-11-21T0801Z-soak-3f2a -o /var/lib/prometheus/node-exporter/dutlab.prom --follow
      dutlab export parquet runs/2026-11-21T0801Z-soak-3f2a -o samples.parquet
    """
    if follow and (kind not in _METRICS or out is None):
        raise click.UsageError("--follow needs metrics or openmetrics, and -o FILE")
    if as_json and out is None:
        raise click.UsageError("--json needs -o")
    if kind in _METRICS:
        if len(runs) != 1:
            raise click.UsageError(f"{kind} takes one run")
        _metrics(runs[0], out, openmetrics=kind == "openmetrics", follow=follow)
        words = ""
    else:
        words = _written(kind, runs, out)
    if as_json:
        say(json.dumps({"schema_version": 1, "written": [str(out)]}))
    elif words:
        say(words)


def _written(kind: str, runs: tuple[Path, ...], out: Path | None) -> str:
    """Write samples or files, and return a line about them; empty for standard output."""
    from dutlab.interop.exports import influx_lines, samples_csv
    from dutlab.store.run_folder import RunFolder

    folders = [RunFolder.open(path) for path in dict.fromkeys(p.resolve() for p in runs)]
    if kind in _FILES or kind == "parquet":
        if out is None:
            raise click.UsageError(f"{kind} needs -o {'FILE' if kind == 'parquet' else 'DIR'}")
        return _files(kind, folders, out)
    return _stream(samples_csv(folders) if kind == "csv" else influx_lines(folders), out)


def _metrics(run: Path, out: Path | None, *, openmetrics: bool, follow: bool) -> None:
    from dutlab.interop.metrics import RunMetrics
    from dutlab.store.find import is_running
    from dutlab.store.replace import replace_file

    metrics = RunMetrics(run)
    if out is None:
        say(metrics.text(openmetrics=openmetrics), nl=False)
        return
    while True:
        goes_on = follow and is_running(run)
        replace_file(out, metrics.text(openmetrics=openmetrics).encode())
        if not goes_on:
            return
        time.sleep(1)


def _files(kind: str, runs: list[RunFolder], out: Path) -> str:
    from dutlab.errors import InputError
    from dutlab.interop.exports import iperf3_files, loadtest_files, samples_parquet
    from dutlab.store.replace import file_name, replace_file

    if kind == "parquet":
        return f"{samples_parquet(runs, out)} samples: {out}"
    files = iperf3_files if kind == "iperf3" else loadtest_files
    written = 0
    for run in runs:
        folder = out / run.name if len(runs) > 1 else out
        for name, data in files(run):
            replace_file(folder / f"{file_name(name.removesuffix('.json'))}.json", data)
            written += 1
    if not written:
        raise InputError(f"{', '.join(r.name for r in runs)}: no trial that this format can hold", remedy="export parquet has every sample")
    return f"{written} files: {out}"


def _stream(lines: Iterator[str], out: Path | None) -> str:
    if out is None:
        for line in lines:
            sys.stdout.write(line)
        return ""
    part = out.with_name(f".{out.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("x", encoding="utf-8", errors="backslashreplace") as f:
            f.writelines(lines)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return str(out)
