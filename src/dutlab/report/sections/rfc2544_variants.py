"""RFC 2544's tests with destinations over many networks, or with extension headers, compared with plain frames."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.table import Column, Row, Table
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.rfc2544 import Rfc2544Setting


def _setting(group: Group) -> Rfc2544Setting:
    return group.cell.setting_as(Rfc2544Setting)


def of_test(group: Group, test: str) -> bool:
    """Return whether the cell has a test of that name."""
    return test in {of.value for of in _setting(group).tests}


def size_of(group: Group) -> str:
    """Return the frame size or mix."""
    return group.cell.setting.size


def place_of(group: Group) -> str:
    """Return the direction of the frames, the modifiers, and how they differ from plain frames."""
    return ", ".join(filter(None, (direction_of(group), variant(group))))


def direction_of(group: Group) -> str:
    """Return the direction of the frames, and the modifiers."""
    both = ", both directions" if _setting(group).directions is Directions.BOTH else ""
    modifiers = " and ".join(of.value for of in _setting(group).modifiers)
    return group.cell.link_label + both + (f", with {modifiers}" if modifiers else "")


def variant(group: Group) -> str:
    """Return how its frames differ from plain ones; empty if they do not."""
    return group.cell.setting.variant


def file_words(group: Group) -> list[str]:
    """Return the words of place_of(), for the name of a file."""
    words = [group.cell.link_label, _setting(group).directions.value, *(of.value for of in _setting(group).modifiers)]
    return [word.replace(",", "").replace(" ", "-") for word in (*words, variant(group)) if word]


_VARIANT_WORDS = {
    "networks": "first one source and one destination address, then destinations random and uniformly distributed over 256 networks (§12)",
    "headers": "first no extension headers, then these (RFC 5180 §5.3)",
}
_VARIANT_FIGURES = (
    ("throughput", "throughput_pps"),
    ("mean latency", "latency_mean_ns"),
    ("lost at the highest rate", "loss_at_max_ratio"),
)


def variants(groups: Sequence[Group], scaled: str, book: NoteBook) -> list[Table]:
    """Return tables of plain frames against others in the same tests; no table without others."""
    plain = {(g.label, direction_of(g), size_of(g)): g for g in groups if not variant(g)}
    pairs = [(plain.get((g.label, direction_of(g), size_of(g))), g) for g in groups if variant(g) and not of_test(g, "hop-by-hop")]
    known = {name for g in groups for record in g.measured for figures in record.figures.values() for name in figures}
    shown, rows = [one for one in _VARIANT_FIGURES if one[1] in known], []
    for first, then in pairs:
        link = then.cell.link_label
        values = [value_of(g, link, figure, book) if g else "" for _, figure in shown for g in (first, then)]
        rows.append(Row(then.label, (direction_of(then), size_of(then), variant(then), *values), links=link, link=link, size=size_of(then)))
    if not rows:
        return []
    columns = [Column(name + later, figure) for name, figure in shown for later in ("", ", then")]
    heads = (Column("links"), Column("frame size"), Column("then"), *columns)
    words = "; ".join(phrase for word, phrase in _VARIANT_WORDS.items() if any(word in variant(then) for _, then in pairs))
    return [book.table("rfc2544-variants", words[0].upper() + words[1:] + scaled, heads, rows)]


def networks(groups: Sequence[Group]) -> list[Table]:
    """Return tables of destination networks, and of the DUT's routes to them; none for a single network."""
    names = ("direction", "networks", "within", "behind", "routes_loaded", "routes_checked")
    rows = dict.fromkeys(
        (g.label, *("unknown" if row.get(name) is None else f"{row[name]}" for name in names))
        for g in groups
        for r in g.measured
        for row in r.tables.get("networks", ())
    )
    if not rows:
        return []
    heads = ("direction", "networks", "within", "behind the", "routes that the DUT counts", "addresses that it leads there")
    caption = "Destination networks (§12): one address in each, in pseudo-random order; routes were looked at before the first frame"
    return [Table("rfc2544-networks", caption, tuple(map(Column, heads)), tuple(Row(row[0], row[1:]) for row in rows))]
