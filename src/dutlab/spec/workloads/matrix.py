"""Workload `matrix`: iperf3 between every two hosts, both ways, one pair at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations
from typing import ClassVar

from dutlab.spec.known import ROLES
from dutlab.spec.workloads.base import Params, Setting
from dutlab.spec.workloads.iperf3 import Iperf3Workload
from dutlab.units import Seconds

PAIRS = tuple(permutations(ROLES, 2))


class MatrixWorkload(Iperf3Workload):
    """One trial a link and pair of hosts; the DUT's own iperf3 is one end of four of the six."""

    kind: ClassVar[str] = "matrix"

    def count(self, every_link: Iterable[str]) -> int:
        """How many settings there are."""
        return len(self._each(every_link)) * len(PAIRS)

    def settings(self, every_link: Iterable[str]) -> Iterator[Setting]:
        """Each ordered pair on each link."""
        for link in self._each(every_link):
            for client, server in PAIRS:
                params: Params = {
                    "client": client,
                    "server": server,
                    "streams": self.streams,
                    "omit_s": int(self.omit),
                    "duration_s": int(self.duration),
                }
                yield Setting((link,), params, Seconds(self.omit + self.duration), "tcp")

    def _each(self, every_link: Iterable[str]) -> list[str]:
        """Links by themselves, whatever sets they stand in."""
        return list(dict.fromkeys(link for links in self.link_sets(every_link) for link in links))
