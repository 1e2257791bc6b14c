"""State of VPP's access lists, translation and sessions, read from `vppctl show …` (acl.c, nat44_ed_cli.c, interface_cli.c)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dutlab.dut.privilege import Root
from dutlab.dut.vpp_rules import INPUT, OUTPUT, Place
from dutlab.errors import CommandFailed
from dutlab.systems.plain import plain

_ACL = re.compile(r"^acl-index (\d+) count (\d+) tag \{(.*)\}", re.MULTILINE)
_INTERFACE = re.compile(r"^(\S+)\s+(\d+)\s+(up|down)\b", re.MULTILINE)
_OF_INTERFACE = re.compile(r"^sw_if_index (\d+):$", re.MULTILINE)
_APPLIED = re.compile(r"^\s*(input|output) acl\(s\): ([\d, ]+)$", re.MULTILINE)
_TRANSLATES = re.compile(r"^\s+(\S+) (in|out)\b", re.MULTILINE)
_NUMBERED = re.compile(r"(?:Deleted )?ACL index:\d+")
"""Answer of `set acl-plugin acl` and `delete acl-plugin acl` (acl.c of VPP 23.02 to 26.06)."""
_LIMIT = re.compile(r"^max translations per thread: (\d+)", re.MULTILINE)
_SESSIONS = re.compile(r"^(?:Sessions total: .*= |total sessions: )(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class VppState:
    """State of interfaces, access lists and translation. Numbers identify lists."""

    up: Mapping[str, bool]
    tags: Mapping[int, str]
    counts: Mapping[int, int] = field(default_factory=dict)
    applied: Mapping[Place, tuple[int, ...]] = field(default_factory=dict)
    translates: Mapping[str, str] = field(default_factory=dict)
    """Interface → in or out."""


async def show(root: Root, *words: str) -> str:
    """Return VPP's output. Raises CommandFailed where no VPP answers."""
    return plain((await root.run(["vppctl", "show", *words])).text)


async def change(root: Root, *words: str) -> str:
    """Run a command and return its output. Raises CommandFailed.

    vppctl always ends with 0, so an answer other than the number of a list is a failure.
    """
    done = await root.run(["vppctl", *words])
    output = plain(done.text).strip()
    if output and not _NUMBERED.fullmatch(output):
        raise CommandFailed(host=root.dut.name, argv=done.argv, status=done.status, stderr_tail=output)
    return output


async def read(root: Root) -> VppState:
    """Return the present state. Raises CommandFailed, HostError."""
    interfaces = _INTERFACE.findall(await show(root, "interface"))
    names = {number: name for name, number, _ in interfaces}
    lists = _ACL.findall(await show(root, "acl-plugin", "acl"))
    return VppState(
        up={name: state == "up" for name, _, state in interfaces},
        tags={int(number): tag for number, _, tag in lists},
        counts={int(number): int(count) for number, count, _ in lists},
        applied=_applied(await show(root, "acl-plugin", "interface"), names),
        translates=dict(_TRANSLATES.findall(await show(root, "nat44", "interfaces"))),
    )


async def sessions(root: Root, *words: str) -> int | None:
    """Return the number of sessions in `show acl-plugin sessions` or `show nat44 summary`."""
    matches = _SESSIONS.findall(await show(root, *words))
    return int(matches[0]) if matches else None


async def session_limit(root: Root) -> int | None:
    """Return the limit of nat44's sessions per thread."""
    match = _LIMIT.search(await show(root, "nat44", "summary"))
    return int(match[1]) if match else None


def _applied(text: str, names: Mapping[str, str]) -> dict[Place, tuple[int, ...]]:
    lists_by_place: dict[Place, tuple[int, ...]] = {}
    _, *parts = _OF_INTERFACE.split(text)
    for number, body in zip(parts[::2], parts[1::2], strict=True):
        for direction, lists in _APPLIED.findall(body):
            place = (names.get(number, f"sw_if_index {number}"), INPUT if direction == "input" else OUTPUT)
            lists_by_place[place] = tuple(int(n) for n in re.findall(r"\d+", lists))
    return lists_by_place
