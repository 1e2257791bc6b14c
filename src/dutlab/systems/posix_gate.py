"""Gate on a host: a shell that prints the host's clock, waits for an instant on it, and then starts a command.

It prints an empty line when ready, and reads lines: `clock` is answered by the clock and the unit that it counts in, both in nanoseconds;
`go INSTANT LATER` by how far off that is. The command's output follows, and within it, wherever the command has come to after LATER
seconds, BEGAN with two instants that it has begun between; at once, and with none, where the clock takes too long to read.

Where there is bash (5.0 or later, of 2019) the clock is read without starting a program, and the command's shell is loaded beforehand and
waits on a pipe: at the instant nothing is left to be started. Any POSIX shell does otherwise: it waits by `sleep` and runs the command
itself.
"""

from __future__ import annotations

import re

NS_PER_S = 1_000_000_000
LONGEST_WAIT_NS = 60 * NS_PER_S
"""A host whose clock was set does not wait for hours."""
BEGAN = re.compile(rb"\0began(?: (\d+) (\d+))?\n")
"""Written at once, so no output of the command comes between."""

# $1: the command. File descriptors 5 and 6 are the command's own input and output, while the pipes take their place.
_FINE = rf"""
[ -n "$EPOCHREALTIME" ] || exec sh -c "$1" sh "$2"
now() {{ t=${{EPOCHREALTIME/[.,]/}}000; }}
exec 5<&0 6>&1
coproc sh -c "read -r go || exit
unset go
echo
exec <&5 >&6 5<&- 6>&-
$2"
exec 5<&- 6>&-
command=$COPROC_PID said=${{COPROC[0]}} tell=${{COPROC[1]}}
echo
while read -r word at later; do
  now
  [ "$word" = clock ] && {{ echo "$t 1000"; continue; }}
  left=$((at - t)); echo "$left"
  if [ "$left" -gt 0 ] && [ "$left" -lt {LONGEST_WAIT_NS} ]; then
    printf -v wait %d.%09d $((left / {NS_PER_S})) $((left % {NS_PER_S}))
    read -rt "$wait" -u "$said"
  fi
  now; before=$t
  echo >&"$tell"
  read -r -u "$said"
  now; read -rt "$later"; printf '\0began %s %s\n' "$before" "$t"
  wait "$command"
  exit
done
"""

# `date` knows %N on GNU, busybox and FreeBSD since 14.1; OpenBSD has perl in its base. `sleep` takes fractions on all of them.
# The shell that waits is the one that runs the command, so that nothing is left to be loaded once the instant has come.
_PLAIN = rf"""
now() {{
  t=$(date +%s%N 2>/dev/null); unit=1
  case $t in *[!0-9]*|"")
    t=$(perl -MTime::HiRes=time -e 'printf "%.0f", time() * 1e9' 2>/dev/null) || {{ t=$(date +%s){"0" * 9}; unit={NS_PER_S}; }} ;;
  esac
}}
echo
while read -r word at later; do
  now
  if [ "$word" = clock ]; then echo "$t $unit"; continue; fi
  left=$((at - t)); echo "$left"
  wait=
  if [ "$left" -gt 0 ] && [ "$left" -lt {LONGEST_WAIT_NS} ]; then
    part=$(({NS_PER_S} + left % {NS_PER_S})); wait="sleep $((left / {NS_PER_S})).${{part#1}}"
  fi
  exec sh -c "$wait
printf '\0began\n'
$1"
done
"""
_EITHER = 'command -v bash >/dev/null && exec bash -c "$1" bash "$2" "$3"; exec sh -c "$2" sh "$3"'


def gate_argv(command: str) -> tuple[str, ...]:
    """Return the command for the host that carries out `command`, a line or more for `sh`."""
    return ("sh", "-c", _EITHER, "sh", _FINE, _PLAIN, command)


def gate_here_argv(command: str) -> tuple[str, ...]:
    """Return it for the controller's own machine: an empty line when ready, BEGAN with no instants once a line has been read.

    One shell, which also carries the command out. It ends when its input ends before.
    """
    return ("sh", "-c", f"echo\nread -r go || exit\nunset go\nprintf '\\0began\\n'\n{command}")
