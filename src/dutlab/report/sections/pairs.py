"""One verdict on each pair of hosts, from its goodput (workload matrix) and the largest packet that passes (workload path-mtu)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dutlab.physics.ceilings.ethernet import tcp_goodput
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.packets import GOODPUT
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Cell, Column, Figure, Row, Table
from dutlab.report.model.words import PERCENT, Unit, chosen_rate, plural
from dutlab.report.sections.matrix import pair_of
from dutlab.store.read import hosts_along
from dutlab.units import BpsL1

PAIRS = "pairs"
NEAR_LINE = 0.97
"""Share of the goodput that the packets allow from which the line rate is the limit."""
_BYTES = Unit("", 1.0, 0)
_GOODPUT = Unit("Gb/s", 1e9, 2)
_LINE, _NARROW, _BELOW, _NO_SPEED = (
    "line rate",
    "large packets do not pass",
    "below line rate, and not for the packets' size",
    "not known, since the link has no speed",
)


@dataclass(frozen=True)
class _Pair:
    """Figures of one pair of hosts."""

    group: Group
    goodput: Figure
    path_mtu: int | None
    port_mtu: int | None
    """Smaller MTU of the two ports of the pair; None where the facts do not have it."""
    possible_bps: float | None
    """Goodput of full packets that pass; None without the link's speed or the path MTU."""

    @property
    def verdict(self) -> str:
        """Return the limit, in words."""
        if self.path_mtu is not None and self.port_mtu is not None and self.path_mtu < self.port_mtu:
            return f"{_NARROW}: the ports have {self.port_mtu}, the path carries {self.path_mtu}"
        if self.possible_bps is None:
            return _NO_SPEED if self.path_mtu is not None else "not known, since the largest packet was not measured"
        return _LINE if self.goodput.median >= NEAR_LINE * self.possible_bps else _BELOW


def pairs_section(read: ReadRun) -> tuple[Section, ...]:
    """Return one section if the run has both workloads with TCP results, else none."""
    matrix = [g for g in read.groups if g.cell.workload == "matrix" and g.measured]
    paths = [g for g in read.groups if g.cell.workload == "path-mtu" and g.measured]
    pairs = [pair for g in matrix if (pair := _pair(g, paths, read)) is not None] if paths else []
    if not pairs:
        return ()
    way = hosts_along(read.resolved)
    place = {host: n for n, host in enumerate(way)}
    pairs.sort(key=lambda p: [read.labels.index(p.group.label), *(place.get(host, len(way)) for host in pair_of(p.group))])
    several = len({p.group.label for p in pairs}) > 1
    rows = [Row(p.group.label if several else "", _cells(p), link=p.group.cell.link_label) for p in pairs]
    columns = (
        Column("client"),
        Column("server"),
        Column("goodput", GOODPUT, chosen_rate() or _GOODPUT),
        Column("packets that pass, bytes", unit=_BYTES, name="path_mtu_bytes"),
        Column("of what they allow, %", unit=PERCENT, name="allowed_ratio"),
        Column("limited by"),
    )
    table = Table(
        PAIRS, "Each pair: goodput, and the goodput of the largest packets that pass", columns, tuple(rows), first="mode" if several else ""
    )
    return (
        Section(
            slug=PAIRS,
            workload="matrix",
            title="Each pair of hosts: goodput and packets",
            lead="TCP in full packets that pass, with time stamps, is the most that a link's speed allows. Both were measured in this run.",
            tables=(table,),
            words=tuple(_words(pairs)),
            answer=tuple(_words(pairs)),
        ),
    )


def _cells(p: _Pair) -> tuple[Cell, ...]:
    share = "" if p.possible_bps is None else p.goodput.median / p.possible_bps
    return (*pair_of(p.group), p.goodput, "" if p.path_mtu is None else float(p.path_mtu), share, p.verdict)


def _words(pairs: Sequence[_Pair]) -> Iterator[str]:
    """Yield how many pairs have each limit, and name those below it."""
    counted = Counter(p.verdict.partition(":")[0] for p in pairs)
    yield f"What limits {plural(len(pairs), 'pair')}: {'; '.join(f'{words} ({n})' for words, n in counted.most_common())}."
    for p in pairs:
        if p.verdict.startswith(_NARROW):
            client, server = pair_of(p.group)
            label = f"{p.group.label}, " if len({q.group.label for q in pairs}) > 1 else ""
            yield f"{label}{client} to {server}: {p.verdict}."


def _pair(group: Group, paths: Sequence[Group], read: ReadRun) -> _Pair | None:
    goodput = value_of(group, group.main[1], GOODPUT, read.book)
    client, server = pair_of(group)
    if not isinstance(goodput, Figure) or not client:
        return None
    link = group.cell.link_label
    mtu = _path_mtu(group, paths, link)
    speed = _speed(read.testbed, link)
    possible = None if mtu is None or speed is None else tcp_goodput(BpsL1(speed), mtu=mtu)
    ports = [m for host in (client, server) if (m := _port_mtu(read, link, host)) is not None]
    return _Pair(group, goodput, mtu, min(ports) if len(ports) == 2 else None, possible)  # noqa: PLR2004 -- both ends


def _path_mtu(group: Group, paths: Sequence[Group], link: str) -> int | None:
    """Return the largest packet between the pair's hosts, in the direction of the data if it was measured, else in the other."""
    client, server = pair_of(group)
    levels = {k: v for k, v in group.cell.factors.items() if k != "mode"}
    same = [g for g in paths if g.cell.mode == group.cell.mode and {k: v for k, v in g.cell.factors.items() if k != "mode"} == levels]
    rows = [row for g in same for r in g.measured for row in r.tables.get("path_mtu", ()) if row.get("link") == link]
    for ends in ((client, server), (server, client)):
        between = (row for row in rows if tuple(str(row.get(end)).partition(":")[0] for end in ("from", "to")) == ends)  # to a port
        mtus = [float(row.get("path_mtu_bytes") or 0) for row in between]
        if mtus and min(mtus) > 0:
            return int(min(mtus))
    return None


def _speed(testbed: Mapping[str, Any], link: str) -> float | None:
    links = testbed.get("links")
    entry = links.get(link) if isinstance(links, Mapping) else None
    speed = entry.get("speed") if isinstance(entry, Mapping) else None
    return float(speed) if isinstance(speed, int | float) and speed > 0 else None


def _port_mtu(read: ReadRun, link: str, host: str) -> int | None:
    """Return the MTU of the host's port on the link, from the facts before the run; a level of the factor `mtu` is not in them."""
    links = read.testbed.get("links")
    entry = links.get(link) if isinstance(links, Mapping) else None
    ports = [*(entry.get("path") or ()), *(entry.get("segment") or ())] if isinstance(entry, Mapping) else []
    cards = read.facts.get(host, {}).get("interfaces")
    for port in ports:
        name, interface = (port.get("host"), port.get("interface")) if isinstance(port, Mapping) else str(port).partition(":")[::2]
        if name == host and isinstance(cards, Mapping) and isinstance(card := cards.get(interface), Mapping):
            mtu = card.get("mtu")
            return mtu if isinstance(mtu, int) else None
    return None
