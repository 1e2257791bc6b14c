r"""The words that Linux, the BSDs and macOS have in common: those of POSIX sh.

sshd hands one string to the user's login shell: sh, bash, csh on older FreeBSD, fish. So the string holds nothing that one of them
reads differently: `exec sh -c 'eval "$(printf %b "…")"' dutlab` with every byte that is not plain as `\0ooo`.

sshd starts each command as leader of a new session (session.c, do_exec_no_pty: setsid), so the login shell's number is the number
of its process group. Most login shells become the script's sh; pfSense's, rc.initial, runs it as a child and waits (2.7.2, lines 50 to
53). So the group is asked for, and taken only where it is this sh's own number or its parent's: a server that starts no session would lose
itself. The script prints the group before the command runs and the status after it, and then kills the group, itself included: children
do not outlive the command that left them.
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
"""Lines `+ GROUP`, `- GROUP`; and `T GROUP`, `K GROUP` to send SIGTERM or SIGKILL, for a controller on another machine."""

DOAS_OR_SUDO = (("doas", "-n"), ("sudo", "-n"))
"""`-n`: rather fail than ask."""
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:= ")
_PREAMBLE = (
    "PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C NO_COLOR=1 TERM=dumb; "
    f"export PATH LC_ALL NO_COLOR TERM; unset {' '.join(COLOURFUL)}; "
)
_SCRIPT = (
    'command -v "$1" >/dev/null 2>&1 || { printf "MARK-\\n"; printf "MARK\\nMARK127\\n" >&2; exit 127; }; '
    # The fifth word of Linux's stat (proc(5)); the BSDs have no such file and are asked by ps(1).
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
# The file appears under its name only when all of it is there: a connection that is lost in the middle looks like the end of the input.
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
    """The line for sshd that runs `argv` with `mark` around its output."""
    script = _SCRIPT.replace("MARK", mark.decode().replace("\x1e", "\\036"))
    return through_login_shell(f"{_PREAMBLE}set -- {shlex.join(argv)}; {script}")


def through_login_shell(script: str) -> str:
    """The line for sshd that runs a POSIX `script`, whatever the login shell is."""
    plain = "".join(chr(b) if b in _PLAIN else f"\\0{b:03o}" for b in script.encode())
    return f"""exec sh -c 'eval "$(printf %b "{plain}")"' dutlab"""


def listens(port: int) -> Argv:
    """Prints the line of whatever listens on a TCP port."""
    return ("sh", "-c", _LISTENS.format(port=port))


def is_listening(text: str, _: int) -> bool:
    """Grep has looked for the port already."""
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
