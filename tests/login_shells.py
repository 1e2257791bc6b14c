"""Login shells that are not plain sh, as sources and manuals have them, behind a real OpenSSH server: `root` has one of them there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import posix_standin
from dutlab.labs import sshd
from processes import eventually

WINDOWS = Path(__file__).parent / "windows_standin.py"
SHELLS = {
    # pfSense 2.7.2, src/etc/rc.initial: the command is a child of the menu's own shell, which waits for it.
    "rc.initial": """#!/bin/sh
trap : 2; trap : 3; trap : 4
while [ $# -gt 0 ]; do
  case $1 in -c) shift; /bin/sh -c "$1"; exit ;; esac
  shift
done
echo ' 0) Logout (SSH only)                  9) pfTop'
""",
    # pfSense 2.4.5: the same without quotes around the command.
    "rc.initial-2.4.5": """#!/bin/sh
trap : 2; trap : 3; trap : 4
while [ $# -gt 0 ]; do
  case $1 in -c) shift; /bin/sh -c $1; exit ;; esac
  shift
done
""",
    # VyOS: bash with completions of its own; its configuration speaks up in every shell.
    "vbash": "#!/bin/bash\necho 'Welcome to VyOS'\nshopt -s expand_aliases\nalias run=false set=false\nexec /bin/bash --norc --noprofile \"$@\"\n",
    "csh": '#!/bin/sh\nexec csh "$@"\n',
    "tcsh": '#!/bin/sh\nexec tcsh "$@"\n',
    "fish": '#!/bin/sh\nexec fish "$@"\n',
    "busybox": '#!/bin/sh\nexec busybox sh "$@"\n',
    "rbash": '#!/bin/sh\nexec bash --restricted "$@"\n',
    # What the two shells of Windows say of a word that they do not know.
    "cmd": "#!/bin/sh\necho \"'exec' is not recognized as an internal or external command, operable program or batch file.\" >&2\nexit 1\n",
    "powershell": "#!/bin/sh\necho \"exec : The term 'exec' is not recognized as the name of a cmdlet, function, script file, or operable program.\" >&2\nexit 1\n",
    # A whole Windows, in so far as tests need one: windows_standin.py.
    **{
        f"windows-{name}": f'#!/bin/sh\nexport DUTLAB_TEST_PROGRAMDATA="${{0%/*}}"\nexec {sys.executable} -I -S {WINDOWS} {name} "$@"\n'
        for name in ("cmd", "powershell")
    },
}
PROGRAMS = {"csh": "csh", "tcsh": "tcsh", "fish": "fish", "busybox": "busybox"}
"""Shells that are the real ones → the program."""
RUN_COMMANDS = ("rc.initial", "vbash", "csh", "tcsh", "fish", "busybox")
KERNELS = {"freebsd": "FreeBSD", "openbsd": "OpenBSD", "macos": "Darwin"}
"""Stand-ins for whole systems of this kind: posix_standin.py."""
_START = """
mount --bind "$1/passwd" /etc/passwd
program=$2 box=$3
cd "$1"
[ ! -e hiding ] || . ./hiding
exec setsid --wait "$program" -f "$1/sshd-$box.conf" -E "$1/$box.log"
"""


def start(folder: Path, namespace: str, shell: str, box: str = "box") -> Path:
    """A server in `namespace` for which root's login shell is `shell`; returns the ssh_config of the host `box`."""
    sshd.write_files(folder, [sshd.SshServer(box, namespace, "127.0.0.1", via=namespace)])
    program = folder / shell
    if kernel := KERNELS.get(shell):
        program.write_text(posix_standin.install(folder, kernel))
        (folder / "hiding").write_text(posix_standin.hiding(folder))
    else:
        program.write_text(SHELLS[shell])
    program.chmod(0o755)
    users = Path("/etc/passwd").read_text().splitlines()
    root = next(line for line in users if line.startswith("root:")).rpartition(":")[0]
    (folder / "passwd").write_text("\n".join([f"{root}:{program}", *(line for line in users if not line.startswith("root:")), ""]))
    Path("/run/sshd").mkdir(exist_ok=True)
    server = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
    assert server is not None
    inside = ["ip", "netns", "exec", namespace, "unshare", "--mount", "sh", "-ec", _START, "start", str(folder), server, box]
    subprocess.run(inside, check=True)
    pid = folder / f"{box}.pid"
    assert eventually(lambda: pid.exists() and pid.read_text().strip() != "")  # a file is there before what is written into it
    return sshd.config_file(folder)
