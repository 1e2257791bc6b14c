"""Processes that end tunnels in user space: their folder, and how they are ended.

A folder is named after the network namespace, so that a later process finds what an earlier one started. It holds a file NAME.pid of each
process, and what it says in NAME.said.
"""

from __future__ import annotations


def folder(program: str) -> str:
    """A line for `sh` that sets `d` to the folder of this program's processes in this namespace."""
    return f"export d=/run/dutlab-{program}-$(stat -L -c %i /proc/self/ns/net)\n"


def start(name: str, program: str, argv: str) -> str:
    """Lines for `sh` that start a process which outlasts the command; `argv` are its arguments, in the words of the shell.

    The command ends once the process is in a new session: what is in that of the command is killed with it.
    """
    return f"""rm -f "$d/{name}.pid"
setsid -f sh -c 'echo $$ >"$d/$0.pid"; exec "$@"' {name} {program} {argv} </dev/null >"$d/{name}.said" 2>&1
until [ -s "$d/{name}.pid" ]; do sleep 0.01; done
"""


def link(program: str, name: str) -> str:
    """A line for `sh` that makes `$d/NAME` the program, so that accounts of processor time tell its processes from others."""
    return f'ln -sf "$(command -v {program})" "$d/{name}"\n'


def until(name: str, condition: str) -> str:
    """Lines for `sh` that wait until it holds, or end with 1 and with what the process said last."""
    return f"""tries=300
until {condition}; do
  tries=$((tries - 1))
  [ $tries -gt 0 ] || {{ tail -n 3 "$d/{name}.said" >&2; exit 1; }}
  sleep 0.1
done
"""


def end(program: str) -> str:
    """A script that ends all of them, whoever started them, and removes the folder. A link to the program has its file too."""
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
