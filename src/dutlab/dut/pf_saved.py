"""What pf(4) holds now, as text that `pfctl -f -` takes back: options, tables, translation and filter rules. Changes nothing.

Anchors keep their rules while the main ruleset is exchanged, so they need no saving. States are not saved: they belong to connections.
What pfctl(8) prints but does not take back (queues) is refused before anything is flushed.
"""

from __future__ import annotations

import re

from dutlab.dut.pf_rules import AS_WRITTEN
from dutlab.dut.privilege import Root
from dutlab.errors import CommandFailed, HostError

_LIMIT = re.compile(r"^(\S+)\s+hard limit\s+(\d+)$", re.MULTILINE)
_TIMEOUT = re.compile(r"^(\S+)\s+(\d+)(?:s| states)$", re.MULTILINE)
_SKIPPED = re.compile(r"^(\S+) \(skip\)", re.MULTILINE)
_LOGGED = re.compile(r"^Interface Stats for (\S+)", re.MULTILINE)


async def enabled(root: Root) -> bool:
    """Whether pf filters. Raises CommandFailed where there is no pf at all."""
    return "Status: Enabled" in (await root.run(["pfctl", "-s", "info"])).text


async def loaded(root: Root, sections: tuple[str, ...]) -> str:
    """The main ruleset as pfctl lists it, translation before filter."""
    return "".join([(await root.run(["pfctl", "-s", section])).text for section in sections])


async def saved(root: Root, sections: tuple[str, ...], head: tuple[str, ...]) -> str:
    """The whole of it. Raises HostError when pf would not take it back: what cannot be restored must not be flushed."""
    if queues := (await root.value(["pfctl", "-s", "queue"])):
        raise _cannot(root, f"it has queues ({queues.splitlines()[0]})")
    limits = _LIMIT.findall((await root.run(["pfctl", "-s", "memory"])).text)
    timeouts = _TIMEOUT.findall((await root.run(["pfctl", "-s", "timeouts"])).text)
    skipped = _SKIPPED.findall((await root.run(["pfctl", "-v", "-s", "Interfaces"])).text)
    logged = _LOGGED.findall((await root.run(["pfctl", "-s", "info"])).text)
    tables = (await root.run(["pfctl", "-s", "Tables"])).text.split()
    lines = [*head, AS_WRITTEN]
    lines += [f"set limit {name} {value}" for name, value in limits]
    lines += [f"set timeout {name} {value}" for name, value in timeouts]
    lines += [f"set loginterface {name}" for name in logged]
    lines += [f"set skip on {name}" for name in skipped]
    for table in tables:
        addresses = (await root.run(["pfctl", "-t", table, "-T", "show"])).text.split()
        lines.append(f"table <{table}> persist {{ {' '.join(addresses)} }}")
    text = "\n".join([*lines, await loaded(root, sections)])
    try:
        await root.run(["pfctl", "-n", "-f", "-"], stdin=text)
    except CommandFailed as e:
        raise _cannot(root, e.stderr_tail.strip()[:200]) from e
    return text


def _cannot(root: Root, why: str) -> HostError:
    return HostError(
        f"its present pf ruleset cannot be fed back to pfctl, so it could not be restored: {why}",
        host=root.dut.name,
        remedy="save it by hand and start from an empty ruleset (`pfctl -F all`)",
    )
