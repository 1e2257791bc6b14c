"""campaign run, status, resume."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.told import say, table, tell
from dutlab.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dutlab.runner.campaign import CampaignFolder, RunStanding

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs.")
_FOLDER = click.argument("folder", metavar="CAMPAIGN", type=click.Path(path_type=Path, exists=True, file_okay=False))


@click.group()
def campaign() -> None:
    """Carry out many runs: experiments on testbeds, in versions, on several nights.

    \b
    Example:
      dutlab campaign run nightly.yaml
    """  # noqa: D301


@campaign.command("run")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--into", type=click.Path(path_type=Path, file_okay=False), help="Folder of the campaign.  [campaigns/NAME]")
@click.option("--plan", "only_plan", is_flag=True, help="Show the runs and end.")
@_JSON
def run_(*, file: Path, into: Path | None, only_plan: bool, as_json: bool) -> None:
    """Begin a campaign, and carry out every run of it.

    \b
    Example:
      dutlab campaign run nightly.yaml
    """  # noqa: D301
    from dutlab.runner.campaign import CampaignFolder, CampaignState, RunStanding  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.spec.campaign import read_campaign  # noqa: PLC0415 -- `--help` needs none of it

    planned = read_campaign(file)
    if only_plan:
        _show([RunStanding(run, CampaignState.PLANNED, None, 0, None, "") for run in planned.runs], as_json=as_json)
        return
    folder = CampaignFolder.create(into or Path("campaigns") / planned.campaign.name, planned, _version())
    _carry_out(folder, as_json=as_json)


@campaign.command()
@_FOLDER
@_JSON
def resume(*, folder: Path, as_json: bool) -> None:
    """Go on with a campaign: finish runs that were cut, and make those that are missing.

    \b
    Example:
      dutlab campaign resume campaigns/nightly
    """  # noqa: D301
    from dutlab.runner.campaign import CampaignFolder  # noqa: PLC0415 -- `--help` needs none of it

    found = CampaignFolder(folder)
    found.insist_on_its_files(_version())
    _carry_out(found, as_json=as_json)


@campaign.command()
@_FOLDER
@_JSON
def status(*, folder: Path, as_json: bool) -> None:
    """Show what became of each run of a campaign. Changes nothing.

    \b
    Example:
      dutlab campaign status campaigns/nightly
    """  # noqa: D301
    from dutlab.runner.campaign import CampaignFolder  # noqa: PLC0415 -- `--help` needs none of it

    found = CampaignFolder(folder)
    _show([found.standing(run) for run in found.planned()], as_json=as_json)


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415 -- `--help` needs none of it

    return version("dutlab")


def _carry_out(folder: CampaignFolder, *, as_json: bool) -> None:
    from dutlab.cli.loop import run_in_order  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.runner.campaign import CampaignState, CampaignWork  # noqa: PLC0415 -- `--help` needs none of it

    standings = run_in_order(CampaignWork(folder, tell).carry_out())
    _show(standings, as_json=as_json)
    if not as_json and any(s.state is CampaignState.DONE for s in standings):
        say(f"Every run of it: dutlab runs --runs {folder.runs}")
    left = [s for s in standings if s.state is not CampaignState.DONE]
    if left and not as_json:
        say(f"{len(left)} of {len(standings)} not measured; `dutlab campaign resume {folder.path}` tries again")
    click.get_current_context().exit(1 if left else 0)


def _show(standings: Sequence[RunStanding], *, as_json: bool) -> None:
    if as_json:
        say(json.dumps({"schema_version": 1, "runs": [_plain(s) for s in standings]}, indent=1))
        return
    head = ("run", "experiment", "testbed", "version", "night", "state", "tries")
    rows = [
        (str(p.number), p.experiment, p.testbed, p.version or "as found", str(p.night), str(s.state), str(s.tries))
        for s in standings
        for p in [s.planned]
    ]
    for line in table(head, rows, right={0, 4, 6}):
        say(line)
    for s in standings:
        if s.said:
            say(f"run {s.planned.number}: {printable(s.said)}")


def _plain(standing: RunStanding) -> dict[str, object]:
    planned = asdict(standing.planned)
    return {**planned, "state": str(standing.state), "run": standing.run, "tries": standing.tries, "exit_status": standing.exit_status}
