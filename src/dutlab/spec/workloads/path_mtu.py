"""Workload `path-mtu`: the largest packet that each link carries whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

from dutlab.spec.workloads.base import Need, WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.setting import Setting
from dutlab.units import Seconds

ABOUT_S = Seconds(5.0)
"""Four searches of some pings each, of which a few wait a second for no answer."""


class PathMtuSetting(Setting):
    """Nothing can be set."""

    kind: Literal["path-mtu"] = "path-mtu"


class PathMtuWorkload(WorkloadModel):
    """Pings that may not be fragmented, from both ends, to each hop."""

    tool: ClassVar[str] = "ping"
    on_segments: ClassVar[bool] = True
    needs: ClassVar[frozenset[Need]] = frozenset({Need.PING})
    setting: ClassVar[type[Setting]] = PathMtuSetting

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """One a set of links."""
        for links in self.link_sets(every_link):
            yield WorkloadDrive(links, PathMtuSetting(), Seconds(ABOUT_S * len(links)))
