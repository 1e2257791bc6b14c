"""Drives of a testbed's hosts, one row each, as they were before the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dutlab.physics.ceilings.path import BlockLoad, requests, topology
from dutlab.physics.ceilings.pcie import PcieLink, pcie_ceilings
from dutlab.report.model.run_report import Section
from dutlab.report.model.table import Column, Row, Table
from dutlab.units import si

_COLUMNS = (
    "drive", "model", "firmware", "serial", "capacity", "sectors", "scheduler", "queues", "link", "temperature, °C", "worn", "written",
)  # fmt: skip


def drives_of(facts: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the kernel's drive name → facts, for one host."""
    drives = facts.get("drives")
    return {name: of for name, of in drives.items() if isinstance(of, Mapping)} if isinstance(drives, Mapping) else {}


def drives_section(hosts: Mapping[str, Mapping[str, Any]]) -> tuple[Section, ...]:
    """Return one section if any host reports drives, else none. Empty columns are left out."""
    rows = [
        (host, dict(zip(_COLUMNS, _words(name, of), strict=True))) for host, facts in hosts.items() for name, of in drives_of(facts).items()
    ]
    if not rows:
        return ()
    shown = [c for c in _COLUMNS if any(words[c] for _, words in rows)]
    table = Table("drives", "Each drive as its host reports it", tuple(map(Column, ("host", *shown))), tuple(
        Row("", (host, *(words[c] for c in shown))) for host, words in rows
    ), first="")  # fmt: skip
    tables = (table, *_links(hosts))
    lead = "Read once, before the run. The link is the narrowest between drive and processor: as trained, and in brackets as possible."
    return (Section(slug="drives", workload="", title="Drives", lead=lead, tables=tables),)


def _words(name: str, drive: Mapping[str, Any]) -> Iterator[str]:
    yield from (name, *(str(drive.get(key) or "") for key in ("model", "firmware", "serial")))
    yield si(float(drive["size_bytes"]), "B") if "size_bytes" in drive else ""
    sectors = [drive.get(f"{kind}_sector_bytes") for kind in ("logical", "physical")]
    yield " / ".join(str(size) for size in sectors if size)
    yield str(drive.get("scheduler") or "")
    yield f"{drive['queues']} × {drive['queue_requests']}" if "queues" in drive and "queue_requests" in drive else ""
    yield _link(drive)
    yield "" if (heat := drive.get("temperature_c")) is None else f"{heat:.0f}"
    yield "" if (worn := drive.get("percent_used")) is None else f"{worn:.0f} %"
    yield "" if (written := drive.get("written_bytes")) is None else si(float(written), "B")


def _link(drive: Mapping[str, Any]) -> str:
    """Return the narrowest link, as `8 GT/s x4 (16 GT/s x4)`: as trained (as possible)."""
    known = [step for step in drive.get("pcie") or () if step.get("link_gts") and step.get("link_width")]
    if not known:
        return ""
    least = min(known, key=lambda step: step["link_gts"] * step["link_width"])
    texts = tuple(f"{least[f'link_gts{k}']:g} GT/s x{least[f'link_width{k}']}" for k in ("", "_most") if least.get(f"link_gts{k}"))
    return " (".join(dict.fromkeys(texts)) + (")" if len(set(texts)) > 1 else "")


def _links(hosts: Mapping[str, Mapping[str, Any]]) -> Iterator[Table]:
    """Yield a table of every link between drives and processor; drives with equal links share a row."""
    rows = []
    for host, facts in hosts.items():
        tree = topology({name: of.get("pcie") or () for name, of in drives_of(facts).items()})
        alike: dict[tuple[PcieLink, int | None], list[str]] = {}
        for name, one in tree.own.items():
            alike.setdefault((one.link, one.payload), []).append(name)
        rows += [Row("", (host, "of each drive", *_passes(names, *link), "–")) for link, names in alike.items()]
        for one in tree.shared:
            ratio = one.oversubscription(tree.own)
            cells = _passes(list(one.drives), one.link, one.payload)
            rows.append(Row("", (host, f"shared, {one.address}", *cells, "–" if ratio is None else f"{ratio:.2f} : 1")))
    if rows:
        heads = ("host", "link", "as trained", "payload", "drives", "to the host", "from the host", "4k reads a second", "oversubscription")
        yield Table("drive-links", "Links by trained speed, with their ceilings", tuple(map(Column, heads)), tuple(rows), first="")


def _passes(drives: Sequence[str], link: PcieLink, payload: int | None) -> tuple[str, ...]:
    passes = pcie_ceilings(link, payload=payload)
    to_host, from_host = (passes[0], passes[0]) if payload is None else (passes[1], passes[2])
    reads, _ = requests(link, payload, BlockLoad(4096, 1.0, 0.0))
    first, *rest = sorted(drives, key=lambda name: (len(name), name))
    named = f"{len(drives)}: {first} to {rest[-1]}" if rest else first
    return str(link), str(payload or ""), named, si(to_host.value, "B/s"), si(from_host.value, "B/s"), si(reads, "IOPS")
