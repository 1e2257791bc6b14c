"""import: other people's files become a run like any other."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from dutlab.cli.run import RUNS
from dutlab.errors import InputError
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.interop.importers import IMPORTERS, importer
from dutlab.report import write_report
from dutlab.units import BpsL1, UnitError, parse_bit_rate


@click.command("import")
@click.argument("kind", type=click.Choice(sorted(IMPORTERS)))
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--line-rate", metavar="RATE", help="What percentages are of, where the files do not tell.  [1G]")
@RUNS
def import_files(*, kind: str, files: tuple[Path, ...], line_rate: str | None, runs: Path) -> None:
    """Read other tools' files into a run, marked as imported, and write its report. The name of a file stands for the device.

    \b
    Example:
      dutlab import loadtest vpp-imix.json danos-imix.json --line-rate 1G
    """  # noqa: D301
    try:
        options = ImportOptions(None if line_rate is None else BpsL1(parse_bit_rate(line_rate)))
    except UnitError as e:
        raise InputError(f"--line-rate: {e}") from e
    read, faults = importer(kind), []
    found = []
    for path in files:
        try:
            found += read(str(path), path.read_bytes(), options)
        except InputError as e:
            faults.append(str(e))
    if faults:
        raise InputError("; ".join(faults))
    name = f"{kind}-{files[0].stem}" if len(files) == 1 else f"{kind}-import"
    run = write_imported(runs, _safe(name), found, command=("dutlab", *sys.argv[1:]), now=datetime.now(UTC))
    written = write_report([run.path], formats=("html", "md", "csv", "json"), out=None)
    for trial in found:
        for note in trial.measured.notes:
            click.echo(f"{trial.cell.mode}: {note}")
    click.echo(f"{len(found)} imported: {run.path}")
    click.echo(f"report: {next(p for p in written if p.suffix == '.html')}")


def _safe(name: str) -> str:
    """A name for a run's folder."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:48].strip("-") or "import"
