"""Workload `path-mtu`: the largest packet that each link carries without fragmentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

from dutlab.spec.workloads.base import Need, WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.setting import Setting
from dutlab.units import Seconds

ABOUT_S = Seconds(5.0)
"""Approximate time of four searches with some pings each, a few of which wait a second without an answer."""


class PathMtuSetting(Setting):
    """Setting of a trial, without options."""

    kind: Literal["path-mtu"] = "path-mtu"


class PathMtuWorkload(WorkloadModel):
    """Pings with fragmentation prohibited, from both ends to each hop."""

    tool: ClassVar[str] = "ping"
    on_segments: ClassVar[bool] = True
    needs: ClassVar[frozenset[Need]] = frozenset({Need.PING})
    setting: ClassVar[type[Setting]] = PathMtuSetting

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield one drive per set of links."""
        for links in self.link_sets(every_link):
            yield WorkloadDrive(links, PathMtuSetting(), Seconds(ABOUT_S * len(links)))
