"""Gate on a host: a shell that prints the host's clock, waits for an instant of it, and then starts a command.

It prints an empty line when ready, and then reads lines. The answer to `clock` is the clock and its resolution, both in nanoseconds. The
answer to `go INSTANT LATER` is the time until the instant. The command's output follows. LATER seconds after the start, BEGAN appears
within it, with two instants between which the command began. If reading the clock takes too long, BEGAN appears at once, without instants.

With bash (5.0 or later, of 2019) no program is needed to read the clock. The command's shell is loaded beforehand and waits on a pipe, so
that nothing must be started at the instant. Other POSIX shells wait by `sleep` and run the command themselves.
"""

from __future__ import annotations

NS_PER_S = 1_000_000_000
LONGEST_WAIT_NS = 60 * NS_PER_S
"""Longest wait in nanoseconds, so that a host whose clock was set does not wait for hours."""
BEGAN = rb"\0began(?: (\d+) (\d+))?\n"
"""Mark of the start, written at once, so that it is not mixed with the command's output."""

# $1: the command. File descriptors 5 and 6 keep the command's input and output while the pipes replace them.
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
command=$COPROC_PID output=${{COPROC[0]}} tell=${{COPROC[1]}}
echo
while read -r word at later; do
  now
  [ "$word" = clock ] && {{ echo "$t 1000"; continue; }}
  left=$((at - t)); echo "$left"
  if [ "$left" -gt 0 ] && [ "$left" -lt {LONGEST_WAIT_NS} ]; then
    printf -v wait %d.%09d $((left / {NS_PER_S})) $((left % {NS_PER_S}))
    read -rt "$wait" -u "$output"
  fi
  now; before=$t
  echo >&"$tell"
  read -r -u "$output"
  now; read -rt "$later"; printf '\0began %s %s\n' "$before" "$t"
  wait "$command"
  exit
done
"""

# `date` has %N on GNU, busybox and FreeBSD since 14.1; OpenBSD has perl in its base. `sleep` accepts fractions on all of them. The waiting
# shell itself runs the command, so that nothing must be loaded at the instant.
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
    """Return the command for a host that runs `command`, one or more lines for `sh`, behind a gate."""
    return ("sh", "-c", _EITHER, "sh", _FINE, _PLAIN, command)


def gate_here_argv(command: str) -> tuple[str, ...]:
    """Return the command for the controller's own machine: an empty line when ready, then BEGAN without instants after a line of input.

    A single shell also runs the command. It ends if its input ends first.
    """
    return ("sh", "-c", f"echo\nread -r go || exit\nunset go\nprintf '\\0began\\n'\n{command}")
