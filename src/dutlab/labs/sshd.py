"""OpenSSH servers inside network namespaces, with keys that are deleted with them.

Each listens on one address inside its namespace. The controller connects through `relay.py` in a namespace that reaches the address, so the
machine's own namespace gets no interface and no port. The folder has an ordinary ssh_config: `ssh -F FOLDER/config ROLE`.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dutlab.errors import LabError
from dutlab.hosts.local import LocalHost
from dutlab.hosts.own_time import own_timeout
from dutlab.labs import relay
from dutlab.own_folder import private_parents
from dutlab.reason import reason_in

PORT = 22
STARTS_S = 60.0
_PRIVSEP = Path("/run/sshd")
"""Folder for the unprivileged part of Debian's sshd (sshd(8), --with-privsep-path); its service makes it, but may not run."""
_MADE = "made-privsep"


@dataclass(frozen=True)
class SshServer:
    """ssh server of one role: where it listens, and the namespace from which that address is reached."""

    role: str
    namespace: str
    address: str
    via: str


def config_file(folder: Path) -> Path:
    """Return the path of the ssh_config of all servers."""
    return folder / "config"


def write_files(folder: Path, servers: Sequence[SshServer]) -> None:
    """Write keys, known_hosts and configurations, readable by this user only. Raises OSError."""
    import asyncssh  # noqa: PLC0415 -- labs without ssh do not need it

    private_parents(folder.parent)
    folder.mkdir(mode=0o700)
    client = asyncssh.generate_private_key("ssh-ed25519", comment="dutlab lab")
    _secret(folder / "client", client.export_private_key())
    _secret(folder / "authorized_keys", client.export_public_key())
    known = []
    for server in servers:
        key = asyncssh.generate_private_key("ssh-ed25519", comment=f"dutlab lab {server.role}")
        _secret(folder / f"host-{server.role}", key.export_private_key())
        known.append(f"{server.address} {key.export_public_key().decode()}")
        _secret(folder / f"sshd-{server.role}.conf", _server_config(folder, server).encode())
    _secret(folder / "known_hosts", "".join(known).encode())
    _secret(config_file(folder), "".join(_client_config(folder, server) for server in servers).encode())


async def start(folder: Path, servers: Sequence[SshServer], *, nice: int = 0) -> None:
    """Start every server with `nice`, and wait until it listens. Raises HostError, LabError."""
    program = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
    if program is None:
        raise LabError("sshd is not installed", remedy="install openssh-server")
    await asyncio.to_thread(_make_privsep, folder)
    machine = LocalHost("lab")
    for server in servers:
        # The new session comes before sshd becomes a daemon: at the end of a command all processes of its group are killed.
        where = ["nice", "-n", str(nice), "ip", "netns", "exec", server.namespace, "setsid", "--wait"]
        await machine.run([*where, program, "-f", str(folder / f"sshd-{server.role}.conf"), "-E", str(folder / f"{server.role}.log")])
    await asyncio.gather(*(_listening(folder, server) for server in servers))


async def _listening(folder: Path, server: SshServer) -> None:
    try:
        async with own_timeout(STARTS_S):
            while not (folder / f"{server.role}.pid").exists():  # noqa: ASYNC110 written once it listens; a file has no event
                await asyncio.sleep(0.01)
    except TimeoutError:
        output = (folder / f"{server.role}.log").read_text(encoding="utf-8", errors="replace")
        raise LabError(f"sshd of {server.role} does not listen: {reason_in(output) or 'it printed nothing'}") from None


def remove(folder: Path) -> None:
    """Remove the files of ended servers, and sshd's own folder if start() made it and no sshd runs."""
    if not folder.is_dir():
        return
    if (folder / _MADE).exists() and not _any_sshd():
        with contextlib.suppress(OSError):  # other files are in it
            _PRIVSEP.rmdir()
    shutil.rmtree(folder)


def _make_privsep(folder: Path) -> None:
    with contextlib.suppress(FileExistsError):
        _PRIVSEP.mkdir(mode=0o755)
        (folder / _MADE).touch()


def _any_sshd() -> bool:
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):  # ended meanwhile
            if comm.read_text(encoding="utf-8").strip() == "sshd":
                return True
    return False


def _server_config(folder: Path, server: SshServer) -> str:
    # SHLVL keeps Debian's bash from reading the user's .bashrc for each command (its SSH_SOURCE_BASHRC): the lab is the same for all users.
    # StrictModes checks all parent folders and refuses those in /tmp; this folder is private in any place.
    return f"""\
Port {PORT}
ListenAddress {server.address}
HostKey {folder}/host-{server.role}
AuthorizedKeysFile {folder}/authorized_keys
PidFile {folder}/{server.role}.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
PrintMotd no
LogLevel INFO
StrictModes no
SetEnv SHLVL=2
"""


def _client_config(folder: Path, server: SshServer) -> str:
    return f"""\
Host {server.role}
  HostName {server.address}
  Port {PORT}
  User root
  IdentityFile {folder}/client
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking yes
  ConnectTimeout 30
  ServerAliveInterval 5
  ServerAliveCountMax 3
  ProxyCommand ip netns exec {server.via} {sys.executable} -I -S {relay.__file__} %h %p
"""


def _secret(path: Path, data: bytes) -> None:
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(data)
