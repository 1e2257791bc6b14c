"""Command `publish`: write a static site of runs and devices."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.terminal import say, say_words
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.publish.site import Published

_ADDRESS = re.compile(r"https?://[^\s\"'<>]+")
_MOST = 10
"""Most faults that are printed; the page of claims has all."""


@click.command()
@click.argument("paths", metavar="[RUN…] DIR", nargs=-1, required=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--merge", "merging", is_flag=True, help="Merge sites, which are named instead of runs, into one.")
@click.option("--devices", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="YAML file with specification, price, modes and caveats of each device.")  # fmt: skip
@click.option("--title", default="", help="Title of the site.  [Measurements]")
@click.option("--url", default="", metavar="URL", help="Address of the site, for its feed and for the pictures of links to it.")
@click.option("--json", "as_json", is_flag=True, help="Print the site's index.json.")
def publish(*, paths: tuple[Path, ...], merging: bool, devices: Path | None, title: str, url: str, as_json: bool) -> None:
    """Any web server can serve the site, and a browser can open it from the folder. An existing site in DIR keeps its runs. The site gets
    copies of the run folders: check first that addresses, serial numbers and photographs in them may be public.

    \b
    Example:
      dutlab publish runs/2026-11-21T0801Z-firewall-modes-3f2a site --devices devices.yaml --title "My bench"
      dutlab publish --merge site another-site corpus
    """
    from dutlab.publish.devices import read_devices
    from dutlab.publish.site import INDEX, SiteRequest, merge
    from dutlab.publish.site import publish as publish_runs

    if url and not _ADDRESS.fullmatch(url):
        raise InputError(f"--url: {url!r}: not an address", remedy="write one that begins with https:// or http://")
    *sources, out = paths
    if merging and not sources:
        raise click.UsageError("--merge needs at least one site, and last the folder of the new one")
    asked = SiteRequest(out, title, url, read_devices(devices) if devices else None)
    result = (merge if merging else publish_runs)(sources, asked)
    if as_json:
        say((out / INDEX).read_text(encoding="utf-8"), nl=False)
        return
    _tell(result, out)


def _tell(published: Published, out: Path) -> None:
    from dutlab.report.model.words import plural

    states: list[str] = [claim.state for run in published.runs for claim in run.claims]
    say(f"{plural(published.devices, 'device')}, {plural(len(published.runs), 'run')}: {out / 'index.html'}")
    if published.taken_twice:
        say_words(f"{plural(published.taken_twice, 'run')} skipped: the site has the same already")
    for state, phrase in (("differs", "not equal to their raw files"), ("not recomputed", "not recomputed")):
        if count := states.count(state):
            say_words(f"{count} of {plural(len(states), 'claim')} {phrase}: see {out / 'claims.html'}")
    if published.contradictions:
        say_words(f"{plural(len(published.contradictions), 'contradiction')} between runs: see {out / 'claims.html'}")
    damaged = [*published.left_out, *(f"{run.name}: {run.faults[0]}" for run in published.runs if run.faults)]
    for words in published.covered:
        say_words(f"note: {words}")
    for words in damaged[:_MOST]:
        say_words(f"note: {words}")
    if len(damaged) > _MOST:
        say_words(f"and {len(damaged) - _MOST} more")
