"""Family `black-box`: a device without a login. It has one mode, the state in which it is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.dut.frames import everything_came, passed, words_of
from dutlab.dut.mode import Check, Family, OfRecord, Prober, SeenProbe, Unset
from dutlab.hosts.host import Host
from dutlab.spec.known import BLACK_BOX as NAME
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed
from dutlab.systems.modes import AS_FOUND


@dataclass(frozen=True)
class AsFound(Unset, OfRecord):
    """The state in which the DUT is found. Nothing is changed; frames show whether it forwards and whether it translates addresses."""

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check that a flow from source to sink passes on every link. A flow from sink to source is only reported."""
        del dut
        there, back = await passed(prober, testbed.links), await prober.probe(list(testbed.links), reverse=True)
        return [c for (name, link), to, fro in zip(testbed.links.items(), there, back, strict=True) for c in _of_link(name, link, to, fro)]


def _of_link(name: str, link: Link, there: SeenProbe, back: SeenProbe) -> list[Check]:
    came, came_back = words_of(there), words_of(back)
    hint = "; the other way they pass: name the ports in the other order" if not everything_came(there) and everything_came(back) else ""
    checks = [Check(f"link {name}: a flow passes", everything_came(there), came + hint)]
    if there.source_seen is not None:
        translated = there.source_seen != str(link.source_address.ip)
        how = "translated: it is" if translated else "as it was sent:"
        checks.append(Check(f"link {name}: the source address at the sink", passed=True, found=f"{how} {there.source_seen}"))
    return [*checks, Check(f"link {name}: a new flow from the sink's side", passed=True, found=came_back)]


FAMILY = Family(NAME, {AS_FOUND.name: AsFound(AS_FOUND)})
