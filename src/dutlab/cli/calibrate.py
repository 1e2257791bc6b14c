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
from dutlab.errors import InputError
from dutlab.methods.calibrate import RigPoint
from dutlab.methods.mixes import frame_mix
from dutlab.runner.rig import Load, calibrated
from dutlab.spec.generators import Ask, generator_of, unfit
from dutlab.store.calibration import Calibration, cache_folder
from dutlab.tools.find_engine import find_engine
from dutlab.units import Seconds, si

_HEAD = ("generator", "links", "link", "frames", "asked", "sent", "received", "failed", "rate error", "gap error", "latency min", "p99")


@click.command()
@click.option("--lab", "name", default="three-node", show_default=True, help="The embedded lab whose rig is measured.")
@click.option("--sizes", default="64,512,1518,imix", show_default=True, help="Frame sizes with FCS, or mixes by name.")
@click.option("--links", default="a", show_default=True, help="Links that are loaded at once, as in a+b.")
@click.option("--generator", "generators", multiple=True, help="What sends; may be given several times.  [engine]")
@click.option("--duration", type=DURATION, default="1s", show_default=True, help="Of each load.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def calibrate(*, name: str, sizes: str, links: str, generators: tuple[str, ...], duration: float, as_json: bool) -> None:
    """Measure the rig without the DUT, so that a result that is the rig's own can be told from one of the DUT.

    What is found is kept in XDG_CACHE_HOME/dutlab/calibrations and used by every run until the machine changes.

    \b
    Example:
      dutlab calibrate --sizes 64,1518,imix
      dutlab calibrate --sizes 64 --generator engine --generator trafgen
    """  # noqa: D301
    together = tuple(links.split("+"))
    loads = [Load(together, frame_mix(size), kind) for kind in generators or ("engine",) for size in sizes.split(",")]
    _refuse_unfit(loads)
    unknown = sorted(set(links.split("+")) - set(labs.description(name).testbed.links))
    if unknown:
        raise click.BadParameter(f"lab {name} has no link {', '.join(unknown)}", param_hint="--links")
    become_root()
    found, where = run_in_order(_calibrate(name, loads, Seconds(duration)))
    if as_json:
        click.echo(json.dumps({"file": str(where) if where else None, **found.model_dump(mode="json")}, indent=2))
        return
    for line in table(_HEAD, [_row(p) for p in found.points], right=range(4, len(_HEAD))):
        click.echo(line)
    click.echo(f"kept in {where}" if where else "not kept: the cache cannot be written")


def _refuse_unfit(loads: Sequence[Load]) -> None:
    """What a generator cannot send, before anything is built; a rig routes nothing, so that counts for nothing. Raises InputError."""
    for load in loads:
        try:
            model = generator_of(load.generator)
        except ValueError as e:
            raise InputError(str(e), remedy="give --generator one of them") from e
        asks = [((), Ask.SEVERAL_SIZES)] if len(load.mix.parts) > 1 else []
        sizes = (model.size_fault(size, ipv6=False) for size, _ in load.mix.parts)
        for what in (*(words for _, words in unfit(model, asks)), *filter(None, sizes)):
            raise InputError(what, remedy="give other --sizes, or another --generator")


async def _calibrate(name: str, loads: Sequence[Load], duration: Seconds) -> tuple[Calibration, object]:
    label = labs.new_label()
    try:
        lab = await labs.up(name, label=label)
        return await calibrated(lab, str(find_engine()), loads, cache_folder(), anew=duration)
    finally:
        await labs.down(label)


def _row(p: RigPoint) -> list[str]:
    return [
        p.generator,
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
