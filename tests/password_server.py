"""An ssh server that wants a password: `password_server.py FOLDER`, the password in the variable SECRET.

For sshd it would have to be that of a user of the machine. Writes known_hosts and config into FOLDER, then prints a line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import asyncssh

SECRET = os.environ.pop("SECRET")  # commands do not see it
USER = "tester"


class Door(asyncssh.SSHServer):
    """Opens to one user with the password."""

    def begin_auth(self, username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (USER, SECRET)


async def carry(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """What sshd does with a command."""
    shell = await asyncio.create_subprocess_exec(
        "sh", "-c", process.command or "", stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    await process.redirect(stdin=shell.stdin, stdout=shell.stdout, stderr=shell.stderr)
    status = await shell.wait()
    await process.stdout.drain()
    await process.stderr.drain()
    if status < 0:
        process.exit_with_signal(signal.Signals(-status).name.removeprefix("SIG"))
    else:
        process.exit(status)


async def main(folder: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.listen("127.0.0.1", 0, server_factory=Door, server_host_keys=[key], process_factory=carry, encoding=None)
    port, known = server.get_port(), folder / "known_hosts"
    known.write_text(f"[127.0.0.1]:{port} {key.export_public_key().decode()}")
    (folder / "config").write_text(
        f"Host box\n  HostName 127.0.0.1\n  Port {port}\n  User {USER}\n  IdentityAgent none\n  UserKnownHostsFile {known}\n"
    )
    print("listening", flush=True)
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
