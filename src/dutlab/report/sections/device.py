"""The testbed as a diagram, and the specification of its hosts: facts that the testbed file states, next to those read from the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from dutlab.report.model.run_report import Section
from dutlab.report.model.table import Column, Row, Table
from dutlab.report.model.testbed_map import map_of_testbed
from dutlab.report.sections.facts import fact_summary
from dutlab.spec.about import AboutSpec

SLUG = "device"
_READ = {"model": "machine", "processor": "processor", "memory": "memory", "bmc": "controller", "system": "system"}
"""Stated property → the same property as read from the host."""
_HEADS = {"bmc": "management controller (BMC)"}


def device_section(testbed: Mapping[str, Any], facts: Mapping[str, Mapping[str, Any]], dut: str) -> tuple[Section, ...]:
    """Return one section with the diagram and the tables; none if the run knows no host."""
    testbed_map = map_of_testbed(testbed)
    if testbed_map is None or not testbed.get("hosts"):
        return ()
    stated = {name: rows for name, rows in ((str(n), stated_rows(of)) for n, of in testbed["hosts"].items()) if rows}
    tables = [_table(name, stated.get(name, {}), facts.get(name, {})) for name in dict.fromkeys((dut, *stated)) if name in testbed["hosts"]]
    return (
        Section(
            slug=SLUG, workload="", title="Device and testbed", lead="", tables=tuple(t for t in tables if t.rows), diagrams=(testbed_map,),
        ),
    )  # fmt: skip


def stated_rows(host: object) -> dict[str, str]:
    """Return the specification that a host's entry of a testbed file states; empty without one, or in an unknown form."""
    about = host.get("about") if isinstance(host, Mapping) else None
    try:
        return AboutSpec.model_validate(about).rows if about else {}
    except ValidationError:
        return {}


def _table(host: str, stated: Mapping[str, str], facts: Mapping[str, Any]) -> Table:
    cells_of_rows = list(_rows(stated, dict(fact_summary(facts))))
    shown = [n for n in (1, 2) if any(cells[n] for cells in cells_of_rows)]  # a column without any text is left out
    columns = (Column("property"), *(Column(("stated", "read from the host")[n - 1]) for n in shown))
    rows = tuple(Row("", (cells[0], *(cells[n] for n in shown))) for cells in cells_of_rows)
    notes = ("Stated: by the testbed file, which dutlab does not check.",) if stated else ()
    return Table(f"specification-{host}", f"Specification of {host}", columns, rows, notes=notes, first="", folded=not stated)


def _rows(stated: Mapping[str, str], read: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield property, stated text, text as read: the properties of AboutSpec in its order, then all others that were read."""
    own = [name for name in AboutSpec.model_fields if name != "more"]
    for name in (*own, *(name for name in stated if name not in own)):
        as_read = read.get(_READ.get(name, ""), "")
        if name in stated or as_read:
            yield _HEADS.get(name, name), stated.get(name, ""), as_read
    shown = {_READ[name] for name in own if name in _READ}
    yield from ((name, "", text) for name, text in read.items() if name not in shown)
