"""iperf3 between every two hosts: a row per client, a column per server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Missing, Row, Table, Value
from dutlab.report.model.words import asked_words
from dutlab.report.sections.goodput import protocol_of
from dutlab.report.sections.headline import compared
from dutlab.spec.known import mode_of
from dutlab.store.read import dut_of, hosts_along

_SHOWN = {
    "tcp": (("goodput_bps", "Goodput"), ("retransmits", "Retransmits")),
    "udp": (("goodput_bps", "Goodput"), ("loss_ratio", "Datagrams lost")),
}


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: one table per figure, mode and link."""
    way = hosts_along(read.resolved)
    family = str(read.testbed.get("hosts", {}).get(dut_of(read.resolved), {}).get("family", ""))
    variants = sorted({variant_of(g) for g in groups})  # trials may be shuffled
    of = {
        (label, link, variant): cells
        for label in labels
        for link in dict.fromkeys(g.cell.link_label for g in sorted(groups, key=lambda g: (len(g.cell.links), g.cell.links)))
        for variant in variants
        if (cells := [g for g in groups if (g.label, g.cell.link_label, variant_of(g)) == (label, link, variant)])
    }
    several = len(variants) > 1
    number = {variant: n if several else 0 for n, variant in enumerate(variants, 1)}
    tables = [
        _table(cells, link, shown, book, way, family=family, number=number[variant])
        for nth in range(2)
        for (_, link, variant), cells in of.items()
        for shown in (_SHOWN[protocol_of(cells[0].cell)][nth],)
    ]
    return Section(
        slug="matrix",
        workload="matrix",
        title="Every pair of hosts",
        lead=f"Between every two hosts, in both directions, one pair at a time: {'; '.join(variants)}. Shades are shares of the largest.",
        tables=tuple(tables),
        words=tuple(
            f"{f'{variant}: ' if several else ''}{sentence}"
            for (label, link, variant), cells in of.items()
            if (sentence := _extremes(label, link, cells, book))
        ),
    )


def hosts_of(pairs: Iterable[tuple[str, str]], way: Sequence[str]) -> list[str]:
    """Return the hosts of some pairs in the order of the packets' path, not of the trials."""
    return sorted({host for pair in pairs for host in pair}, key=lambda host: (way.index(host) if host in way else len(way), host))


def pair_of(group: Group) -> tuple[str, str]:
    """Return (sending host, receiving host); empty for a table without hosts."""
    client, server = group.cell.setting.ends or ("", "")
    return client, server


def variant_of(group: Group) -> str:
    """Return the options of iperf3, in words; two workloads of one experiment may have different ones."""
    asked = asked_words(group.cell.setting, group.cell.tool, without=("client", "server", "protocol"))
    return f"{protocol_of(group.cell).upper()}, {asked}"


def _table(
    groups: Sequence[Group], link: str, shown: tuple[str, str], book: NoteBook, way: Sequence[str], *, family: str, number: int
) -> Table:
    figure, words = shown
    by_pair = {pair_of(g): g for g in groups}
    hosts = hosts_of(by_pair, way)
    mode = mode_of(family, groups[0].cell.mode)

    def value(client: str, server: str) -> Value:
        if (client, server) not in by_pair and not mode.behaviour.admits_unsolicited:
            return Missing(f"not tried: mode {mode.name} admits no flow from {client} to {server}")
        return _value(by_pair.get((client, server)), figure, book)

    rows = [
        Row(groups[0].label, (client, *("" if client == server else value(client, server) for server in hosts)), link=link)
        for client in hosts
    ]
    columns = (Column("client"), *(Column(f"to {host}", figure) for host in hosts))
    variant = f", {number}: {variant_of(groups[0])}" if number else ""
    title = f"{words} from the host of the row to the host of the column, link {link}{variant}"
    table = book.table(f"matrix{number or ''}-{groups[0].label}-{link}-{figure}", title, columns, rows)
    return replace(table, shaded=figure == "goodput_bps")


def _value(group: Group | None, figure: str, book: NoteBook) -> Value:
    """Return the value of both directions together, if both were measured at once."""
    return value_of(group, group.main[1] if group else "", figure, book)


def _extremes(label: str, link: str, groups: Sequence[Group], book: NoteBook) -> str:
    """Return a sentence on the pairs of hosts with a result above 0; empty if fewer than two have a figure."""
    pairs = [(" to ".join(pair_of(g)), _value(g, "goodput_bps", book)) for g in groups]
    headline = compared(f"{label}, link {link}", pairs, "goodput_bps", book)
    return "" if headline is None else f"{headline.about}: {headline.sentence}"
