"""The user's config file: the folder of runs, colours, and defaults of each command's options.

    runs_folder = "~/measurements"
    colour = "never"

    [search]
    preset = "quick"

A command reads only its own table; `dutlab config` reads everything. The command line overrides this file, which overrides the defaults.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from dutlab import outside
from dutlab.bounds import INPUT
from dutlab.errors import Fault, FaultKind, InputError, SpecRefused
from dutlab.outside import AtLink, UnfitFile

RUNS_FOLDER = "runs_folder"
COLOURS = ("auto", "always", "never")
ON_THE_COMMAND_LINE = frozenset({"trust", "take-over", "force-port", "reset", "yes"})
"""Options that skip a safety check: they must be given each time."""
_OF_TEST = ("test", "lab")
"""Option that may not be in the file: `dutlab test --lab` starts itself inside the lab, without --lab."""
_HEADER = r"\s*\[\s*([^\[\]]+?)\s*\]"
_KEY = r"\s*([A-Za-z0-9_.\"'-]+)\s*="


@dataclass(frozen=True)
class Config:
    """Content of the file. `lines` is key → line number, from 1."""

    path: Path
    data: Mapping[str, Any]
    lines: Mapping[tuple[str, ...], int]

    def line(self, key: Sequence[str]) -> int:
        """Return the line of the key, or of the table that holds it."""
        parts = tuple(key)
        while parts and parts not in self.lines:
            parts = parts[:-1]
        return self.lines.get(parts, 1)

    def fault(self, key: Sequence[str], what: str, kind: FaultKind = FaultKind.INVALID) -> Fault:
        """Return a fault at a key of the file."""
        return Fault(str(self.path), self.line(key), 1, ".".join(key), what, kind)


def config_path() -> Path:
    """Return `dutlab/config.toml` in $XDG_CONFIG_HOME, else in ~/.config.

    A relative $XDG_CONFIG_HOME is ignored (XDG Base Directory Specification). Raises RuntimeError if the user has no home.
    """
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (base if base.is_absolute() else Path("~/.config").expanduser()) / "dutlab" / "config.toml"


def read_config() -> Config | None:
    """Read the user's file; None if there is no file or no home. Raises InputError if it cannot be read or is not TOML."""
    try:
        path = config_path()
    except RuntimeError:  # the user of a service may have no home
        return None
    try:
        text = outside.read(path, INPUT, AtLink.FOLLOWED).decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnfitFile, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}", remedy="correct the file, or move it away") from None
    import tomllib

    try:
        return Config(path, tomllib.loads(text), _lines(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}", remedy="docs/reference/config.md shows a file") from None


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Return key → line number, for keys at the start of a line."""
    line_by_key: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(_HEADER, line):
            table = _parts(header[1])
            line_by_key.setdefault(table, number)
        elif key := re.match(_KEY, line):
            line_by_key.setdefault((*table, *_parts(key[1])), number)
    return line_by_key


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def colour_of(config: Config) -> str:
    """Return the colour setting; `auto` by default. Raises SpecRefused."""
    colour = config.data.get("colour", "auto")
    if colour not in COLOURS:
        raise SpecRefused([config.fault(("colour",), f"{colour!r} is not one of {', '.join(COLOURS)}", FaultKind.UNKNOWN_NAME)])
    return str(colour)


def defaults_of(config: Config, name: str, command: click.Command) -> dict[str, Any]:
    """Return the defaults of `command` for click (its default_map). Raises SpecRefused with all faults of the command's table."""
    faults = list[Fault]()
    table = config.data.get(name, {})
    if not isinstance(table, Mapping):
        raise SpecRefused([config.fault((name,), "a command's options are a table: write [" + name + "]", FaultKind.TYPE)])
    defaults = _of_command(config, (name,), command, table, faults)
    if faults:
        raise SpecRefused(faults)
    return defaults


def _of_command(
    config: Config, at: tuple[str, ...], command: click.Command, table: Mapping[str, Any], faults: list[Fault]
) -> dict[str, Any]:
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        subs = {name: sub for name in command.list_commands(ctx) if (sub := command.get_command(ctx, name)) is not None}
        faults += [
            config.fault((*at, key), f"unknown command (known: {', '.join(subs)})", FaultKind.UNKNOWN_KEY)
            for key in table
            if key not in subs
        ]
        return {name: _of_command(config, (*at, name), sub, _table(table.get(name)), faults) for name, sub in subs.items()}
    options = dict(_options(command))
    defaults: dict[str, Any] = {}
    if (runs := options.get("runs")) is not None and RUNS_FOLDER in config.data:
        defaults |= _value(config, (RUNS_FOLDER,), runs, config.data[RUNS_FOLDER], faults)
    for key, value in table.items():
        if key in ON_THE_COMMAND_LINE or (*at, key) == _OF_TEST:
            faults.append(config.fault((*at, key), "belongs on the command line, each time", FaultKind.CONFLICT))
        elif (option := options.get(key)) is None:
            faults.append(
                config.fault(
                    (*at, key), f"unknown option (known: {', '.join(sorted(options.keys() - ON_THE_COMMAND_LINE))})", FaultKind.UNKNOWN_KEY
                )
            )
        else:
            defaults |= _value(config, (*at, key), option, value, faults)
    return defaults


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _options(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    """Yield (long name, option) for each option that is not hidden."""
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            yield from ((name[2:], option) for name in option.opts if name.startswith("--"))


def _value(config: Config, key: tuple[str, ...], option: click.Option, value: object, faults: list[Fault]) -> dict[str, Any]:
    """Return {parameter name: value}, with a value that click can convert; empty if the value has a fault."""
    if isinstance(option.type, click.Path) and isinstance(value, str):
        value = str(Path(value).expanduser())
    texts = (str,) if isinstance(option.type, click.Path) else (str, int, float)
    if wrong := [item for item in (value if isinstance(value, list) else [value]) if not isinstance(item, (*texts, Mapping))]:
        faults.append(config.fault(key, f"{wrong[0]!r}: write a text", FaultKind.TYPE))
        return {}
    if isinstance(value, Mapping) or isinstance(value, list) != option.multiple or (isinstance(value, bool) != option.is_flag):
        kind = "true or false" if option.is_flag else "a list" if option.multiple else "a single value"
        faults.append(config.fault(key, f"{value!r}: write {kind}", FaultKind.TYPE))
        return {}
    try:
        option.type_cast_value(click.Context(click.Command(key[0])), value)
    except click.BadParameter as error:
        faults.append(config.fault(key, error.message))
        return {}
    return {str(option.name): value}
