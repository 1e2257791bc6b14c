"""The DUT's own account of its flows beside what the generator saw."""

from __future__ import annotations

from dutlab.methods.dut_tables import FlowCounts
from dutlab.methods.ports import Row


def counted(before: FlowCounts, after: FlowCounts) -> Row:
    """Columns for a table: flows tracked at the end, and by how much each counter of trouble has grown."""
    grown = {f"{name}_count": number - before.counters.get(name, 0) for name, number in after.counters.items()}
    return {"tracked_flows": after.tracked, **grown}
