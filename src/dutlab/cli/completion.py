"""Completion of words that only dutlab knows: runs, labs, modes, links, settings of workloads, keys of an experiment file.

A shell asks at each Tab, so nothing here reaches a host, and each list is made only when it is asked for. A list that cannot be made, for
lack of a file or a folder, is empty: completion prints no errors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args, get_origin

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

from dutlab.errors import DutlabError

if TYPE_CHECKING:
    from dutlab.spec.shape import TestbedShape

_MOST_RUNS = 200
_DEFAULT_LAB = "three-node"
_MODE_KEY = "factors.mode"

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


class _Bash(BashComplete):
    """Completion for bash, which splits words at `=` and ends each word with a space."""

    source_template = BashComplete.source_template.replace(
        "COMP_CWORD=$COMP_CWORD", 'DUTLAB_LINE="${COMP_LINE:0:${COMP_POINT:-0}}" COMP_CWORD=$COMP_CWORD'
    ).replace("COMPREPLY+=($value)", "COMPREPLY+=($value)\n            if [[ $value == *= ]]; then compopt -o nospace 2>/dev/null; fi")

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("DUTLAB_LINE", "")
        if not line:
            return super().get_completion_args()
        words = split_arg_string(line)
        incomplete = "" if line[-1].isspace() else words.pop()
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Return an item without the part before its `=`, which bash keeps."""
        typed = os.environ.get("DUTLAB_LINE", "").split(" ")[-1]
        start = typed[: typed.rfind("=") + 1]
        if start and item.type == "plain" and item.value.startswith(start):
            item = CompletionItem(item.value[len(start) :], item.type)
        return super().format_completion(item)


def use_own_bash() -> None:
    """Make click use our completion for bash."""
    add_completion_class(_Bash)


def add_to(command: click.Command) -> None:
    """Give each parameter of a command, and of its subcommands, its completion function."""
    for of_group in command.commands.values() if isinstance(command, click.Group) else ():
        add_to(of_group)
    for param in command.params:
        if (completer := _completer_of(command, param)) is not None:
            param._custom_shell_complete = completer  # noqa: SLF001 - click's own place of `shell_complete=`


def _completer_of(command: click.Command, param: click.Parameter) -> Completer | None:
    if isinstance(param.type, click.Choice):
        return None
    if isinstance(param, click.Argument):
        by_metavar = (("RUN", _runs), ("KEY=VALUE", _settings))
        by_name: dict[tuple[str | None, str | None], Completer] = {
            ("up", "name"): _labs, ("down", "given"): _labels, ("shell", "label"): _labels, ("history", "experiment"): _experiments,
        }  # fmt: skip
        named = next((completer for words, completer in by_metavar if words in (param.metavar or "")), None)
        return named or by_name.get((command.name, param.name))
    by_option: dict[str, Completer] = {
        "--lab": _labels if param.metavar == "LABEL" else _labs, "--mode": _modes, "--link": _links, "--set": _keys,
        "--against": _runs, "--exact": _runs, "--experiment": _experiments,
    }  # fmt: skip
    return next((by_option[name] for name in param.opts if name in by_option), None)


def _items(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in dict.fromkeys(words) if word.startswith(incomplete)]


def _or_nothing(make: Callable[[], Iterable[str]]) -> list[str]:
    """Return the values that `make` yields; none if it fails."""
    with suppress(DutlabError, OSError, ValueError, LookupError):
        return list(make())
    return []


def _folder(ctx: click.Context) -> Path:
    """Return the folder of runs: that of an option, else the default."""
    return next((ctx.params[name] for name in ("runs", "folder") if isinstance(ctx.params.get(name), Path)), Path("runs"))


