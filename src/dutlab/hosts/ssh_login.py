"""Login over ssh: the configuration and keys that count, and the meaning of each refusal.

Host keys are always checked. passwords.py describes the sources of passwords.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from dutlab.errors import HostError
from dutlab.hosts.own_time import own_timeout
from dutlab.hosts.passwords import own_variables, password_of, password_variable
from dutlab.hosts.proxy_command import ProxyCommand

_SSH_PORT = 22
CONNECT_S = 15.0
LOGIN_S = 20.0
KEEPALIVE_S = 5
KEEPALIVE_MISSES = 3
"""Keep-alives without an answer after which the connection counts as lost. sshd answers them also when the host is busy."""
_TARGET = re.compile(r"(?:(?P<user>[^@]+)@)?(?P<host>\[[^\]]+\]|[^:]+)(?::(?P<port>\d+))?")
_CONFIGS = (Path("~/.ssh/config"), Path("/etc/ssh/ssh_config"))
_KNOWN_HOSTS = (Path("~/.ssh/known_hosts"), Path("~/.ssh/known_hosts2"), Path("/etc/ssh/ssh_known_hosts"))


@dataclass(frozen=True)
class Login:
    """Address and user of a login. `target` is `[user@]host[:port]`, where host is a name in ssh_config or in the network."""

    name: str
    target: str
    config: tuple[Path, ...] | None = None
    """Files of ssh_config; for each option the first value counts. None means the user's and the system's files."""
    environment: Mapping[str, str] = field(default_factory=own_variables, repr=False)


class _Client(asyncssh.SSHClient):
    """Client that rejects every key missing from known_hosts, and keeps it for the error message."""

    offered: asyncssh.SSHKey | None = None
    proxy: ProxyCommand | None = None
    """ProxyCommand of the connection, if there is one."""

    def connection_lost(self, exc: Exception | None) -> None:
        if self.proxy is not None:
            self.proxy.end()

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.offered = key
        return False


async def connect(login: Login) -> asyncssh.SSHClientConnection:
    """Log in. Raises HostError with the reason of a refusal and a remedy."""
    client = _Client()
    options: asyncssh.SSHClientConnectionOptions | None = None
    password, no_keyring = await asyncio.to_thread(password_of, login.name, login.environment)
    try:
        options = await _options(login, password)
        return await _connected(login, options, client)
    except (OSError, asyncssh.Error, asyncssh.ConfigParseError, asyncssh.KeyImportError, ValueError) as e:
        raise _refusal(login, options, client, e, no_keyring) from e


async def _connected(login: Login, options: asyncssh.SSHClientConnectionOptions, client: _Client) -> asyncssh.SSHClientConnection:
    """Connect, over the ProxyCommand of the configuration if there is one. Raises as asyncssh."""
    sock = None
    if options.proxy_command and not options.tunnel:
        client.proxy, sock = ProxyCommand.open([*options.proxy_command])
    try:
        async with own_timeout(CONNECT_S + LOGIN_S):
            return await asyncssh.connect(
                options.orig_host,
                options=options,
                config=_configs(login),  # repeated, since the host of a ProxyJump is looked up in it
                known_hosts=_known_hosts(options),
                client_factory=lambda: client,
                **({} if sock is None else {"sock": sock}),
            )
    except BaseException:
        if client.proxy is not None and sock is not None:
            client.proxy.end()
            sock.close()
        raise


async def _options(login: Login, password: str | None) -> asyncssh.SSHClientConnectionOptions:
    m = _TARGET.fullmatch(login.target)
    if m is None:
        raise ValueError(f"{login.target!r} is not an ssh target")
    options: asyncssh.SSHClientConnectionOptions = await asyncssh.SSHClientConnectionOptions.construct(
        host=m["host"].strip("[]"),
        port=int(m["port"]) if m["port"] else (),
        username=m["user"] or (),
        config=_configs(login),
        password=password,
        gss_host=None,
        connect_timeout=CONNECT_S,
        login_timeout=LOGIN_S,
        keepalive_interval=KEEPALIVE_S,
        keepalive_count_max=KEEPALIVE_MISSES,
        encoding=None,
    )
    return options


def _known_hosts(options: asyncssh.SSHClientConnectionOptions) -> list[str] | bytes:
    """Return the known_hosts files to use. `UserKnownHostsFile none` would disable the check, so it is ignored."""
    named = options.known_hosts if isinstance(options.known_hosts, list) else []
    files = [Path(f).expanduser() for f in named] or _there(_KNOWN_HOSTS)
    return [str(f) for f in files if f.is_file()] or b""


def _configs(login: Login) -> list[str]:
    return [str(f) for f in (_there(_CONFIGS) if login.config is None else login.config)]


def _there(files: Sequence[Path]) -> list[Path]:
    try:
        return [f.expanduser() for f in files if f.expanduser().is_file()]
    except RuntimeError:  # a user without an entry in passwd has no home folder
        return []


def _refusal(
    login: Login, options: asyncssh.SSHClientConnectionOptions | None, client: _Client, error: Exception, no_keyring: str
) -> HostError:
    address = options.orig_host if options else login.target
    if isinstance(error, asyncssh.HostKeyNotVerifiable) and client.offered is not None:
        what, remedy = _untrusted(options, client.offered, address)
    else:
        what, remedy = _meaning(login, error, address)
        if no_keyring and isinstance(error, asyncssh.PermissionDenied):
            what = f"{what}; {no_keyring}"
    return HostError(f"ssh {login.target}: {what}", host=login.name, remedy=remedy)


def _meaning(login: Login, error: Exception, address: str) -> tuple[str, str]:
    """Return the meaning of an exception of asyncssh or of the system, and a remedy."""
    meaning: tuple[str, str]
    match error:
        case asyncssh.HostKeyNotVerifiable() | asyncssh.KeyExchangeFailed():
            meaning = f"its host key is not the known one ({error.reason})", _CHANGED.format(address=address)
        case asyncssh.PermissionDenied():
            remedy = (
                f"load the right key into the agent, name it with IdentityFile in ~/.ssh/config, or set {password_variable(login.name)}"
            )
            meaning = f"no key or password was accepted ({error.reason})", remedy
        case asyncssh.DisconnectError():
            meaning = f"the server ended the connection ({error.reason})", "see its log: `journalctl -u ssh` or /var/log/auth.log there"
        case ConnectionRefusedError():
            meaning = "refused: nothing listens there", "start sshd on it, or correct the port in the testbed or ~/.ssh/config"
        case TimeoutError():
            meaning = f"no answer within {CONNECT_S:g} s", "check that it is up and that nothing on the way drops the connection"
        case asyncssh.KeyImportError():
            meaning = f"a key file cannot be used ({error})", "load a key with a passphrase into the agent: `ssh-add`"
        case FileNotFoundError(filename=str(file)) | PermissionError(filename=str(file)):
            meaning = f"{file}: {error.strerror}", "correct IdentityFile or ProxyCommand in ~/.ssh/config"
        case asyncssh.ConfigParseError():
            meaning = f"ssh_config cannot be read ({error})", "correct ~/.ssh/config"
        case _:
            meaning = str(error) or type(error).__name__, "check that its name and address are right: `ssh` to it by hand"
    return meaning


_CHANGED = "if it was installed again: `ssh-keygen -R {address}`, then accept its key by hand; if not, another host may be in between"


def _untrusted(options: asyncssh.SSHClientConnectionOptions | None, offered: asyncssh.SSHKey, address: str) -> tuple[str, str]:
    fingerprint = offered.get_fingerprint()
    if options is not None and _knows(options):
        return f"its host key {fingerprint} is not the known one", _CHANGED.format(address=address)
    return (
        f"its host key {fingerprint} is unknown",
        f"compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the host, then log in once by hand: `ssh {address}`",
    )


def _knows(options: asyncssh.SSHClientConnectionOptions) -> bool:
    """Return True if known_hosts has any key of the host."""
    port = options.port if options.port != _SSH_PORT else None
    try:
        keys, *_ = asyncssh.match_known_hosts(_known_hosts(options), options.host_key_alias or options.host, "", port)
    except (OSError, ValueError):
        return False
    return bool(keys)
