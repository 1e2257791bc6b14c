"""Listens, and answers until Ctrl-C."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from dutlab.errors import InputError
from dutlab.serve.app import application
from dutlab.serve.control import Control
from dutlab.serve.guard import Guard
from dutlab.serve.pages import Pages
from dutlab.serve.served_runs import FleetRuns, FolderRuns
from dutlab.store.fleet_database import FleetDatabase

_MOST_CONNECTIONS = 1200
_ENDS_S = 3


@dataclass(frozen=True)
class ServeRequest:
    """What to serve, where, and to whom."""

    runs: Path
    fleet: FleetDatabase | None
    """Whose runs are shown instead."""
    bind: str
    port: int
    token: str
    """Empty: nobody has to log in."""
    names: tuple[str, ...]
    prefix: str
    tls_cert: Path | None
    tls_key: Path | None
    with_control: bool
    experiments: Path | None


@contextmanager
def listening(asked: ServeRequest) -> Iterator[tuple[socket.socket, str]]:
    """A socket that listens, and the address of the pages. Raises InputError where one cannot be listened on, or a certificate not used."""
    if asked.tls_cert is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(asked.tls_cert, asked.tls_key)
        except (OSError, ValueError) as error:
            raise InputError(f"{asked.tls_cert}: cannot be used: {error}", remedy="name a PEM chain and its key") from None
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(asked.bind, asked.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"{asked.bind}: cannot be listened on: {error.strerror}", remedy="name an address of this machine") from None
    with made:
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(place)
            made.listen(512)
        except OSError as error:
            raise InputError(f"{asked.bind} port {asked.port}: {error.strerror}", remedy="name another --port; 0 takes any") from None
        shown = f"[{asked.bind}]" if ":" in asked.bind else asked.bind
        yield made, f"http{'s' if asked.tls_cert else ''}://{shown}:{made.getsockname()[1]}{asked.prefix}/"


def run(asked: ServeRequest, listens: socket.socket) -> None:
    """Answers until Ctrl-C. Who holds a stream open then is cut off."""
    guard = Guard(asked.token, prefix=asked.prefix, secure=asked.tls_cert is not None)
    guard.hosts = (*guard.hosts, *(name.lower() for name in asked.names))
    control = Control(asked.runs, asked.experiments) if asked.with_control else None
    shown = FolderRuns(asked.runs) if asked.fleet is None else FleetRuns(asked.runs, asked.fleet)
    pages = Pages(shown, asked.prefix, has_login=bool(asked.token), has_control=control is not None)
    settings = uvicorn.Config(
        application(pages, guard, control), log_level="warning", access_log=False, server_header=False, proxy_headers=False,
        limit_concurrency=_MOST_CONNECTIONS, timeout_graceful_shutdown=_ENDS_S, timeout_keep_alive=15, lifespan="off",
        ssl_certfile=asked.tls_cert, ssl_keyfile=asked.tls_key, ws="none",
    )  # fmt: skip
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again once it has ended
        uvicorn.Server(settings).run(sockets=[listens])
