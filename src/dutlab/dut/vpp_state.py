"""State of VPP's access lists, translation and sessions, read from `vppctl show …` (acl.c, nat44_ed_cli.c, interface_cli.c).

Forms: those of VPP 26.10, recorded, and of the sources of 23.02 to 26.06.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network

from dutlab.dut.privilege import Root
from dutlab.dut.vpp_rules import INPUT, OUTPUT, Place
from dutlab.errors import CommandFailed
from dutlab.systems.plain import plain

_ACL = re.compile(r"^acl-index (\d+) count \d+ tag \{(.*)\}", re.MULTILINE)
_RULE = re.compile(r"^\s+\d+: ipv[46] (\S+) src ([0-9a-f.:]+/\d+) dst ([0-9a-f.:]+/\d+)", re.MULTILINE)
_INTERFACE = re.compile(r"^(\S+)\s+(\d+)\s+(up|down)\b", re.MULTILINE)
_OF_INTERFACE = re.compile(r"^sw_if_index (\d+):$", re.MULTILINE)
_APPLIED = re.compile(r"^\s*(input|output) acl\(s\): ([\d, ]+)$", re.MULTILINE)
_TRANSLATES = re.compile(r"^\s+(\S+) (?:output-feature )?(in|out)\b", re.MULTILINE)
_NUMBERED = re.compile(r"(?:Deleted )?ACL index:\d+")
"""Answer of `set acl-plugin acl` and `delete acl-plugin acl` (acl.c of VPP 23.02 to 26.06)."""
_LIMIT = re.compile(r"^max translations per thread: (\d+)", re.MULTILINE)
_SESSIONS = re.compile(r"^(?:Sessions total: .*= |total sessions: )(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class VppState:
    """State of interfaces, access lists and translation. Numbers identify lists."""

    up: Mapping[str, bool]
    tags: Mapping[int, str]
    rules: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Rules of each list, as `set acl-plugin acl` takes them."""
    applied: Mapping[Place, tuple[int, ...]] = field(default_factory=dict)
    translates: Mapping[str, str] = field(default_factory=dict)
    """Interface → in or out."""
    nat_enabled: bool = False
    """True if nat44 is enabled, also without a port."""


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
    lists = await access_lists(root)
    return VppState(
        up={name: state == "up" for name, _, state in interfaces},
        tags={number: tag for number, (tag, _) in lists.items()},
        rules={number: rules for number, (_, rules) in lists.items()},
        applied=_applied(await show(root, "acl-plugin", "interface"), names),
        translates=dict(_TRANSLATES.findall(await show(root, "nat44", "interfaces"))),
        nat_enabled=await session_limit(root) is not None,
    )


async def access_lists(root: Root) -> dict[int, tuple[str, tuple[str, ...]]]:
    """Return number → tag and rules, each rule as `set acl-plugin acl` takes it."""
    _, *parts = _ACL.split(await show(root, "acl-plugin", "acl"))
    return {int(n): (tag, tuple(_rules(body))) for n, tag, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}


def _rules(listed: str) -> Iterator[str]:
    """Yield the rules of a list; networks are compared in Python's words, since IPv6 has several."""
    for action, *networks in _RULE.findall(listed):
        with contextlib.suppress(ValueError):  # not a network: the list then lacks a requested rule
            source, destination = (ip_network(network, strict=False) for network in networks)
            yield f"{action} src {source} dst {destination}"


async def sessions(root: Root, *words: str) -> int | None:
    """Return the number of sessions in `show acl-plugin sessions` or `show nat44 summary`."""
    matches = _SESSIONS.findall(await show(root, *words))
    return int(matches[0]) if matches else None


async def session_limit(root: Root) -> int | None:
    """Return the limit of nat44's sessions per thread; None while nat44 is not enabled."""
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
