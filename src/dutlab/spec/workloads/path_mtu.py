"""Workload `path-mtu`: the largest packet that each link carries whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from dutlab.spec.workloads.base import Need, Setting, WorkloadModel
from dutlab.units import Seconds

ABOUT_S = Seconds(5.0)
"""Four searches of some pings each, of which a few wait a second for no answer."""


class PathMtuWorkload(WorkloadModel):
    """Pings that may not be fragmented, from both ends, to each hop."""

    kind: ClassVar[str] = "path-mtu"
    tool: ClassVar[str] = "ping"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.PING})

    def settings(self, every_link: Iterable[str]) -> Iterator[Setting]:
        """One a set of links."""
        for links in self.link_sets(every_link):
            yield Setting(links, {}, Seconds(ABOUT_S * len(links)))
