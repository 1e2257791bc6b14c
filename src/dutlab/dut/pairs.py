"""Which networks a firewall's rules stand between: pure, of the testbed."""

from __future__ import annotations

from collections.abc import Iterator

from dutlab.spec.testbed import Link, Testbed


def network_pairs(testbed: Testbed) -> Iterator[tuple[Link, Link]]:
    """Every link on whose inner network a flow may start, with every link on whose outer network it may end; IP versions do not mix."""
    for inner in testbed.links.values():
        for outer in testbed.links.values():
            if inner.dut_in_address.version == outer.dut_out_address.version:
                yield inner, outer
