"""What the tests of tunnels share: both ends of every family as transcripts that take keys which nobody knows before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dut_families import E302, EXAMPLES
from dutlab.dut import family
from dutlab.dut.mode import Mode, SeenProbe, UdpFlow
from dutlab.hosts.host import Done, command_failed
from dutlab.spec.links import Link
from dutlab.spec.loader import load_testbed
from dutlab.spec.testbed import Testbed
from transcript import TranscriptHost

KEY = re.compile(r"(?!0{32})[0-9a-f]{32,}")
"""A key; zeros ask a kernel what it can."""


class Keyed(TranscriptHost):
    """Takes the tunnels' text, keeps it, and answers what a test wants it to say."""

    tunnels = ""
    says = ""
    complains = ""
    status = 0
    other: Keyed | None = None

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, check: bool = True, most_bytes: int = 0
    ) -> Done:
        """As any transcript's. A ping of the source's that comes back has passed both ends."""
        if KEY.search(stdin.decode()):
            self.ran.append((tuple(argv), "tunnels"))
            self.tunnels = stdin.decode()
            self.state["tunnels"] = "given" if "swan" in self.state else "ours"
            done = Done(self.name, tuple(argv), self.status, self.says.encode(), self.complains.encode(), 0.0, 0.0)
            if check and done.status:
                raise command_failed(done)
            return done
        done = await super().run(argv, stdin=stdin, timeout_s=timeout_s, check=check)
        if argv[0] == "ping" and done.status == 0 and self.other is not None:
            self.state["carried"] = self.other.state["carried"] = "yes"
        return done


@dataclass(frozen=True)
class Ends:
    """A family's two ends, on a testbed of its own."""

    name: str
    dut: tuple[str, ...]
    source: str
    bed: Testbed
    modes: tuple[str, ...] = ("ipsec", "ipsec-cbc")

    @staticmethod
    def keys(host: Keyed) -> list[str]:
        """What an end was given, sorted; VPP is told key and salt apart."""
        return sorted(KEY.findall(host.tunnels.replace(" salt 0x", "")))

    def hosts(self, **changes: str) -> dict[str, Keyed]:
        """The DUT, and the source, of which things may stand differently."""
        dut, source = Keyed.of(*self.dut), Keyed.of(self.source, name="source", **changes)
        source.other = dut
        return {"dut": dut, "source": source}

    def made(self, mode: str, hosts: dict[str, Keyed]) -> Mode:
        """The mode with its source."""
        return family(self.name).modes_among(hosts)[mode]


VPP = load_testbed(EXAMPLES / "vpp.yaml")
VYOS = load_testbed(EXAMPLES / "vyos.yaml")
FAMILIES = (
    Ends("freebsd-pf", ("freebsd-ipsec", "freebsd-pf"), "linux-ipsec", E302),
    Ends("pfsense", ("freebsd-ipsec", "pfsense", "freebsd-pf"), "linux-ipsec", E302),
    Ends("openbsd-pf", ("openbsd-ipsec", "openbsd-pf"), "linux-ipsec", E302, ("ipsec-cbc",)),
    Ends("vpp", ("vpp-ipsec", "vpp"), "linux-ipsec-one", VPP),
    Ends("vyos", ("vyos-ipsec", "vyos"), "strongswan", VYOS),
)
OF = {ends.name: ends for ends in FAMILIES}
WAYS = [(ends, mode) for ends in FAMILIES for mode in ends.modes]


@dataclass
class Silence:
    """What the engine sends arrives, or does not."""

    received: int = 0

    async def probe(self, links: Sequence[str], *, reverse: bool = False) -> list[SeenProbe]:
        """Ten frames a link."""
        return [self._seen(E302.links[link]) for link in links]

    def _seen(self, of: Link) -> SeenProbe:
        return SeenProbe(10, self.received, None, UdpFlow(of.source_address.ip, of.sink_address.ip, 4321, 7))
