"""Parts of a testbed and generators that dutlab was tested on with documented outputs only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dutlab.choices import GENERATORS
from dutlab.spec.testbed import Testbed
from dutlab.systems import SYSTEMS


def untried(testbed: Testbed, generators: Iterable[str]) -> Iterator[str]:
    """Yield each untried part once, in words: `family freebsd`, `generator pkt-gen`. `generators` are kinds."""
    families = dict.fromkeys(host.family for host in testbed.hosts.values())
    yield from (f"family {family}" for family in families if SYSTEMS[family].untried)
    yield from (f"generator {kind}" for kind in dict.fromkeys(generators) if GENERATORS[kind].untried)
