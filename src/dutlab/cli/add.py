"""Commands `attach` and `note`: add files and notes to a run."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from dutlab.cli.options import JSON
from dutlab.cli.terminal import say

_RUN = click.argument("run", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False))
_BY = click.option("--by", default="", metavar="NAME", help="Author of the note; the report names the author.")


@click.command()
@_RUN
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--caption", required=True, metavar="TEXT", help="What the file shows.")
@_BY
@JSON
def attach(*, run: Path, file: Path, caption: str, by: str, as_json: bool) -> None:
    """The report shows added pictures, and the hash of each added file.

    \b
    Example:
      dutlab attach runs/2026-11-21T0801Z-firewall-modes-3f2a heat.jpg --caption "The box after an hour at full load"
    """
    _add(run, caption, by, file, as_json=as_json)


@click.command()
@_RUN
@click.argument("text", metavar="TEXT")
@_BY
@JSON
def note(*, run: Path, text: str, by: str, as_json: bool) -> None:
    """\b
    Example:
      dutlab note runs/2026-11-21T0801Z-firewall-modes-3f2a "The vendor lent the device for two weeks." --by "A. Reviewer"
    """
    _add(run, text, by, None, as_json=as_json)


def _add(run: Path, text: str, by: str, file: Path | None, *, as_json: bool) -> None:
    from dutlab.store.additions import add
    from dutlab.store.run_folder import RunFolder

    RunFolder.open(run)
    written = add(run, text, now=datetime.now(UTC), by=by, file=file)
    if as_json:
        say(json.dumps({"schema_version": 1, "written": [str(written)]}))
        return
    say(written)
    say(f"dutlab report {run} writes it into the report")
