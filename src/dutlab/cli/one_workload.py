"""One workload without an experiment file: options and KEY=VALUE become such a file, which is checked and kept as any other."""

from __future__ import annotations

import functools
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import click

from dutlab.cli.manner import CommonOptions, manner_options
from dutlab.cli.options import LAB_WORDS, LINK_WORDS, NAME, REPEATS, RUNS, TESTBED_WORDS
from dutlab.cli.userns import become_root
from dutlab.errors import InputError, SpecRefused
from dutlab.subject import apart
from dutlab.workloads import plug_of, settable

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from dutlab.spec.loader import LoadedExperiment

DEFAULT_LAB = "three-node"
SETTINGS = click.argument("settings", nargs=-1, metavar="[KEY=VALUE]…")


@dataclass(frozen=True)
class MeasureOptions:
    """Options of every command that measures without an experiment file."""

    links: tuple[str, ...]
    lab: str | None
    testbed: Path | None
    modes: tuple[str, ...]
    repeats: int
    runs: Path
    name: str | None
    manner: CommonOptions

    @property
    def link_sets(self) -> list[list[str]] | None:
        """Links of each --link; None without --link."""
        return [list(apart(together)) for together in self.links] or None


def where_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --link, --lab, --testbed, --mode, --repeats, --runs, --name and CommonOptions to `command`, as one MeasureOptions."""

    @functools.wraps(command)
    def with_where(**given: Any) -> None:  # noqa: ANN401 -- the options that click was given
        where = MeasureOptions(*(given.pop(name) for name in ("links", "lab", "testbed", "modes", "repeats", "runs", "name", "manner")))
        command(**given, where=where)

    for option in (
        RUNS,
        NAME,
        REPEATS,
        click.option("--mode", "modes", multiple=True, help="A mode to put the DUT into; repeatable.  [router; as-found if it has none]"),
        click.option("--testbed", type=click.Path(path_type=Path), help=TESTBED_WORDS),
        click.option("--lab", metavar="NAME", help=f"{LAB_WORDS}  [{DEFAULT_LAB}]"),
        click.option("--link", "links", multiple=True, metavar="LINKS", help=f"{LINK_WORDS}  [each alone]"),
    ):
        with_where = option(with_where)
    return manner_options(with_where)


def measure_workload(
    kind: str,
    body: Mapping[str, Any],
    settings: Sequence[str],
    where: MeasureOptions,
    *,
    then: Callable[[Path], None] = lambda _: None,
) -> None:
    """Run an experiment of one workload of this kind, and end the command with the run's exit status.

    None in `body` stands for an option that was not given. `settings` are KEY=VALUE and override `body`. `then` is called with the run's
    folder before the report is written.

    Raises InputError with all faults of options and settings, SpecRefused for a testbed file, and the errors of runner.run.
    """
    from dutlab.runner.execution import RunOptions
    from dutlab.tools.engine.binary import find_engine

    if where.lab is not None and where.testbed is not None:
        raise click.UsageError("--lab and --testbed exclude one another")
    lab, standing = lab_of(where.lab or DEFAULT_LAB) if where.testbed is None else ("", None)
    data = {
        "experiment": where.name or kind,
        "testbed": str(where.testbed.absolute()) if where.testbed is not None else {"lab": lab},
        "factors": {"mode": list(where.modes) or [default_mode(lab, where.testbed)]},
        "repeats": where.repeats,
        "order": "as-written" if plug_of(kind).as_written else "shuffled",
    }
    asked = {**body, "links": where.link_sets or body.get("links")}
    definition = where.manner.in_time(kind, settings, lambda of: given_workload(data, kind, asked, of))
    if where.testbed is None and standing is None:
        become_root()
    options = RunOptions(runs=where.runs, engine_binary=find_engine(), command=("dutlab", *sys.argv[1:]), standing_lab=standing)
    result = where.manner.carry_out(definition, options)
    then(result.folder)
    where.manner.finish([result])


def default_mode(lab: str, testbed: Path | None) -> str:
    """Return the mode to measure without --mode: `router`, or `as-found` if dutlab sets no modes of this DUT."""
    from dutlab.spec.known import FAMILY_MODES
    from dutlab.spec.loader import load_testbed
    from dutlab.spec.shape import TestbedShape

    shape = TestbedShape.of_lab(lab) if testbed is None else TestbedShape.of_testbed(load_testbed(testbed))
    known = FAMILY_MODES.get(shape.family if shape else "", ())
    return next(iter(known), "router") if "router" not in known else "router"


def lab_of(text: str) -> tuple[str, str | None]:
    """Return the name of the lab in `--lab`, and its label if it exists. Raises InputError."""
    from dutlab import labs

    standing = {lab.label: lab.lab for lab in labs.standing()}
    if text in standing:
        return standing[text], text
    labs.description(text)
    return text, None


def given_workload(
    data: Mapping[str, Any], kind: str, body: Mapping[str, Any], settings: Sequence[str], *, file: Path | None = None
) -> LoadedExperiment:
    """Return the experiment `data` with one more workload, made from the options, before its own workloads.

    `file` is the path of the experiment file, if it gets one. A fault of an option names only its key, since the user has no file with
    such a line. Raises InputError with all faults; SpecRefused for a testbed file.
    """
    from dutlab.spec import overrides
    from dutlab.spec.loader import given_experiment
    from dutlab.spec.workloads import model_of
    from dutlab.spec.yaml_source import parse

    insist_on_workload(kind)
    model, prefix, made = model_of(kind), f"workloads.0.{kind}.", file or Path(f"{kind}.yaml")
    written = {key: value for key, value in body.items() if value is not None}
    source, faults = parse(as_yaml({**data, "workloads": [{kind: written}, *data.get("workloads", ())]}), str(made)), list[str]()
    for word in settings:
        key, _, value = (part.strip() for part in word.partition("="))
        if key and value:
            wrong = overrides.apply(source, [f"{prefix}{key}={_value(value, model.model_fields.get(key))}"])
            faults += [f"{key}: {fault.what}" for fault in wrong]
        else:
            faults.append(f"{word}: write KEY=VALUE")
    try:
        definition = given_experiment(as_yaml(source.data), made)
    except SpecRefused as refused:
        if not faults and all(fault.file != str(made) for fault in refused.faults):
            raise
        faults += [str(f) if f.file != str(made) else f"{f.path.removeprefix(prefix)}: {f.what}" for f in refused.faults]
    if faults:
        raise InputError("\n".join(faults))
    return definition


def insist_on_workload(kind: str) -> None:
    """Raise InputError for a workload that no experiment can have."""
    from dutlab.spec.model import did_you_mean

    if kind not in settable():
        raise InputError(f"{kind}: unknown workload {did_you_mean(kind, settable())}")


def _value(text: str, field: FieldInfo | None) -> str:
    """Return a value as YAML. For a list field, a single item becomes a list, unless it names a list. In other fields a comma is text."""
    from dutlab.spec.mixes import SIZES_OF

    if field is None or text[0] in "[{\"'" or text in SIZES_OF:
        return text
    kinds = (field.annotation, *get_args(field.annotation))
    if any(get_origin(kind) is tuple for kind in kinds):
        return f"[{text}]"
    return json.dumps(text, ensure_ascii=False) if "," in text else text


def as_yaml(data: Mapping[str, Any]) -> bytes:
    """Return `data` as a YAML document, as a user could write it."""
    from ruamel.yaml import YAML

    out, yaml = io.BytesIO(), YAML(typ="safe", pure=True)
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # typed by its default, None
    yaml.dump(dict(data), out)
    return out.getvalue()
