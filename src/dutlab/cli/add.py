"""Commands `attach` and `note`: add files and notes to a run."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.options import JSON
from dutlab.cli.terminal import say
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.store.run_folder import RunFolder

_RUN = click.argument("run", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False))
_BY = click.option("--by", default="", metavar="NAME", help="Author of the note; the report names the author.")


@click.command()
@_RUN
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--caption", required=True, metavar="TEXT", help="Description of the file.")
@click.option("--facts", "host", metavar="HOST", help="Read FILE as settings of this host, for `compare`: NAME: VALUE lines, or JSON.")
@_BY
@JSON
def attach(*, run: Path, file: Path, caption: str, host: str | None, by: str, as_json: bool) -> None:
    """The report shows added pictures, and the hash of each added file.

    \b
    Example:
      dutlab attach runs/2026-11-21T0801Z-firewall-modes-3f2a heat.jpg --caption "The box after an hour at full load"
      dutlab attach runs/2026-11-21T0801Z-firewall-modes-3f2a bios.txt --facts dut --caption "BIOS settings"
    """
    _add(run, caption, by, file, host=host, as_json=as_json)


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
    _add(run, text, by, None, host=None, as_json=as_json)


def _add(run: Path, text: str, by: str, file: Path | None, *, host: str | None, as_json: bool) -> None:
    from dutlab.store.additions import add
    from dutlab.store.run_folder import RunFolder

    folder = RunFolder.open(run)
    facts = None if file is None or host is None else _facts_of(folder, file, host)
    written = add(run, text, now=datetime.now(UTC), by=by, file=file, host=host or "", facts=facts)
    if as_json:
        say(json.dumps({"schema_version": 1, "written": [str(written)]}))
        return
    say(written)
    say(f"dutlab report {run} writes it into the report")


def _facts_of(run: RunFolder, file: Path, host: str) -> dict[str, str]:
    """Return the settings in `file`. Raises InputError for a host that the run does not have."""
    from dutlab import outside
    from dutlab.bounds import TABLE
    from dutlab.interop.setting_lines import settings_of

    testbed = run.resolved.get("testbed")
    hosts = {*run.hosts(), *(testbed.get("hosts") or () if isinstance(testbed, dict) else ())}
    if hosts and host not in hosts:
        raise InputError(f"--facts {host}: the run has no such host", remedy=f"it has {', '.join(sorted(hosts))}")
    return settings_of(file.name, outside.read_given(file, TABLE))
