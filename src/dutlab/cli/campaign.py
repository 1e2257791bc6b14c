"""Command `campaign`: carry out many runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.terminal import say, table, tell
from dutlab.errors import InputError, TestbedError
from dutlab.printable import printable
from dutlab.release import version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dutlab.runner.campaign_folder import CampaignFolder, RunStanding
    from dutlab.runner.fleet.cost import FleetCost

_JSON = click.option("--json", "as_json", is_flag=True, help="For programs.")
_FOLDER = click.argument("folder", metavar="CAMPAIGN", type=click.Path(path_type=Path, exists=True, file_okay=False))


@click.group()
def campaign() -> None:
    """\b
    Example:
      dutlab campaign run nightly.yaml
    """


@campaign.command("run")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--into", type=click.Path(path_type=Path, file_okay=False), help="Folder of the campaign.  [campaigns/NAME]")
@click.option("--plan", "only_plan", is_flag=True, help="Show the runs and exit.")
@_JSON
def run_(*, file: Path, into: Path | None, only_plan: bool, as_json: bool) -> None:
    """Start a campaign, and carry out its runs.

    \b
    Example:
      dutlab campaign run nightly.yaml
    """
    from dutlab.runner.campaign_folder import CampaignFolder, CampaignState, RunStanding
    from dutlab.spec.campaign import read_campaign

    planned = read_campaign(file)
    if only_plan:
        _show([RunStanding(run, CampaignState.PLANNED, None, 0, None, "") for run in planned.runs], as_json=as_json)
        return
    folder = CampaignFolder.create(into or Path("campaigns") / planned.campaign.name, planned, version())
    _carry_out(folder, as_json=as_json)


@campaign.command()
@_FOLDER
@_JSON
def resume(*, folder: Path, as_json: bool) -> None:
    """Continue a campaign: finish interrupted runs, and carry out the missing ones.

    \b
    Example:
      dutlab campaign resume campaigns/nightly
    """
    from dutlab.runner.campaign_folder import CampaignFolder

    campaign_folder = CampaignFolder(folder)
    campaign_folder.insist_on_its_files(version())
    _carry_out(campaign_folder, as_json=as_json)


@campaign.command()
@_FOLDER
@_JSON
def status(*, folder: Path, as_json: bool) -> None:
    """Show the state of each run of a campaign. Changes nothing.

    \b
    Example:
      dutlab campaign status campaigns/nightly
    """
    from dutlab.runner.campaign_folder import CampaignFolder

    campaign_folder = CampaignFolder(folder)
    _show([campaign_folder.standing(run) for run in campaign_folder.planned()], as_json=as_json)


@campaign.command()
@_FOLDER
def keep(*, folder: Path) -> None:
    """Copy finished runs to the campaign's object store and add them to the index of the fleet, if this was not done before.

    \b
    Example:
      dutlab campaign keep campaigns/nightly
    """
    from dutlab.runner.campaign_folder import CampaignFolder

    campaign_folder = CampaignFolder(folder)
    is_kept = _keep(campaign_folder)
    for s in (campaign_folder.standing(run) for run in campaign_folder.planned()):
        if s.kept:
            say(s.kept)
    click.get_current_context().exit(0 if is_kept else 1)


@campaign.command()
@click.argument("runs", metavar="RUN…", nargs=-1, required=True)
@click.option("--into", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"), help="Folder of the runs.  [runs]")
def fetch(*, runs: tuple[str, ...], into: Path) -> None:
    """Copy runs from an object store, by their addresses or by their names in the index of the fleet. Prints their folders.

    \b
    Example:
      dutlab campaign fetch 2026-11-21T0801Z-firewall-modes-3f2a
      dutlab report $(dutlab campaign fetch s3://measurements/runs/2026-11-21T0801Z-firewall-modes-3f2a)
    """
    from dutlab.store.fleet_index import asked_fleet
    from dutlab.store.object_store import fetch_run, is_address

    places = {run: run for run in runs if is_address(run)}
    if named := [run for run in runs if run not in places]:
        with asked_fleet() as index:
            places |= index.places(named)
    if unknown := [run for run in runs if run not in places]:
        raise InputError(f"not in the index of the fleet: {', '.join(unknown)}", remedy="`dutlab runs --fleet` lists its runs")
    if absent := [place for place in places.values() if not is_address(place) and not Path(place).is_dir()]:
        raise InputError(f"on another machine, and in no object store: {', '.join(absent)}", remedy="copy it from the machine that made it")
    into.mkdir(parents=True, exist_ok=True)
    for run in runs:
        say(fetch_run(places[run], into) if is_address(places[run]) else places[run])


@campaign.command()
@click.option("--listen", default="tcp://127.0.0.1:8786", metavar="ADDRESS", show_default=True,
              help="tcp:// on loopback, for you alone, or tls:// with certificates in DUTLAB_FLEET_TLS.")  # fmt: skip
@click.option(
    "--dashboard", type=click.IntRange(0, 65535), metavar="PORT", help="Port of Dask's pages, for browsers of this machine; 0 is any port."
)
def scheduler(*, listen: str, dashboard: int | None) -> None:
    """Send planned runs to workers on several machines, until Ctrl-C. If it is killed, nothing is lost.

    \b
    Example:
      dutlab campaign scheduler
      DUTLAB_FLEET_TLS=/etc/dutlab/fleet dutlab campaign scheduler --listen tls://192.0.2.1:8786
    """
    from dutlab.cli.loop import run_in_order
    from dutlab.runner.fleet.scheduler import schedule
    from dutlab.runner.fleet.security import insist_on_dask

    insist_on_dask()
    run_in_order(schedule(listen, dashboard, tell))


@campaign.command()
@click.option("--scheduler", "address", required=True, metavar="ADDRESS", help="As in the campaign file, under `fleet`.")
@click.option("--testbed", "testbeds", required=True, multiple=True, metavar="NAME",
              help="A lab, or the name of a testbed file without its ending, that this machine measures; repeatable.")  # fmt: skip
def worker(*, address: str, testbeds: tuple[str, ...]) -> None:
    """Carry out runs of campaigns on the testbeds of this machine, until Ctrl-C, which ends and restores the runs.

    \b
    Example:
      dutlab campaign worker --scheduler tcp://127.0.0.1:8786 --testbed three-node
    """
    from dutlab.cli.loop import run_in_order
    from dutlab.runner.fleet.security import insist_on_dask
    from dutlab.runner.fleet.worker import work

    insist_on_dask()
    run_in_order(work(address, testbeds, version(), tell))


@campaign.command(hidden=True)
@_FOLDER
@click.argument("number", type=int)
def place(*, folder: Path, number: int) -> None:
    """Carry out one planned run. `run` and workers start this command.

    \b
    Example:
      dutlab campaign place campaigns/nightly 3
    """
    from dutlab.cli.loop import run_in_order
    from dutlab.runner.campaign_folder import CampaignFolder
    from dutlab.runner.fleet.leases import lease_store
    from dutlab.runner.fleet.place import PlaceWork

    campaign_folder = CampaignFolder(folder)
    status = run_in_order(
        PlaceWork(campaign_folder, campaign_folder.planned_run(number), campaign_folder.fleet, lease_store(), version()).carry_out()
    )
    click.get_current_context().exit(status if status >= 0 else 128 - status)


def _carry_out(folder: CampaignFolder, *, as_json: bool) -> None:
    from dutlab.cli.loop import run_in_order
    from dutlab.runner.campaign_folder import CampaignState

    try:
        standings = run_in_order(_standings(folder))
    except KeyboardInterrupt:
        tell(f"`dutlab campaign resume {folder.path}` continues it")
        raise
    _keep(folder)
    _show(standings, as_json=as_json)
    if not as_json and any(s.state is CampaignState.DONE for s in standings):
        say(f"All of its runs: dutlab runs --runs {folder.runs}")
    left = [s for s in standings if s.state is not CampaignState.DONE]
    if left and not as_json:
        say(f"{len(left)} of {len(standings)} not measured; `dutlab campaign resume {folder.path}` tries again")
    click.get_current_context().exit(1 if left else 0)


async def _standings(folder: CampaignFolder) -> list[RunStanding]:
    from dutlab.runner.campaign import CampaignWork
    from dutlab.runner.fleet.carrier import LocalCarrier
    from dutlab.runner.fleet.dask_carrier import DaskCarrier

    if folder.fleet.is_local:
        return await CampaignWork(folder, tell, LocalCarrier(folder)).carry_out()
    async with DaskCarrier.opened(folder, version(), tell) as carrier:
        return await CampaignWork(folder, tell, carrier).carry_out()


def _keep(folder: CampaignFolder) -> bool:
    """Store finished runs; return whether all are stored now."""
    from dutlab.runner.fleet.keeping import RunKeeping
    from dutlab.store.fleet_database import fleet_database

    faults = RunKeeping(folder, fleet_database()).keep_all()
    for why in faults:
        tell(why)
    if faults:
        tell(f"`dutlab campaign keep {folder.path}` tries again")
    return not faults


def _show(standings: Sequence[RunStanding], *, as_json: bool) -> None:
    if as_json:
        say(json.dumps({"schema_version": 1, "runs": [_plain(s) for s in standings]}, indent=1))
        return
    head = ("run", "experiment", "testbed", "version", "night", "state", "tries", "added")
    rows = [
        (str(p.number), p.experiment, p.testbed, p.version or "as found", str(p.night), str(s.state), str(s.tries), _added(s.cost))
        for s in standings
        for p in [s.planned]
    ]
    for line in table(head, rows, right={0, 4, 6, 7}):
        say(line)
    if any(s.cost for s in standings):
        say("added: time that the campaign added to the run's own time, and its share")
    if waiting := sum(str(s.state) == "done" and not s.kept for s in standings):
        say(f"only in this folder, not in the index of the fleet nor in an object store: {waiting} of {len(standings)}")
    for line in _missing(standings):
        say(printable(line))
    for s in standings:
        if str(s.state) == "done" and s.exit_status:
            say(f"run {s.planned.number}: finished with exit status {s.exit_status}; its report names what could not be measured")
        elif s.last_line and not _is_missed(s):
            say(f"run {s.planned.number}: {printable(s.last_line)}")


def _is_missed(standing: RunStanding) -> bool:
    """Return whether the testbed could not be used at the last try."""
    return str(standing.state) != "done" and standing.exit_status == TestbedError.exit_status


def _missing(standings: Sequence[RunStanding]) -> Iterator[str]:
    """Yield a line for each night in which a testbed could not be used, with all its runs of that night that are missing."""
    left: dict[tuple[str, int], list[RunStanding]] = {}
    for s in standings:
        if str(s.state) not in ("done", "running") and s.exit_status in (None, TestbedError.exit_status):
            left.setdefault((s.planned.testbed, s.planned.night), []).append(s)
    for (testbed, night), runs in left.items():
        if tried := [s for s in runs if _is_missed(s)]:
            last = tried[-1]
            when = "" if last.ended is None else f", last tried {last.ended.astimezone():%Y-%m-%d %H:%M}"
            yield f"{testbed}, night {night}: runs missing because the testbed could not be used: {len(runs)}{when}: {last.last_line}"


def _added(cost: FleetCost | None) -> str:
    return "" if cost is None else f"{cost.added_s:.1f} s, {cost.added_share:.1%}"


def _plain(standing: RunStanding) -> dict[str, object]:
    planned = asdict(standing.planned)
    cost = None if standing.cost is None else asdict(standing.cost) | {"added_s": standing.cost.added_s}
    outcome = {"state": str(standing.state), "run": standing.run, "tries": standing.tries, "exit_status": standing.exit_status}
    return {**planned, **outcome, "cost": cost, "kept": standing.kept}
