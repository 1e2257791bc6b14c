"""Command `exact`: instructions a frame of a Linux router on a simulated processor, without an experiment file."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dutlab.cli.manner import CommonOptions, manner_options
from dutlab.cli.one_workload import SETTINGS
from dutlab.cli.options import NAME, RUNS
from dutlab.cli.versions import EXACT_MODES, VersionKind, guest_experiment, version_of, xdp_mode
from dutlab.errors import InputError


def listed(_ctx: click.Context, _param: click.Parameter, words: tuple[str, ...]) -> list[str]:
    """Return the words of a repeatable option, split at commas."""
    return [word.strip() for of in words for word in of.split(",") if word.strip()]


@click.command()
@SETTINGS
@click.option("--modes", "--mode", "modes", multiple=True, callback=listed, metavar="MODE,…", help=f"[{','.join(EXACT_MODES)}]")
@click.option("--size", "sizes", multiple=True, callback=listed, metavar="BYTES,…", help="Frame sizes with FCS, or mixes.  [64,1518]")
@click.option(
    "--ruleset", "rulesets", multiple=True, type=click.Path(path_type=Path, dir_okay=False),
    help="A file for nft, measured as a mode after those of --modes; repeatable.",
)  # fmt: skip
@click.option(
    "--xdp", "programs", multiple=True, metavar="FILE[:SECTION]",
    help="An object file with an XDP program for the receiving port of a router, measured as a mode; repeatable.  [section xdp]",
)  # fmt: skip
@click.option("--profile", is_flag=True, help="Count instructions by function: a table and a flame graph in the report.")
@click.option("--kernel", type=click.Path(path_type=Path, dir_okay=False), help="A bzImage.  [the newest Debian kernel for clouds]")
@click.option("--modules", type=click.Path(path_type=Path, file_okay=False), help="Folder of its modules.  [/lib/modules/RELEASE]")
@NAME
@RUNS
@manner_options
def exact(
    *,
    settings: tuple[str, ...],
    modes: list[str],
    sizes: list[str],
    rulesets: tuple[Path, ...],
    programs: tuple[str, ...],
    kernel: Path | None,
    modules: Path | None,
    profile: bool,
    name: str | None,
    runs: Path,
    manner: CommonOptions,
) -> None:
    """The guest needs no root, and other work on this machine changes no figure. Other modes: filter-empty, filter-1, filter-25, nat-open,
    bridge, flowtable, filter-default-flowtable, nat-flowtable; two-routers; and two routers with a tunnel: ipsec, ipsec-cbc and the other
    suites, wireguard. KEY=VALUE is any other setting of the workload: flows=1,1000, rules=0,100, routes=0,1000,
    tunnels=1,100, mtu=9000, offload=gro, frames=20000.

    \b
    Example:
      dutlab exact --modes router,filter-default,nat --size 64,1518,imix
      dutlab exact --ruleset old.nft --ruleset new.nft --size 64
      dutlab exact --modes router --xdp filter.o:xdp_filter --size 64
    """
    from dutlab.runner.execution import RunOptions

    own = _own_modes(rulesets, programs)
    chosen = modes or ([] if own else EXACT_MODES)
    with tempfile.TemporaryDirectory(prefix="dutlab-") as folder:
        definition = guest_experiment(
            Path(folder), name=name or "exact", modes=chosen, own=own, sizes=sizes, settings=settings, kernel=kernel, modules=modules,
            profile=profile,
        )  # fmt: skip
        options = RunOptions(runs=runs, engine_binary=Path(), command=("dutlab", *sys.argv[1:]))
        result = manner.carry_out(definition, options)
    manner.finish([result])


def _own_modes(rulesets: tuple[Path, ...], programs: tuple[str, ...]) -> Mapping[str, Any]:
    """Return one mode for each file, with the file's content, so that the run no longer needs the file. Raises InputError."""
    modes = dict[str, Any]()
    for word in programs:
        path, section = (Path(word), "") if Path(word).exists() else (Path(word.partition(":")[0]), word.partition(":")[2])
        _add(modes, path, xdp_mode(version_of(str(path), VersionKind.XDP).program, section or "xdp"))
    for path in rulesets:
        _add(modes, path, version_of(str(path), VersionKind.RULES).own_modes["rules"])
    return modes


def _add(modes: dict[str, Any], path: Path, mode: Mapping[str, Any]) -> None:
    if path.stem in modes:
        raise InputError(f"two files are called {path.stem}", remedy="give them different names")
    modes[path.stem] = mode
