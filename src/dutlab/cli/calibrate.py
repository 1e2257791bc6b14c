"""calibrate: the rig without the DUT."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from dutlab import labs
from dutlab.cli.loop import run_in_order
from dutlab.cli.quantities import DURATION
from dutlab.cli.text_table import table
from dutlab.cli.userns import become_root
from dutlab.methods.calibrate import RigPoint
from dutlab.methods.mixes import frame_mix
from dutlab.runner.rig import Load, calibrated
from dutlab.store.calibration import Calibration, cache_folder
from dutlab.tools.find_engine import find_engine
from dutlab.units import Seconds, si

_HEAD = ("links", "link", "frames", "asked", "sent", "received", "failed", "rate error", "gap error", "latency min", "p99")


@click.command()
@click.option("--lab", "name", default="three-node", show_default=True, help="The embedded lab whose rig is measured.")
@click.option("--sizes", default="64,512,1518,imix", show_default=True, help="Frame sizes with FCS, or mixes by name.")
@click.option("--links", default="a", show_default=True, help="Links that are loaded at once, as in a+b.")
@click.option("--duration", type=DURATION, default="1s", show_default=True, help="Of each load.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def calibrate(*, name: str, sizes: str, links: str, duration: float, as_json: bool) -> None:
    """Measure the rig without the DUT, so that a result that is the rig's own can be told from one of the DUT.

    What is found is kept in XDG_CACHE_HOME/dutlab/calibrations and used by every run until the machine changes.

    \b
    Example:
      dutlab calibrate --sizes 64,1518,imix
    """  # noqa: D301
    loads = [Load(tuple(links.split("+")), frame_mix(size)) for size in sizes.split(",")]
    unknown = sorted(set(links.split("+")) - set(labs.description(name).testbed.links))
    if unknown:
        raise click.BadParameter(f"lab {name} has no link {', '.join(unknown)}", param_hint="--links")
    become_root()
    found, where = run_in_order(_calibrate(name, loads, Seconds(duration)))
    if as_json:
        click.echo(json.dumps({"file": str(where) if where else None, **found.model_dump(mode="json")}, indent=2))
        return
    for line in table(_HEAD, [_row(p) for p in found.points], right=range(3, len(_HEAD))):
        click.echo(line)
    click.echo(f"kept in {where}" if where else "not kept: the cache cannot be written")


async def _calibrate(name: str, loads: Sequence[Load], duration: Seconds) -> tuple[Calibration, object]:
    label = labs.new_label()
    try:
        lab = await labs.up(name, label=label)
        return await calibrated(lab, str(find_engine()), loads, cache_folder(), anew=duration)
    finally:
        await labs.down(label)


def _row(p: RigPoint) -> list[str]:
    return [
        "+".join(p.links),
        p.link,
        p.mix,
        "max" if p.asked_pps is None else si(p.asked_pps, "pps"),
        si(p.sent_pps, "pps"),
        si(p.received_pps, "pps"),
        f"{p.failed_ratio:.3%}",
        "" if p.rate_error_ratio is None else f"{p.rate_error_ratio:+.3%}",
        "" if p.gap_error_ns is None else f"{p.gap_error_ns:+.0f} ns",
        "" if p.latency_min_ns is None else f"{p.latency_min_ns / 1000:.1f} µs",
        "" if p.latency_p99_ns is None else f"{p.latency_p99_ns / 1000:.1f} µs",
    ]
