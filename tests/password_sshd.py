"""An OpenSSH server that asks for a password, of a user whom this machine does not know.

sshd takes passwords from /etc/shadow, so it runs with files of its own in their place, which only it and its sessions see: a mount namespace.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from dutlab.labs import inside, sshd
from processes import eventually

USER, USER_ID = "dutlab-tester", 54321
_ASKS = {
    "password": "PasswordAuthentication yes\nPubkeyAuthentication no\n",
    # As FreeBSD's sshd does from the start: PAM asks, in the words of PAM (RFC 4256).
    "keyboard-interactive": "KbdInteractiveAuthentication yes\nPasswordAuthentication no\nPubkeyAuthentication no\nUsePAM yes\n",
}
_PAM = "auth required pam_unix.so\naccount required pam_unix.so\nsession required pam_permit.so\n"
_START = """
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/shadow" /etc/shadow
[ ! -e /etc/pam.d/sshd ] || mount --bind "$1/pam" /etc/pam.d/sshd
exec setsid --wait "$2" -f "$1/sshd-box.conf" -E "$1/box.log"
"""


def start(folder: Path, namespace: str, password: str, *, asks: str = "password") -> Path:
    """Listens in `namespace`, knows one user more than the machine and `asks` by a method of RFC 4252 or 4256.

    Returns the ssh_config of host `box`, which names no key.
    """
    door = sshd.SshServer("box", namespace, "127.0.0.1", via=namespace)
    sshd.write_files(folder, [door])
    server = folder / "sshd-box.conf"
    server.write_text(_ASKS[asks] + server.read_text())  # of a duplicate setting, sshd takes the first
    home = folder / "home"
    home.mkdir()
    os.chown(home, USER_ID, USER_ID)
    for folders in (folder, folder.parent):
        folders.chmod(0o711)  # its user goes through, and sees nothing but its home
    hashed = subprocess.run(
        ["openssl", "passwd", "-6", "-stdin"], input=password, capture_output=True, text=True, check=True
    ).stdout.strip()
    (folder / "passwd").write_text(f"{Path('/etc/passwd').read_text()}{USER}:x:{USER_ID}:{USER_ID}::{home}:/bin/sh\n")
    (folder / "shadow").write_text(f"{USER}:{hashed}:19000:0:99999:7:::\n")
    (folder / "shadow").chmod(0o600)
    (folder / "pam").write_text(_PAM)
    Path("/run/sshd").mkdir(exist_ok=True)
    program = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
    assert program is not None
    enter = ["ip", "netns", "exec", namespace, "unshare", "--mount", "sh", "-ec", _START, "start", str(folder), program]
    subprocess.run(enter, check=True)
    assert eventually((folder / "box.pid").exists)
    config = sshd.config_file(folder)
    lines = [line for line in config.read_text().splitlines() if "Identity" not in line or "Agent" in line]
    config.write_text("\n".join(lines).replace("User root", f"User {USER}") + "\n")
    return config


def stop(namespace: str) -> None:
    """Ends the server and all that it started."""
    identity = inside.namespace_id(Path("/run/netns", namespace))
    assert identity is not None
    assert inside.kill_all(identity) == []
