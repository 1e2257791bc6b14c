"""Command `import`: make a run from result files of other tools."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.choices import IMPORTS
from dutlab.cli.manner import CommonOptions
from dutlab.cli.options import RUNS
from dutlab.cli.terminal import say, say_words
from dutlab.errors import InputError
from dutlab.units import BpsL1, UnitError, parse_bit_rate

if TYPE_CHECKING:
    from dutlab.interop.imported_run import Imported, StatedTestbed

_NO_RESULTS = re.compile(r"(?:readme|license|copying|makefile)(?:\..*)?|.+\.(?:md|rst|fio|sh|py|html|svg|png|pdf)|\..*", re.IGNORECASE)
MOST_WORDS = 20
"""Most notes that are printed; the report has all."""


@click.command("import")
@click.argument("kind", type=click.Choice(IMPORTS))
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--line-rate",
    metavar="RATE",
    help="Rate of the link: rates above it are doubted, and the report names the figures that it limited.  [not known]",
)
@click.option(
    "--testbed",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Testbed file of the figures, for the report: its block diagram and specification.  [not known]",
)
@RUNS
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, and nothing else on standard output.")
@click.pass_context
def import_files(
    context: click.Context, *, kind: str, paths: tuple[Path, ...], line_rate: str | None, testbed: Path | None, runs: Path, as_json: bool
) -> None:
    """The file's name becomes the name of the device.

    Data that fit no figure, and missing units, are listed here and in the report.

    In a folder, all files are read, also in subfolders, except files such as README and job files. Files of the same name in several
    folders are repeats, unless the folder's name is that of the device.

    \b
    Example:
      dutlab import loadtest vpp-imix.json danos-imix.json --line-rate 1G
    """
    from dutlab.interop.imported_run import ImportOptions, frame_words, write_imported
    from dutlab.interop.importers import read_files

    try:
        options = ImportOptions(None if line_rate is None else BpsL1(parse_bit_rate(line_rate)))
    except UnitError as e:
        raise InputError(f"--line-rate: {e}") from e
    stated = None if testbed is None else _stated(testbed)
    named, others = _files(paths)
    if not named:
        raise InputError(f"no file in {', '.join(map(str, paths))}")
    try:
        trials, faults = read_files(kind, named, options)
        name = f"{kind}-{paths[0].stem}" if len(paths) == 1 else f"{kind}-import"
        command, bed = ("dutlab", *sys.argv[1:]), IMPORTS[kind].bed
        run = write_imported(runs, _safe(name), trials, command=command, now=datetime.now(UTC), bed=bed, testbed=stated)
    except OSError as e:
        raise InputError(f"{e.filename}: cannot be read: {e.strerror}") from e
    _say([f"passed over: {path.name}" for path in others], err=as_json)
    _say(_notes(trials), err=as_json)
    _say(frame_words(trials), err=as_json)
    _say(faults, err=as_json)
    count = len(trials) - len(faults)
    say(f"{count} imported{f', {len(faults)} without a result' if faults else ''}: {run.path}", err=as_json)
    CommonOptions(form="json" if as_json else "text").print_answers([run.path])
    if faults:
        context.exit(1)


def _stated(path: Path) -> StatedTestbed:
    """Return the testbed in a file, which is read once. Raises SpecRefused."""
    from dutlab.interop.imported_run import StatedTestbed
    from dutlab.spec.drive_models import with_models
    from dutlab.spec.loader import given_testbed
    from dutlab.spec.yaml_source import read_file

    text = read_file(path)
    return StatedTestbed(with_models(text, path), given_testbed(text, path).model_dump(mode="json"))


def _files(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return the files to read, and the files in the same folders whose names show that they hold no results."""
    named = [path for path in paths if not path.is_dir()]
    files = [path for folder in paths if folder.is_dir() for path in sorted(p for p in folder.rglob("*") if p.is_file())]
    others = [path for path in files if _NO_RESULTS.fullmatch(path.name)]
    return [*named, *(path for path in files if path not in others)], others


def _notes(trials: Sequence[Imported]) -> list[str]:
    return list(dict.fromkeys(f"{trial.cell.mode}: {note}" for trial in trials for note in trial.measured.notes if note))


def _say(sentences: Sequence[str], *, err: bool) -> None:
    for sentence in sentences[:MOST_WORDS]:
        say_words(sentence, err=err)
    if (more := len(sentences) - MOST_WORDS) > 0:
        say(f"and {more} more, in the report", err=err)


def _safe(name: str) -> str:
    """Return a name that suits a run's folder."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:48].strip("-") or "import"
