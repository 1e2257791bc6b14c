"""State of pf(4), as text that `pfctl -f -` accepts: options, tables, translation and filter rules. Changes nothing.

Anchors keep their rules while the main ruleset changes, so they need no saving. States are not saved: they belong to connections. If
pfctl(8) prints something that it does not accept (queues, rules about Ethernet, adaptive syncookies), it is refused before anything is
flushed. Two options, `set reassemble` and `set keepcounters`, are reset by `-F all` and not listed by pfctl; they are read from the file
that the system loads.
"""

from __future__ import annotations

import re

from dutlab.dut.pf_rules import AS_WRITTEN
from dutlab.dut.privilege import Root
from dutlab.errors import CommandFailed, HostError
from dutlab.reason import reason_in

_LIMIT = re.compile(r"^(\S+)\s+hard limit\s+(\d+)$", re.MULTILINE)
_TIMEOUT = re.compile(r"^(\S+)\s+(\d+)(?:s| states)$", re.MULTILINE)
_SKIPPED = re.compile(r"^(\S+) \(skip\)", re.MULTILINE)
_TABLE = re.compile(r"^([c-])([p-])[^\s]*\s+(\S+)", re.MULTILINE)
"""Line of `pfctl -v -s Tables`: const, persist, … and the name (pfctl_table.c, print_table())."""
_SYNCOOKIES = re.compile(r"^Syncookies\n\s+mode\s+(\S+)", re.MULTILINE)
"""Lines of `pfctl -v -s info` of FreeBSD 14 (pfctl_parser.c, print_status())."""
_UNLISTED = re.compile(r"^\s*(set (?:reassemble|keepcounters)\b[^#\n]*)", re.MULTILINE)
_HARD_LIMIT = re.compile(r"^states\s+hard limit\s+(\d+)$", re.MULTILINE)
_LOGGED = re.compile(r"^Interface Stats for (\S+)", re.MULTILINE)


async def enabled(root: Root) -> bool:
    """Return whether pf filters. Raises CommandFailed without pf."""
    return "Status: Enabled" in (await root.run(["pfctl", "-s", "info"])).text


async def state_limit(root: Root) -> int | None:
    """Return the limit of states."""
    match = _HARD_LIMIT.search((await root.run(["pfctl", "-s", "memory"])).text)
    return int(match[1]) if match else None


async def loaded(root: Root, sections: tuple[str, ...]) -> str:
    """Return the main ruleset as pfctl lists it, translation before filter."""
    return "".join([(await root.run(["pfctl", "-s", section])).text for section in sections])


async def tables(root: Root) -> dict[str, tuple[str, str]]:
    """Return name → attributes in the words of pf.conf(5), and addresses, one per line."""
    listed = _TABLE.findall((await root.run(["pfctl", "-v", "-s", "Tables"])).text)
    table_by_name = {}
    for const, persist, name in listed:
        attributes = " ".join(word for flag, word in ((persist, "persist"), (const, "const")) if flag != "-")
        addresses = (await root.run(["pfctl", "-t", name, "-T", "show"])).text.split()
        table_by_name[name] = attributes, "".join(f"{address}\n" for address in addresses)
    return table_by_name


async def saved(root: Root, sections: tuple[str, ...], head: tuple[str, ...], own: str) -> str:
    """Return the state of pf as one text; `own` is the file that the system loads automatically.

    Raises HostError when pf would not accept it: a state that cannot be restored must not be flushed.
    """
    if queues := (await root.value(["pfctl", "-s", "queue"])):
        raise _cannot(root, f"it has queues ({queues.splitlines()[0]})")
    if ethernet := (await root.value(["pfctl", "-s", "ether"])):  # OpenBSD, and FreeBSD before 14, lack `-s ether`
        raise _cannot(root, f"it has rules about Ethernet ({ethernet.splitlines()[0]})")
    verbose = (await root.run(["pfctl", "-v", "-s", "info"])).text
    syncookies = _SYNCOOKIES.findall(verbose)
    if syncookies == ["adaptive"]:
        raise _cannot(root, "its syncookies are adaptive, and pfctl does not list their thresholds")
    limits = _LIMIT.findall((await root.run(["pfctl", "-s", "memory"])).text)
    timeouts = _TIMEOUT.findall((await root.run(["pfctl", "-s", "timeouts"])).text)
    skipped = _SKIPPED.findall((await root.run(["pfctl", "-v", "-s", "Interfaces"])).text)
    logged = _LOGGED.findall(verbose)
    unlisted = _UNLISTED.findall((await root.run(["cat", own], check=False)).text)
    lines = [*head, AS_WRITTEN]
    lines += [f"set limit {name} {value}" for name, value in limits]
    lines += [f"set timeout {name} {value}" for name, value in timeouts]
    lines += [f"set loginterface {name}" for name in logged]
    lines += [f"set skip on {name}" for name in skipped]
    lines += [line.strip() for line in unlisted]
    lines += ["set syncookies always" for mode in syncookies if mode == "always"]
    for table, (attributes, addresses) in (await tables(root)).items():
        lines.append(" ".join(f"table <{table}> {attributes} {{ {' '.join(addresses.split())} }}".split()))
    text = "\n".join([*lines, await loaded(root, sections)])
    try:
        await root.run(["pfctl", "-n", "-f", "-"], stdin=text)
    except CommandFailed as e:
        raise _cannot(root, reason_in(e.stderr_tail)) from e
    return text


def _cannot(root: Root, why: str) -> HostError:
    return HostError(
        f"its present pf ruleset cannot be fed back to pfctl, so it could not be restored: {why}",
        host=root.dut.name,
        remedy="save it by hand and start from an empty ruleset (`pfctl -F all`)",
    )
