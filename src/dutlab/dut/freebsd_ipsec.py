"""Modes `ipsec` and `ipsec-cbc` of FreeBSD and pfSense: a router, its filter off, that ends an ESP tunnel from the source of each link.

As in the published review of the E302-9D, the tunnel is between source and DUT, and keys are set by hand. The source is a Linux machine.
The engine's frames do not pass its kernel, so nothing encrypts them: the mode is for iperf3, ping and the like.

Tried against transcripts of documented outputs only, never on a machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.dut import ipsec_rules
from dutlab.dut.ipsec_rules import Suite, Tunnel
from dutlab.dut.mode import Check, Mode, Prober, UndoStep
from dutlab.dut.pf import PfMode
from dutlab.dut.privilege import Root
from dutlab.errors import CommandFailed, HostError
from dutlab.hosts.host import Host
from dutlab.spec.testbed import Testbed

_SOURCE = "source"
_SAYS_NONE = "No SAD entries."
_SAYS_NO_POLICY = "No SPD entries."


@dataclass(frozen=True)
class IpsecMode:
    """One mode: the router that it is but for its tunnels, and what protects them."""

    name: str
    router: PfMode
    suite: Suite
    source: Host | None

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Raises HostError when either end has tunnels of its own: their keys could not be put back."""
        source = self._source()
        root = await Root.on(dut)
        entries, policies = (await root.run(["setkey", "-D"])).text.strip(), (await root.run(["setkey", "-DP"])).text.strip()
        if (entries and entries != _SAYS_NONE) or (policies and policies != _SAYS_NO_POLICY):
            raise _in_use(dut.name, "`setkey -F; setkey -FP`")
        if any([(await source.run(["ip", "xfrm", what])).text.strip() for what in ("state", "policy")]):
            raise _in_use(source.name, "`ip xfrm policy flush; ip xfrm state flush`")
        return [
            root.step("sh", "-c", "setkey -F; setkey -FP", why="no tunnel, as it was found"),
            UndoStep(source.name, ("ip", "-batch", "-"), "xfrm policy flush\nxfrm state flush\n", "no tunnel, as it was found"),
            *await self.router.undo(dut, testbed),
        ]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Raises CommandFailed, HostError."""
        source = self._source()
        await self.router.apply(dut, testbed)
        tunnels = Tunnel.all_of(testbed, self.suite)
        root = await Root.on(dut)
        done = await root.run(["setkey", "-c"], stdin=ipsec_rules.for_setkey(tunnels, self.suite))
        if said := done.text.strip():  # setkey ends with 0 although the kernel refused a line (setkey.c, postproc())
            raise CommandFailed(host=dut.name, argv=done.argv, status=done.status, stderr_tail=said)
        await source.run(["ip", "-batch", "-"], stdin=ipsec_rules.for_xfrm(tunnels, self.suite).encode())

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """The router, its associations, a ping through each tunnel, and that what is not encrypted does not pass."""
        source = self._source()
        root = await Root.on(dut)
        checks = await self.router.checks_of_state(dut, testbed)
        listed = (await root.run(["setkey", "-D"])).text
        found = sum(line.strip().startswith("esp mode=tunnel") for line in listed.splitlines())
        checks.append(Check("two associations a link", found == 2 * len(testbed.links), f"{found} for {len(testbed.links)} links"))
        for name, link in testbed.links.items():
            pinged = await source.run(["ping", "-n", "-c", "3", "-W", "1", str(link.sink_address.ip)], check=False)
            said = next((line for line in pinged.text.splitlines() if "packets transmitted" in line), f"ping ended with {pinged.status}")
            checks.append(Check(f"link {name}: the source's own packets pass", pinged.status == 0, said))
            seen = await prober.probe(name)
            what = f"link {name}: what is not encrypted is dropped"
            checks.append(Check(what, seen.sent > 0 and seen.received == 0, f"{seen.received} of {seen.sent} probe frames arrived"))
        return checks

    def _source(self) -> Host:
        if self.source is None:
            raise HostError("a tunnel has two ends, and only one is reached", host=_SOURCE)
        return self.source


def ipsec_modes(router: Mode, hosts: Mapping[str, Host]) -> dict[str, Mode]:
    """The modes that need the source beside the DUT."""
    if not isinstance(router, PfMode):
        raise TypeError(f"{router.name} is no mode of a system with pf")
    suites = {"ipsec": ipsec_rules.AES_GCM, "ipsec-cbc": ipsec_rules.AES_CBC_SHA256}
    return {name: IpsecMode(name, router, suite, hosts.get(_SOURCE)) for name, suite in suites.items()}


def _in_use(host: str, remedy: str) -> HostError:
    return HostError("it has IPsec of its own, whose keys could not be restored", host=host, remedy=f"take it off by hand ({remedy})")
