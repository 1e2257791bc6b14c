"""Server of the pages: it listens and answers until Ctrl-C."""

from __future__ import annotations

import os
import socket
import ssl
import stat
from asyncio import constants
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from dutlab.bounds import REQUEST_HEAD_S
from dutlab.errors import InputError
from dutlab.serve.app import application
from dutlab.serve.connections import BACKLOG, BoundedServer, ConnectionSet, capacity, protocol_for
from dutlab.serve.control import Control
from dutlab.serve.guard import Guard
from dutlab.serve.pages import Pages
from dutlab.serve.served_runs import FleetRuns, FolderRuns
from dutlab.store.fleet_database import FleetDatabase

_SHUTDOWN_S = 3


@dataclass(frozen=True)
class ServeRequest:
    """Options of the server: runs, address, access."""

    runs: Path
    fleet: FleetDatabase | None
    """Database of the fleet whose runs are shown, instead of those in `runs`."""
    bind: str
    port: int
    socket: Path | None
    """Unix socket to listen on instead; only this user and root can connect to it."""
    token: str
    """Token for the login; empty if no login is needed."""
    names: tuple[str, ...]
    prefix: str
    tls_cert: Path | None
    tls_key: Path | None
    with_control: bool
    experiments: Path | None


@contextmanager
def listening(asked: ServeRequest) -> Iterator[tuple[socket.socket, str]]:
    """Yield a listening socket and the address of the pages. Raises InputError if the address or the certificate cannot be used."""
    if asked.tls_cert is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(asked.tls_cert, asked.tls_key)
        except (OSError, ValueError) as error:
            raise InputError(f"{asked.tls_cert}: cannot be used: {error}", remedy="name a PEM chain and its key") from None
    if asked.socket is not None:
        with _unix_socket(asked.socket) as listener:
            yield listener, f"unix:{asked.socket.absolute()}"
        return
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(asked.bind, asked.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InputError(f"{asked.bind}: cannot be listened on: {error.strerror}", remedy="name an address of this machine") from None
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen(512)
        except OSError as error:
            raise InputError(f"{asked.bind} port {asked.port}: {error.strerror}", remedy="name another --port; 0 takes any") from None
        shown = f"[{asked.bind}]" if ":" in asked.bind else asked.bind
        yield listener, f"http{'s' if asked.tls_cert else ''}://{shown}:{listener.getsockname()[1]}{asked.prefix}/"


@contextmanager
def _unix_socket(path: Path) -> Iterator[socket.socket]:
    """Yield a socket of mode 0600, removed at the end. The socket of a killed dutlab is replaced. Raises InputError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        before = os.umask(0o177)
        try:
            if _is_stale_socket(path):
                path.unlink()
            listener.bind(str(path))  # makes the file, and follows no link
            listener.listen(512)
            mine = path.lstat()
        except OSError as error:
            raise InputError(f"{path}: cannot be listened on: {error.strerror or error}", remedy="name another --socket") from None
        finally:
            os.umask(before)
        try:
            yield listener
        finally:
            with suppress(OSError):
                if os.path.samestat(path.lstat(), mine):
                    path.unlink()


def _is_stale_socket(path: Path) -> bool:
    """Return whether `path` is a socket of dutlab that no process listens on."""
    with suppress(FileNotFoundError):
        node = path.lstat()
        if stat.S_ISSOCK(node.st_mode) and node.st_uid == os.geteuid():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
                return asking.connect_ex(str(path)) != 0
    return False


def server_of(asked: ServeRequest) -> BoundedServer:
    """Return the server of the pages, ready to run."""
    guard = Guard(asked.token, prefix=asked.prefix, secure=asked.tls_cert is not None)
    guard.hosts = (*guard.hosts, *(name.lower() for name in asked.names))
    control = Control(asked.runs, asked.experiments) if asked.with_control else None
    shown = FolderRuns(asked.runs) if asked.fleet is None else FleetRuns(asked.runs, asked.fleet)
    pages = Pages(shown, asked.prefix, has_login=bool(asked.token), has_control=control is not None)
    constants.SSL_HANDSHAKE_TIMEOUT = REQUEST_HEAD_S  # asyncio's; uvicorn has no setting for it
    settings = uvicorn.Config(
        application(pages, guard, control), log_level="error", access_log=False, server_header=False, proxy_headers=False,
        timeout_graceful_shutdown=_SHUTDOWN_S, timeout_keep_alive=15, lifespan="off", backlog=BACKLOG,
        ssl_certfile=asked.tls_cert, ssl_keyfile=asked.tls_key, ws="none", http=protocol_for(ConnectionSet(capacity())),
    )  # fmt: skip
    return BoundedServer(settings)


def run(asked: ServeRequest, listens: socket.socket) -> None:
    """Answer requests until Ctrl-C, which also closes open streams."""
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again at its end
        server_of(asked).run(sockets=[listens])
