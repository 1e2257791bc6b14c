"""Command `calibrate`: measure the rig without the DUT."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.choices import Rig
from dutlab.cli.one_workload import DEFAULT_LAB, lab_of
from dutlab.cli.options import LAB_WORDS, LINK_WORDS, TESTBED_WORDS
from dutlab.cli.quantities import DURATION
from dutlab.cli.terminal import say, table
from dutlab.cli.userns import become_root
from dutlab.errors import InputError
from dutlab.subject import apart, joined
from dutlab.units import Seconds, si

if TYPE_CHECKING:
    from dutlab.methods.calibrate import RigPoint
    from dutlab.runner.headroom import RigLoad
    from dutlab.spec.generators import GeneratorModel
    from dutlab.spec.testbed import Testbed
    from dutlab.store.calibration import Calibration

_HEAD = ("generator", "links", "link", "frames", "asked", "sent", "received", "failed", "rate error", "gap error", "latency min", "p99")


@click.command()
@click.option("--lab", metavar="NAME", help=f"{LAB_WORDS}  [{DEFAULT_LAB}]")
@click.option("--testbed", type=click.Path(path_type=Path), help=TESTBED_WORDS)
@click.option(
    "--loop",
    "rig",
    flag_value=Rig.LOOPED.value,
    help="Do not ask: source and sink are cabled to one another.",
)
@click.option("--alone", "rig", flag_value=Rig.GENERATOR.value, help="Do not ask: measure the generator alone, without changing cables.")
@click.option("--sizes", default="64,512,1518,imix", show_default=True, help="Frame sizes with FCS, or mixes by name.")
@click.option("--link", "links", multiple=True, default=("a",), metavar="LINKS", help=f"{LINK_WORDS}  [a]")
@click.option("--generator", "generators", multiple=True, help="Generator; repeatable.  [engine]")
@click.option("--duration", type=DURATION, default="1s", show_default=True, help="Duration of each load.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def calibrate(
    *,
    lab: str | None,
    testbed: Path | None,
    rig: str | None,
    sizes: str,
    links: tuple[str, ...],
    generators: tuple[str, ...],
    duration: float,
    as_json: bool,
) -> None:
    """The result is kept in XDG_CACHE_HOME/dutlab/calibrations. Runs use it for a week, unless the machine changes.

    \b
    Example:
      dutlab calibrate --sizes 64,1518,imix
      dutlab calibrate --sizes 64 --generator engine --generator trafgen
      dutlab calibrate --testbed testbed.yaml --loop
    """
    from dutlab import labs
    from dutlab.cli.loop import run_in_order
    from dutlab.runner.headroom import RigLoad
    from dutlab.spec.generators import ENGINE
    from dutlab.spec.loader import load_testbed
    from dutlab.spec.mixes import frame_mix

    sets = [tuple(apart(together)) for together in links]
    loads = [RigLoad(at_once, frame_mix(size), model) for model in _models(generators) for at_once in sets for size in sizes.split(",")]
    _refuse_unfit(loads)
    if testbed is None and rig is not None:
        raise click.UsageError("--loop and --alone are for your own testbed; name it with --testbed")
    if lab is not None and testbed is not None:
        raise click.UsageError("--lab and --testbed exclude one another")
    name, standing = lab_of(lab or DEFAULT_LAB) if testbed is None else ("", None)
    whole = labs.description(name).testbed if testbed is None else load_testbed(testbed)
    if unknown := sorted({link for at_once in sets for link in at_once} - set(whole.links)):
        raise click.BadParameter(f"{whole.name} has no link {', '.join(unknown)}", param_hint="--link")
    if testbed is None:
        if standing is None:
            become_root()
        calibration, where = run_in_order(_of_lab(name, standing, loads, Seconds(duration)))
    else:
        if rig != Rig.GENERATOR.value and set(generators) - {ENGINE.kind}:
            raise click.UsageError("in a loop only the engine can send: the others need the DUT; give --alone")
        calibration, where = run_in_order(_of_testbed(whole, Rig(rig or _ask_for_loop(whole)), loads, Seconds(duration)))
    if as_json:
        say(json.dumps({"file": str(where) if where else None, **calibration.model_dump(mode="json")}, indent=2))
        return
    for line in table(_HEAD, [_row(p) for p in calibration.points], right=range(4, len(_HEAD))):
        say(line)
    say(f"kept in {where}" if where else "not kept: the cache cannot be written")


def _models(named: Sequence[str]) -> list[GeneratorModel]:
    """Return generators from names or JSON, as in `{"trafgen": {"cores": [2]}}`; the engine if none is named. Raises InputError."""
    from pydantic import TypeAdapter, ValidationError

    from dutlab.spec.generators import ENGINE, Generator

    adapter: TypeAdapter[GeneratorModel] = TypeAdapter(Generator)
    models = []
    for text in named:
        try:
            models.append(adapter.validate_python(json.loads(text) if text.startswith("{") else text))
        except ValidationError as e:
            raise InputError("; ".join(what["msg"] for what in e.errors()), remedy="give one of them with --generator") from e
        except ValueError as e:
            raise InputError(f"--generator {text!r}: {e}", remedy="give a name, or a name with options as JSON") from e
    return models or [ENGINE]


def _refuse_unfit(loads: Sequence[RigLoad]) -> None:
    """Refuse loads that a generator cannot send, before anything is built; a rig does not route. Raises InputError."""
    from dutlab.spec.generators import GeneratorFeature, unfit

    for load in loads:
        model = load.generator
        asks = [((), GeneratorFeature.SEVERAL_SIZES)] if len(load.mix.parts) > 1 else []
        sizes = (model.size_fault(size, ipv6=False) for size, _ in load.mix.parts)
        for what in (*(words for _, words in unfit(model, asks)), *filter(None, sizes)):
            raise InputError(what, remedy="give other --sizes, or another --generator")


def _ask_for_loop(testbed: Testbed) -> str:
    """Ask a person to cable the loop. Raises UsageError without a terminal."""
    if not sys.stdin.isatty():
        raise click.UsageError(
            "no terminal to ask for the loop cable: give --loop when it is plugged in, or --alone for the generator alone"
        )
    cables = "; ".join(f"{link.source} to {link.sink}" for link in testbed.links.values())
    say(f"Cable source and sink to one another, without the DUT: {cables}.", err=True)
    click.prompt("Press Enter when it is done", default="", show_default=False, err=True)
    return Rig.LOOPED.value


async def _of_lab(name: str, standing: str | None, loads: Sequence[RigLoad], duration: Seconds) -> tuple[Calibration, Path | None]:
    from dutlab import labs
    from dutlab.runner.rig import disturbed_by_environment, lab_rig
    from dutlab.store.calibration import cache_folder
    from dutlab.tools.engine.binary import find_engine

    async with labs.used(name, standing) as lab, lab_rig(lab, str(find_engine()), disturbed=disturbed_by_environment()) as rig:
        return await rig.measure(Rig.LOOPED, loads, cache_folder(), fresh_s=duration)


async def _of_testbed(testbed: Testbed, rig: Rig, loads: Sequence[RigLoad], duration: Seconds) -> tuple[Calibration, Path | None]:
    from dutlab.runner.rig import disturbed_by_environment, machines_rig
    from dutlab.store.calibration import cache_folder
    from dutlab.tools.engine.binary import find_engine

    async with machines_rig(testbed, rig, find_engine(), Path.cwd(), disturbed=disturbed_by_environment()) as real:
        if rig is Rig.LOOPED:
            await real.insist_on_loop()
        return await real.measure(rig, loads, cache_folder(), fresh_s=duration)


def _row(p: RigPoint) -> list[str]:
    return [
        p.generator.text(),
        joined(p.links),
        p.link,
        p.mix,
        "max" if p.intended_pps is None else si(p.intended_pps, "pps"),
        si(p.offered_pps, "pps"),
        "" if p.received_pps is None else si(p.received_pps, "pps"),
        "" if p.failed_ratio is None else f"{p.failed_ratio:.3%}",
        "" if p.rate_error_ratio is None else f"{p.rate_error_ratio:+.3%}",
        "" if p.gap_error_ns is None else f"{p.gap_error_ns:+.0f} ns",
        "" if p.latency_min_ns is None else f"{p.latency_min_ns / 1000:.1f} µs",
        "" if p.latency_p99_ns is None else f"{p.latency_p99_ns / 1000:.1f} µs",
    ]
