r"""Words that Linux, the BSDs and macOS have in common: those of POSIX sh.

sshd passes one string to the user's login shell: sh, bash, csh on older FreeBSD, fish. So the string contains only text that all of them
read alike: `exec sh -c 'eval "$(printf %b "…")"' dutlab` with every other byte as `\0ooo`.

sshd starts each command as leader of a new session (session.c, do_exec_no_pty: setsid), so the PID of the login shell is the number of its
process group. Most login shells become the script's sh. pfSense's rc.initial runs it as a child and waits (2.7.2, lines 50 to 53). So the
script asks for its group, and accepts it only if it is the PID of this sh or of its parent: otherwise a server without sessions would kill
itself. The script prints the group before the command runs and the status after it. It then kills the group with itself, so that children
do not outlive the command that started them.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dutlab.systems import posix_lease
from dutlab.systems.plain import COLOURFUL
from dutlab.systems.posix_gate import gate_argv, gate_here_argv
from dutlab.systems.system import Argv, Shell

KEEPER = """
trap '' INT TERM HUP
watched=' '
while read -r sign group; do
  case $sign in
    +) watched="$watched$group " ;;
    T) kill -s TERM -- "-$group" 2>/dev/null ;;
    K) kill -s KILL -- "-$group" 2>/dev/null ;;
    -) case $watched in *" $group "*) watched="${watched%% $group *} ${watched#* $group }" ;; esac ;;
  esac
done
for group in $watched; do kill -s KILL -- "-$group" 2>/dev/null; done
"""
"""Script that reads lines `+ GROUP`, `- GROUP`, and `T GROUP`, `K GROUP` to send SIGTERM or SIGKILL, for a controller on another
machine."""

DOAS_OR_SUDO = (("doas", "-n"), ("sudo", "-n"))
"""Prefixes for root; with `-n` they fail if they need a password."""
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:= ")
_PREAMBLE = (
    "PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C NO_COLOR=1 TERM=dumb; "
    f"export PATH LC_ALL NO_COLOR TERM; unset {' '.join(COLOURFUL)}; "
)
_SCRIPT = (
    'command -v "$1" >/dev/null 2>&1 || { printf "MARK-\\n"; printf "MARK\\nMARK127\\n" >&2; exit 127; }; '
    # The fifth word of Linux's stat (proc(5)); the BSDs lack the file, so ps(1) prints the group.
    "group=; { read -r _ _ _ _ group _ </proc/$$/stat; } 2>/dev/null || group=$(ps -o pgid= -p $$ 2>/dev/null); "
    'group=${group##* }; [ "$group" = "$PPID" ] || group=$$; '
    'trap : TERM HUP INT; printf "MARK%s\\n" $group; printf "MARK\\n" >&2; '
    '"$@"; status=$?; printf "MARK%s\\n" $status >&2; kill -s KILL -- -$group 2>/dev/null; exit $status'
)
_SWEEP = """
keeper=$1 name=$2; shift 2
case $(ps -ww -o args= -p "$keeper" 2>/dev/null) in
  *"$name"*) for group in "$@" "$keeper"; do kill -s KILL -- "-$group" 2>/dev/null; done ;;
esac
"""
# The file gets its name only when it is complete: a lost connection looks like the end of the input.
_PUT = """
path=$1 word=$2 mode=$3 size=$4
case $path in */*) part=${path%/*}/.${path##*/} ;; *) part=.$path ;; esac
part=$part.$word.part
umask 077
if dd of="$part" bs=65536 && [ "$(wc -c <"$part")" -eq "$size" ] && chmod "$mode" "$part" && [ ! -d "$path" ] && mv -f "$part" "$path"
then exit 0; fi
[ ! -d "$path" ] || echo "dd: $path: Is a directory" >&2
rm -f "$part"
exit 1
"""
# Linux's table (proc_pid_net(5): state 0A is LISTEN), else the BSDs' netstat.
_LISTENS = (
    "{{ cat /proc/net/tcp /proc/net/tcp6 || netstat -an; }} 2>/dev/null | grep -E ':{port:04X} [0-9A-F]+:0000 0A |[.:]{port} .*LISTEN'"
)


def command_line(argv: Sequence[str], mark: bytes) -> str:
    """Return the line for sshd that runs `argv` with `mark` around its output."""
    script = _SCRIPT.replace("MARK", mark.decode().replace("\x1e", "\\036"))
    return through_login_shell(f"{_PREAMBLE}set -- {shlex.join(argv)}; {script}")


def through_login_shell(script: str) -> str:
    """Return the line for sshd that runs a POSIX `script` with any login shell."""
    plain = "".join(chr(b) if b in _PLAIN else f"\\0{b:03o}" for b in script.encode())
    return f"""exec sh -c 'eval "$(printf %b "{plain}")"' dutlab"""


def listens(port: int) -> Argv:
    """Return the command that prints a line for each listener on a TCP port."""
    return ("sh", "-c", _LISTENS.format(port=port))


def is_listening(text: str, _: int) -> bool:
    """Return whether there is a line; grep has selected the port already."""
    return bool(text.strip())


def _absent(groups: Sequence[tuple[str, ...]]) -> Argv:
    lines = [" || ".join([*(f"command -v {name} >/dev/null" for name in names), f"echo {names[0]}"]) for names in groups]
    return ("sh", "-c", "\n".join([*lines, "true"]))


SH = Shell(
    command_line=command_line,
    keeper=lambda word: ("sh", "-c", KEEPER, word),
    sweep=lambda keeper, word, groups: ("sh", "-c", _SWEEP, "sweep", str(keeper), word, *map(str, groups)),
    put=lambda path, word, mode, size: ("sh", "-c", _PUT, "put", path, word, f"{mode:o}", str(size)),
    get=lambda path: ("cat", "--", path),
    lease=lambda who, over: ("sh", "-c", posix_lease.SCRIPT, "dutlab-lease", who, over),
    text=lambda text: ("sh", "-c", text),
    gate=gate_argv,
    gate_here=gate_here_argv,
    in_directory=lambda folder, text: f"cd -- {shlex.quote(folder)} || exit 126\n{text}",
    absent=_absent,
)
