"""Processes that end tunnels in user space: their folder, start and end.

A folder is named after the network namespace, so that a later process of dutlab finds tunnel processes of an earlier one. For each process
it has its PID in NAME.pid, and its output in NAME.said.
"""

from __future__ import annotations


def folder(program: str) -> str:
    """Return a line for `sh` that sets `d` to the folder of this program's processes in this namespace."""
    return f"export d=/run/dutlab-{program}-$(stat -L -c %i /proc/self/ns/net)\n"


def start(name: str, program: str, argv: str) -> str:
    """Return lines for `sh` that start a process which outlives the command; `argv` are its arguments, quoted for the shell.

    The command waits until the process is in a new session: processes in the session of the command are killed with it.
    """
    return f"""rm -f "$d/{name}.pid"
setsid -f sh -c 'echo $$ >"$d/$0.pid"; exec "$@"' {name} {program} {argv} </dev/null >"$d/{name}.said" 2>&1
until [ -s "$d/{name}.pid" ]; do sleep 0.01; done
"""


def link(program: str, name: str) -> str:
    """Return a line for `sh` that links `$d/NAME` to the program, so that its processor time is counted under NAME."""
    return f'ln -sf "$(command -v {program})" "$d/{name}"\n'


def until(name: str, condition: str) -> str:
    """Return lines for `sh` that wait for a condition, or end with 1 and the last output of the process."""
    return f"""tries=300
until {condition}; do
  tries=$((tries - 1))
  [ $tries -gt 0 ] || {{ tail -n 3 "$d/{name}.said" >&2; exit 1; }}
  sleep 0.1
done
"""


def end(program: str) -> str:
    """Return a script that ends all processes of the program, including those started by a link, and removes the folder."""
    return f"""{folder(program)}ours() {{
  for file in "$d"/*.pid; do
    p=$(cat "$file" 2>/dev/null) && case $(readlink "/proc/$p/exe") in */{program}) echo "$p" ;; esac
  done
}}
tries=50
while p=$(ours); [ -n "$p" ]; do
  tries=$((tries - 1))
  [ $tries -gt 0 ] && kill $p || kill -9 $p
  sleep 0.1
done
rm -rf "$d"
"""
