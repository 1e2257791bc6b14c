"""What the tests of every DUT family share: the testbed of the examples, a prober that knows what a mode does, the way through all modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from dutlab.dut import family
from dutlab.dut.mode import SeenProbe, UdpFlow
from dutlab.runner.undo import carry_out
from dutlab.spec.links import Link
from dutlab.spec.loader import load_testbed
from dutlab.spec.testbed import Testbed
from transcript import TranscriptHost

EXAMPLES = Path(__file__).parent.parent / "examples" / "testbeds"
E302 = load_testbed(EXAMPLES / "e302-9d.yaml")
MODES = ("router", "filter-empty", "filter-default", "nat")
"""That every family brings along."""


def ways_of(modes: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Every mode, and every ordered pair of modes."""
    return [*permutations(modes, 2), *((mode,) for mode in modes)]


WAYS = ways_of(MODES)


@dataclass
class ProberOf:
    """Sees what frames would do in a mode: dropped from outside where it guards, translated where it translates."""

    mode: str
    testbed: Testbed = E302

    async def probe(self, links: Sequence[str], *, reverse: bool = False) -> list[SeenProbe]:
        return [self._seen(self.testbed.links[link], reverse=reverse) for link in links]

    def _seen(self, of: Link, *, reverse: bool) -> SeenProbe:
        flow = UdpFlow(of.source_address.ip, of.sink_address.ip, 4321, 7)
        translated = self.mode in ("nat", "nat-open")
        if reverse:
            dropped = self.mode in ("filter-default", "nat")
            return SeenProbe(10, 0 if dropped else 10, None if dropped else str(of.sink_address.ip), flow)
        return SeenProbe(10, 10, str((of.dut_out_address if translated else of.source_address).ip), flow)


async def failed(name: str, mode: str, dut: TranscriptHost, prober: ProberOf | None = None, testbed: Testbed = E302) -> dict[str, str]:
    """What verify finds wrong, and how it found it."""
    checks = await family(name).modes[mode].verify(dut, testbed, prober or ProberOf(mode, testbed))
    return {check.statement: check.found for check in checks if not check.passed}


async def there_and_back(name: str, modes: tuple[str, ...], dut: TranscriptHost, testbed: Testbed = E302) -> None:
    """Reads the undo of the first, applies all, undoes: the state must be the one before."""
    before = dict(dut.state)
    steps = await family(name).modes[modes[0]].undo(dut, testbed)
    assert dut.state == before, "undo() changes nothing"
    for mode in modes:
        await family(name).modes[mode].apply(dut, testbed)
    await carry_out(steps, {"dut": dut})
    assert dut.state == before
