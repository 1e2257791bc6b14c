"""What doctor finds that a cable carries: the first pings may be lost while an address is looked up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dutlab.hosts.host import Done
from dutlab.labs import description
from dutlab.systems import SYSTEMS
from dutlab.tools.ping import HEADERS, TRIES, Ping

SIZES = (1500, 1486, 1482, 1478, 1492, 1400, 576)


class Cable:
    """A host at its end: a packet is answered as `answers(its size, how many were sent before it)` says."""

    system = SYSTEMS["linux"]

    def __init__(self, answers: Callable[[int, int], bool]) -> None:
        self.answers, self.sent = answers, 0

    async def run(self, argv: list[str], **_: Any) -> Done:
        size = int(argv[-2]) + HEADERS[6 if "-6" in argv or ":" in argv[-1] else 4]
        answered, self.sent = self.answers(size, self.sent), self.sent + 1
        return Done("source", tuple(argv), 0 if answered else 1, b"", b"", 0.0, 0.0)


@pytest.mark.parametrize("lab", ["three-node", "three-node-rfc5180"])
@pytest.mark.parametrize(
    ("answers", "carried"),
    [
        (lambda _, before: before >= TRIES, 1500),
        (lambda size, _: size <= 1486, 1486),
        (lambda size, before: size <= 1400 and before >= 1, 1400),
        (lambda *_: False, None),
    ],
    ids=["the first pings are lost", "a switch counts a header", "a tunnel", "nobody answers"],
)
async def test_lost_pings_are_no_limit_of_a_cable(lab: str, answers: Callable[[int, int], bool], carried: int | None) -> None:
    testbed = description(lab).testbed
    ping = Ping({"source": Cable(answers)}, testbed)  # type: ignore[dict-item]
    assert await ping.cable("a", "source", str(testbed.links["a"].path[1]), SIZES) == carried
