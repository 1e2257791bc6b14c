"""Command `serve`: serve pages about runs."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from dutlab.cli.runs import FLEET, FOLDER
from dutlab.cli.terminal import say, tell
from dutlab.errors import InputError
from dutlab.extras import extra_install_command
from dutlab.own_folder import private_text

if TYPE_CHECKING:
    from dutlab.store.fleet_database import FleetDatabase

_PORT = 8417
_SHORTEST_TOKEN = 32
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
TOKEN = "DUTLAB_SERVE_TOKEN"  # noqa: S105 - the name of a variable


@click.command()
@FOLDER
@FLEET
@click.option("--port", type=click.IntRange(0, 65535), default=_PORT, show_default=True, help="TCP port; 0 is any that is free.")
@click.option("--bind", metavar="ADDRESS", default=_LOOPBACK[0], help=f"Address; all but loopback ask for a token.  [{_LOOPBACK[0]}]")
@click.option(
    "--socket", type=click.Path(path_type=Path), help="Listen on this Unix socket instead, which only you can use; it asks for no token."
)
@click.option("--token-file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help=f"The token, in a file that only you can read.  [{TOKEN}, else a new one, printed]")  # fmt: skip
@click.option("--tls-cert", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Serve over TLS; certificate chain.")
@click.option("--tls-key", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Key of --tls-cert.  [in the same file]")
@click.option("--prefix", default="", metavar="/PATH", help="Path behind which a proxy serves these pages.")
@click.option("--host", "names", multiple=True, metavar="NAME", help="Name under which a local proxy serves these pages; repeatable.")
@click.option("--control", "with_control", is_flag=True, help="Let visitors of the pages pause, cancel and resume runs; asks for a token.")
@click.option("--experiments", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="With --control: experiments that can be started.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the address, and a new token, as JSON.")
def serve(
    *,
    folder: Path,
    fleet: bool,
    port: int,
    bind: str,
    socket: Path | None,
    token_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    prefix: str,
    names: tuple[str, ...],
    with_control: bool,
    experiments: Path | None,
    as_json: bool,
) -> None:
    """\b
    Example:
      dutlab serve
      dutlab serve --control --experiments experiments
      dutlab serve --control --socket ~/dutlab.socket
    """
    _check_options(fleet=fleet, prefix=prefix, has_socket=socket is not None, has_key=tls_key is not None, has_cert=tls_cert is not None,
                   has_experiments=experiments is not None, with_control=with_control)  # fmt: skip
    if not fleet and not folder.is_dir():
        raise InputError(f"{folder}: no such folder", remedy="name the folder that holds the run folders; `dutlab demo --quick` makes one")
    try:
        from dutlab.serve.server import ServeRequest, listening, run
    except ImportError as error:
        raise InputError(f"dutlab serve needs {error.name}", remedy=extra_install_command("serve")) from None
    database = _fleet_database() if fleet else None
    is_open = socket is None and bind not in _LOOPBACK
    file_token = _token(token_file)
    token = file_token or (secrets.token_urlsafe(32) if socket is None and (is_open or with_control) else "")
    asked = ServeRequest(
        folder, database, bind, port, socket, token, (*names,), prefix, tls_cert, tls_key,
        with_control=with_control, experiments=experiments,
    )  # fmt: skip
    with listening(asked) as (listens, address):
        new = "" if file_token else token
        opens = f"{address}login?token={new}" if new else None
        if as_json:
            say(json.dumps({"schema_version": 1, "address": address, "token": new or None, "open": opens}))
        else:
            say(f"{address} shows the runs {'of the fleet' if fleet else f'in {folder}'}; Ctrl-C ends it")
            if opens is not None:
                say(f"token: {token}\nopen {opens}")
        if is_open and tls_cert is None:
            tell("note: without --tls-cert the token and all pages cross the network in clear text")
        run(asked, listens)


def _check_options(
    *, fleet: bool, prefix: str, has_socket: bool, has_key: bool, has_cert: bool, has_experiments: bool, with_control: bool
) -> None:
    """Raise click.UsageError for options that exclude or need each other."""
    if has_experiments and not with_control:
        raise click.UsageError("--experiments needs --control")
    if has_key and not has_cert:
        raise click.UsageError("--tls-key needs --tls-cert")
    if prefix and (not prefix.startswith("/") or prefix.endswith("/") or "//" in prefix):
        raise click.UsageError("--prefix begins with a slash and does not end with one, as in /bench")
    if fleet and with_control:
        raise click.UsageError("--control cannot be combined with --fleet: its runs are those of campaigns")
    context = click.get_current_context()
    options = [o for o in ("bind", "port", "tls_cert") if context.get_parameter_source(o) is not ParameterSource.DEFAULT]
    if has_socket and options:
        raise click.UsageError(f"--{options[0].replace('_', '-')} cannot be combined with --socket")


def _fleet_database() -> FleetDatabase:
    """Return the database that the environment names; print a note if it does not answer yet. Raises InputError for a wrong name."""
    from dutlab.store.fleet_database import FleetDatabaseAway, fleet_database

    database = fleet_database()
    try:
        with database.connected():
            pass
    except FleetDatabaseAway as error:
        tell(f"note: {error.what}; the pages show its runs once it answers")
    return database


def _token(file: Path | None) -> str:
    """Return the user's token; empty without one. Raises InputError for a token that others can read or guess."""
    if file is None:
        token, where = os.environ.get(TOKEN, ""), TOKEN
    else:
        token, where = private_text(file).strip(), str(file)
        if not token:
            raise InputError(f"{file}: is empty", remedy="write 32 random characters into it")
    if token and len(token) < _SHORTEST_TOKEN:
        raise InputError(f"{where}: the token is too short", remedy=f"take {_SHORTEST_TOKEN} random characters or more")
    return token
