"""One workload without an experiment file: a command's options become the text of one, which is checked and kept as any other."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dutlab.cli.options import RUNS
from dutlab.cli.userns import become_root
from dutlab.errors import InputError, SpecRefused

if TYPE_CHECKING:
    from dutlab.spec.loader import Given

_F = TypeVar("_F", bound=Callable[..., Any])


def testbed_options(command: _F) -> _F:
    """--lab, --testbed, --mode and --runs, as every command takes them that measures without an experiment file."""
    for option in (
        RUNS,
        click.option("--mode", "modes", multiple=True, help="A mode to put the DUT into; may be given several times.  [router]"),
        click.option("--testbed", type=click.Path(path_type=Path), help="A testbed file, instead of a lab."),
        click.option("--lab", metavar="NAME", default=None, help="An embedded lab.  [three-node]"),
    ):
        command = option(command)
    return command


def measure_workload(
    kind: str,
    body: Mapping[str, Any],
    *,
    lab: str | None,
    testbed: Path | None,
    modes: Sequence[str],
    runs: Path,
    repeats: int = 1,
    order: str = "shuffled",
    then: Callable[[Path], None] = lambda _: None,
) -> None:
    """Runs an experiment of one workload of this kind, called like it, and ends the command with the run's exit status.

    What is None in `body` is an option that was not given. `then` is called with the run's folder before its report is written.

    Raises InputError with every fault of the options, SpecRefused for a testbed file, and what runner.run raises.
    """
    from dutlab.cli.console import Console  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.cli.loop import run_in_order  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.cli.run import finish  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.runner import run as runner  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.tools.engine.engine import find_engine  # noqa: PLC0415 -- `--help` needs none of it

    if lab is not None and testbed is not None:
        raise click.UsageError("--lab and --testbed exclude one another")
    text = as_yaml({
        "experiment": kind,
        "testbed": str(testbed.absolute()) if testbed is not None else {"lab": lab or "three-node"},
        "factors": {"mode": list(modes) or ["router"]},
        "workloads": [{kind: {key: value for key, value in body.items() if value is not None}}],
        "repeats": repeats,
        "order": order,
    })  # fmt: skip
    given = _of_options(text, Path(f"{kind}.yaml"), kind)
    if testbed is None:
        become_root()
    options = runner.RunOptions(runs=runs, engine_binary=find_engine(), command=("dutlab", *sys.argv[1:]))
    result = run_in_order(runner.run(given, options, Console()))
    then(result.folder)
    finish([result])


def _of_options(text: bytes, made: Path, kind: str) -> Given:
    """The experiment that the options came to. A fault of theirs has no line in any file of the user's, so only its key is told."""
    from dutlab.spec.loader import given_experiment  # noqa: PLC0415 -- `--help` needs none of it

    try:
        return given_experiment(text, made)
    except SpecRefused as refused:
        if all(fault.file != str(made) for fault in refused.faults):
            raise
        said = [str(f) if f.file != str(made) else f"{f.path.removeprefix(f'workloads.0.{kind}.')}: {f.what}" for f in refused.faults]
        raise InputError("\n".join(said)) from None


def as_yaml(data: Mapping[str, Any]) -> bytes:
    """One document, as a user could have written it."""
    from ruamel.yaml import YAML  # noqa: PLC0415 -- only such commands write YAML

    out, yaml = io.BytesIO(), YAML(typ="safe", pure=True)
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # typed by its default, None
    yaml.dump(dict(data), out)
    return out.getvalue()