def _runs(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the path of a run, newest first. A part of its name, such as its last four characters, is enough."""
    from dutlab.store.find import run_names

    typed = Path(incomplete)
    folder, part = (typed.parent, typed.name) if "/" in incomplete else (_folder(ctx), incomplete)
    names = [name for name in reversed(_or_nothing(lambda: run_names(folder))) if (folder / name / "plan.json").is_file()]
    matches = [name for name in names if name.startswith(part)] or [name for name in names if part in name]
    return [CompletionItem(f"{folder}/{name}") for name in matches[:_MOST_RUNS]] or [CompletionItem(incomplete, type="dir")]


def _experiments(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from dutlab.store.index import choices, opened

    def names() -> list[str]:
        folder = _folder(ctx)
        if not folder.is_dir():
            return []
        with opened(folder) as index:
            return choices(index)["experiment"]

    return _items(_or_nothing(names), incomplete)


def _labs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from dutlab.spec.known import LABS

    return [*_labels(ctx, param, incomplete), *_items(LABS, incomplete)]


def _labels(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from dutlab import labs

    return _items(_or_nothing(lambda: (lab.label for lab in labs.standing())), incomplete)


def _shape(ctx: click.Context) -> TestbedShape | None:
    """Return the shape of the testbed that the line names so far, or of the default lab. Raises DutlabError."""
    from dutlab.spec.loader import load_testbed
    from dutlab.spec.shape import TestbedShape

    bed = ctx.params.get("testbed") or ctx.params.get("bed")
    if isinstance(bed, Path):
        return TestbedShape.of_testbed(load_testbed(bed))
    lab = ctx.params.get("lab") or _DEFAULT_LAB
    if (shape := TestbedShape.of_lab(lab)) is not None:
        return shape
    from dutlab import labs

    standing = {of.label: of.lab for of in labs.standing()}
    return TestbedShape.of_lab(standing.get(lab, ""))


def _modes(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete modes: in a list of runs those that were measured, elsewhere those that the testbed's DUT can have."""

    def names() -> Iterable[str]:
        if ctx.command.name == "runs":
            from dutlab.store.index import choices, opened

            with opened(_folder(ctx)) as index:
                return choices(index)["mode"]
        return _modes_of(_shape(ctx))

    return _items(_or_nothing(names), incomplete)


def _modes_of(shape: TestbedShape | None) -> list[str]:
    """Return the built-in modes that the DUT of a testbed can have."""
    from dutlab.spec.known import FAMILY_MODES

    return [] if shape is None else [name for name in FAMILY_MODES.get(shape.family, ()) if name not in shape.lacking]


def _links(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete links; after `a+`, the other ones."""

    def names() -> Iterator[str]:
        shape = _shape(ctx)
        given = incomplete.split("+")[:-1]
        for name in () if shape is None else shape.bounds:
            if name not in given:
                yield "+".join([*given, name])

    return _items(_or_nothing(names), incomplete)


def _settings(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete KEY=, and after it the values that the key can have, where it has a list of them."""
    from dutlab.spec.workloads import model_of
    from dutlab.workloads import settable

    kind = str(ctx.params.get("workload") or ctx.command.name)
    if kind not in settable():
        return []
    model = model_of(kind)
    key, equals, value = incomplete.partition("=")
    fields = {name: model.model_fields[field] for name, field in model.file_keys().items() if field in model.model_fields}
    if not equals:
        return [
            CompletionItem(f"{name}=", help=(of.description or "").split("\n")[0]) for name, of in fields.items() if name.startswith(key)
        ]
    begun = value.rpartition(",")[0]
    words = _values(fields[key].annotation) if key in fields else ()
    return _items((f"{key}={f'{begun},' if begun else ''}{word}" for word in words if word not in begun.split(",")), incomplete)


def _values(kind: object) -> list[str]:
    """Return the words that a field of this type can have; empty for numbers and free text."""
    if kind is bool:
        return ["true", "false"]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(member.value) for member in kind]
    if get_origin(kind) is Literal:
        return [str(word) for word in get_args(kind)]
    return list(dict.fromkeys(word for inner in get_args(kind) for word in _values(inner)))


def _keys(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the keys that --set can change: those of the experiment file on the line."""
    from dutlab.spec.experiment import Experiment
    from dutlab.spec.yaml_source import parse, read_file

    paths = [path for word in ctx.args if (path := Path(word)).is_file()]  # a line that ends in an option leaves its arguments here

    def names() -> Iterator[str]:
        yield from (f"{name}=" for name in Experiment.file_keys())
        for path in paths[:1]:
            data = parse(read_file(path), str(path)).data
            yield from _paths(data)
            if incomplete.startswith(f"{_MODE_KEY}="):
                begun = incomplete.removeprefix(f"{_MODE_KEY}=").rpartition(",")[0]
                yield from (f"{_MODE_KEY}={f'{begun},' if begun else ''}{mode}" for mode in _modes_of(_shape_of_file(data, path)))

    return _items(_or_nothing(names), incomplete)


def _shape_of_file(data: object, path: Path) -> TestbedShape | None:
    """Return the shape of an experiment file's testbed. Raises DutlabError."""
    from dutlab.spec.loader import load_testbed
    from dutlab.spec.shape import TestbedShape

    named = data.get("testbed") if isinstance(data, Mapping) else None
    if isinstance(named, Mapping):
        return TestbedShape.of_lab(str(named.get("lab")))
    return TestbedShape.of_testbed(load_testbed(path.parent / str(named))) if named else None


def _paths(data: object, before: str = "") -> Iterator[str]:
    """Yield the path of each value of a file, as `factors.mode=`; the items of a list of mappings by their one key."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield f"{before}{key}="
            yield from _paths(value, f"{before}{key}.")
    elif isinstance(data, list):
        for item in data:
            if isinstance(item, Mapping):
                yield from _paths(item, before)
