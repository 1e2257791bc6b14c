"""Command `loadtest`: a ramp of load without an experiment file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dutlab.choices import GENERATORS
from dutlab.cli.one_workload import SETTINGS, MeasureOptions, measure_workload, where_options
from dutlab.cli.terminal import say
from dutlab.errors import InputError

PROFILES: dict[str, str | int] = {"imix": "imix-trex", "64b": 64, "1514b": 1518}
"""Name of a profile in trex-loadtest → mix or frame size with FCS. trex-loadtest's imix and 1514 bytes are without FCS."""


_AS_MIX = "write a mix, as in {name: web, parts: {64: 5, 1518: 6}}"


class _Seconds(click.ParamType[str]):
    """A duration; a bare number is seconds, as in trex-loadtest."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401 click's signature
        return f"{value}s" if str(value).replace(".", "", 1).isdigit() else str(value)


class _Counts(click.ParamType[tuple[int, ...]]):
    """Numbers, separated by commas."""

    name = "N[,N]…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:  # noqa: ANN401 click's signature
        try:
            return tuple(int(part) for part in str(value).split(","))
        except ValueError:
            raise click.BadParameter(f"{value!r}: write whole numbers, as in 1,1000", param_hint="--flows") from None


class _Percent(click.ParamType[str]):
    """A share in percent; the sign may be left out."""

    name = "PERCENT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401 click's signature
        return f"{str(value).removesuffix('%')}%"


@click.command()
@SETTINGS
@click.option(
    "-s",
    "--server",
    metavar="NAME|ADDRESS",
    help=f"Which generator ({', '.join(GENERATORS)}), or where a TRex server runs.  [the testbed's, else engine]",
)
@click.option(
    "-p", "--profile", default="imix", metavar="NAME|FILE", help="imix, 64b, 1514b, any frame size or mix, or a YAML file of one.  [imix]"
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Also write trex-loadtest's JSON here.")
@click.option("-wm", "--warmup_mult", "warmup_rate", default="1kpps", metavar="RATE", help="Rate of the warm-up, each way.  [1kpps]")
@click.option("-wd", "--warmup_duration", "warmup", type=_Seconds(), default="30s", help="[30s]")
@click.option("-rt", "--rampup_target", "target", type=_Percent(), default="100%", help="Share of line rate, each way.  [100%]")
@click.option("-rd", "--rampup_duration", "rampup", type=_Seconds(), default="600s", help="[600s]")
@click.option("-hd", "--hold_duration", "hold", type=_Seconds(), default="30s", help="[30s]")
@click.option("--line-rate", metavar="RATE", help="Line rate for percentages.   [the link's speed; 1G where it has none]")
@click.option("--threshold", type=_Percent(), default="0.1%", help="A second fails above this loss.  [0.1%]")
@click.option("--flows", type=_Counts(), help="Flows each way; several numbers, as in 1,1000, make a ramp each.  [1]")
@click.option("--verify-traffic", is_flag=True, help="Before the ramp, send at the warm-up's rate until you confirm the traffic.")
@click.option("--unidirectional", is_flag=True, help="Send from source to sink only.  [both directions]")
@where_options
def loadtest(
    *,
    settings: tuple[str, ...],
    server: str | None,
    profile: str,
    output: Path | None,
    unidirectional: bool,
    flows: tuple[int, ...] | None,
    verify_traffic: bool,
    line_rate: str | None,
    where: MeasureOptions,
    **times: str,
) -> None:
    """\b
    Example:
      dutlab loadtest -p 64b -rt 50 -rd 60 -o router.json
      dutlab loadtest -p 64b --flows 1,1000 --verify-traffic
    """
    if output is not None and (several := [o for o, n in (("--mode", len(where.modes)), ("--link", len(where.links))) if n > 1]):
        raise click.UsageError(f"-o writes one ramp: give one {several[0]}")
    if output is not None and flows is not None and len(flows) > 1:
        raise click.UsageError("-o writes one ramp: give one number to --flows")
    if output is not None and (where.repeats > 1 or output.exists()):
        raise click.UsageError(f"{output} exists" if output.exists() else "-o writes one ramp: leave --repeats out")
    body = {
        "frame_sizes": [_mix(profile)],
        "links": [["a"]],
        "directions": "forward" if unidirectional else "both",
        **times,
        "line_rate": line_rate,
        "flows": list(flows) if flows else None,
        "verify_traffic": verify_traffic or None,
        "generator": _generator(server),
    }
    measure_workload("loadtest", body, settings, where, then=lambda run: _write(run, output))


def _generator(server: str | None) -> str | dict[str, Any] | None:
    """Return the generator of that name, or TRex at that address. Raises BadParameter for other words."""
    if server is None or server in GENERATORS:
        return server
    if not any(mark in server for mark in ".:") and server != "localhost":
        raise click.BadParameter(f"{server!r} is neither one of {', '.join(GENERATORS)} nor an address", param_hint="-s")
    return {"trex": {"server": "running", "address": server}}


def _mix(profile: str) -> Any:  # noqa: ANN401 whatever is in the file is checked with the rest
    if profile in PROFILES:
        return PROFILES[profile]
    path = Path(profile)
    if not path.is_file():
        return profile
    if path.suffix == ".py":
        raise InputError(f"{path}: a TRex profile is a program", remedy=_AS_MIX)
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(path)
    except (YAMLError, UnicodeDecodeError, OSError) as e:
        raise InputError(f"{path}: cannot be read as YAML: {e}", remedy=_AS_MIX) from e


def _write(run: Path, output: Path | None) -> None:
    """Write trex-loadtest's file of the run's trial, if it has a result."""
    if output is None:
        return
    from dutlab.interop.loadtest_json import to_bytes
    from dutlab.interop.loadtest_run import file_of
    from dutlab.store.run_folder import RunFolder
    from dutlab.store.write import write_once

    for record in RunFolder.open(run).records():
        if record.status == "measured":
            write_once(output, to_bytes(file_of(record)))
            say(f"trex-loadtest: {output}", err=True)
