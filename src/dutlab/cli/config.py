"""Command `config`: show the user's config file."""

from __future__ import annotations

import json
from typing import Any

import click

from dutlab.cli.config_file import RUNS_FOLDER, Config, colour_of, config_path, defaults_of, read_config
from dutlab.cli.terminal import say, table
from dutlab.errors import Fault, FaultKind, SpecRefused
from dutlab.printable import printable

_OF_ALL = {RUNS_FOLDER: "runs", "colour": "auto"}
"""Keys that belong to no command → their defaults."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def config(*, as_json: bool) -> None:
    """Also checks the whole file for faults.

    \b
    Example:
      dutlab config
    """
    settings_file = read_config()
    rows = [(key, built_in, "built in") for key, built_in in _OF_ALL.items()] if settings_file is None else list(_rows(settings_file))
    if as_json:
        settings = [{"key": key, "value": value, "from": where} for key, value, where in rows]
        say(
            json.dumps(
                {"schema_version": 1, "file": str(config_path()), "exists": settings_file is not None, "settings": settings}, indent=1
            )
        )
        return
    say(f"{config_path()}{'' if settings_file is not None else ': no such file; docs/reference/config.md shows one'}")
    for line in table(("key", "value", "from"), [(key, _text(value), where) for key, value, where in rows]):
        say(printable(line))


def _rows(config: Config) -> list[tuple[str, Any, str]]:
    """Return key, value and place of each setting. Raises SpecRefused with all faults of the file."""
    from dutlab.cli.main import COMMANDS, dutlab  # a cycle: main imports this module

    faults, ctx = list[Fault](), click.Context(dutlab)
    for check in (lambda: colour_of(config), *(_checked(config, ctx, name) for name in COMMANDS)):
        try:
            check()
        except SpecRefused as error:
            faults += error.faults
    faults += [
        config.fault((key,), f"unknown key (known: {', '.join(_OF_ALL)}, and a table for each command)", FaultKind.UNKNOWN_KEY)
        for key in config.data
        if key not in _OF_ALL and key not in COMMANDS
    ]
    if faults:
        raise SpecRefused(sorted(set(faults), key=lambda fault: fault.line))
    rows = [(key, config.data.get(key, built_in), _place(config, (key,))) for key, built_in in _OF_ALL.items()]
    return [*rows, *((".".join(key), value, _place(config, key)) for key, value in _leaves(config.data) if key[0] not in _OF_ALL)]


def _checked(config: Config, ctx: click.Context, name: str) -> Any:  # noqa: ANN401 -- what the caller calls
    def check() -> None:
        from dutlab.cli.main import dutlab

        if name in config.data or RUNS_FOLDER in config.data:
            command = dutlab.get_command(ctx, name)
            assert command is not None  # noqa: S101 -- a known command
            defaults_of(config, name, command)

    return check


def _place(config: Config, key: tuple[str, ...]) -> str:
    return f"line {config.line(key)}" if key in config.lines or key[0] in config.data else "built in"


def _leaves(data: Any, at: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 -- TOML
    if not isinstance(data, dict):
        return [(at, data)]
    return [leaf for key, value in data.items() for leaf in _leaves(value, (*at, key))]


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
