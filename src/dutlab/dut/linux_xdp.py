"""Mode `xdp-forward` of Linux: a router with an XDP program of dutlab on its test ports, attached by ip-link(8).

The program (xdp_forward.c) asks the kernel for route and neighbour, and forwards the frame before the kernel allocates a packet. clang on
this machine compiles it when the mode is first applied. The proof that frames pass it: the IP stack does not count them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from subprocess import run
from typing import Any

from dutlab.dut import linux_state as state
from dutlab.dut.mode import Check, Mode, NeedsPrograms, OfRecord, Prober, UndoStep
from dutlab.dut.tunnelled import Router
from dutlab.errors import HostError, ToolMissing
from dutlab.hosts.host import Host
from dutlab.hosts.programs import IP, Program
from dutlab.reason import reason_in
from dutlab.spec.testbed import Testbed
from dutlab.systems.modes import XDP_FORWARD

_SOURCE = Path(__file__).with_name("xdp_forward.c")
_COMPILE = ("clang", "-O2", "-target", "bpf", "-mcpu=v3", "-x", "c", "-c", "-o", "-", "-")
_SECTION, _NAME = "xdp", "dutlab_forward"


def attach_words(port: str, path: str, section: str = _SECTION) -> str:
    """Return the command that attaches the program in an object file to a port, in the driver if it supports XDP."""
    return f"ip link set dev {port} xdp obj {path} sec {section}"


@cache
def compiled() -> bytes:
    """Return the object file of the program. Raises ToolMissing without clang, HostError when it refuses the source."""
    try:
        done = run(_COMPILE, input=_SOURCE.read_bytes(), capture_output=True, check=False)
    except FileNotFoundError as e:
        raise ToolMissing("clang is not installed", tool="clang", host="here", remedy="install clang, or leave mode xdp-forward out") from e
    if done.returncode != 0:
        raise HostError(f"clang refuses {_SOURCE.name}: {reason_in(done.stderr.decode(errors='replace'))}", host="here")
    return done.stdout


@dataclass(frozen=True)
class XdpMode(OfRecord):
    """Mode with the XDP program on both test ports of every link."""

    router: Router

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Return the programs that the DUT needs."""
        of_router = self.router.needs() if isinstance(self.router, NeedsPrograms) else {}
        return {"dut": (IP, *of_router.get("dut", ()))}

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the steps that detach the program.

        Raises HostError where a port already has an XDP program, which could not be restored; ToolMissing.
        """
        await asyncio.to_thread(compiled)
        ports = link_ports(testbed)
        if taken := [port for port, of in (await attached(dut, ports)).items() if of]:
            raise HostError(f"{taken[0]} has an XDP program already", host=dut.name, remedy=f"`ip link set dev {taken[0]} xdp off`")
        script = "".join(f"ip link set dev {port} xdp off\n" for port in ports)
        return [UndoStep(dut.name, ("sh",), script, "no XDP program, as it was found"), *await self.router.undo(dut, testbed)]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Set the router and attach the program. Raises CommandFailed, HostError, ToolMissing."""
        await self.router.apply(dut, testbed)
        words = "\n".join(attach_words(port, '"$f"') for port in link_ports(testbed))
        script = f'f=$(mktemp)\ntrap \'rm -f "$f"\' EXIT\ncat >"$f"\n{words}\n'
        await dut.run(["sh", "-ec", script], stdin=await asyncio.to_thread(compiled))

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check as for a router, and that the IP stack forwarded none of these frames."""
        before = await state.forwarded(dut)
        checks = await self.router.verify(dut, testbed, prober)
        packets = await state.forwarded(dut) - before
        past = Check("frames pass below the IP stack", packets == 0, f"it forwarded {packets} packets meanwhile")
        return [*checks, *await self._programs(dut, testbed), past]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """Check the router, and the programs on its ports."""
        return [*await self.router.checks_of_state(dut, testbed), *await self._programs(dut, testbed)]

    @staticmethod
    async def _programs(dut: Host, testbed: Testbed) -> list[Check]:
        program_by_port = await attached(dut, link_ports(testbed))
        return [Check(f"{port}: an XDP program is attached", bool(of), of or "none") for port, of in program_by_port.items()]


async def detach_ours(dut: Host, testbed: Testbed) -> None:
    """Detach our program from the ports, where a change to another mode left it. Raises CommandFailed."""
    off = "ip -d link show dev {0} | grep -q {1} && ip link set dev {0} xdp off"
    await dut.run(["sh", "-c", "\n".join([*(off.format(port, _NAME) for port in link_ports(testbed)), "true"])])


def link_ports(testbed: Testbed) -> list[str]:
    """Return the DUT's ports of all links."""
    return list(dict.fromkeys(port.interface for link in testbed.links.values() for port in (link.dut_in, link.dut_out)))


async def attached(dut: Host, ports: Sequence[str]) -> dict[str, str]:
    """Return port → place (driver, generic or card) and number of its XDP program; empty without one. Raises CommandFailed."""
    listed: list[dict[str, Any]] = json.loads((await dut.run(["ip", "-j", "-d", "link", "show"])).text)
    of = {str(port.get("ifname")): port.get("xdp") for port in listed}
    return {port: _words(of.get(port)) for port in ports}


def _words(xdp: object) -> str:
    if not isinstance(xdp, dict) or not xdp.get("mode"):
        return ""
    modes = {1: "driver", 2: "generic", 3: "card", 4: "several"}  # XDP_ATTACHED_* of include/uapi/linux/if_link.h
    program = xdp.get("prog") or next((of.get("prog") for of in xdp.get("attached", ()) if isinstance(of, dict)), None) or {}
    return f"{modes.get(xdp['mode'], xdp['mode'])}, program {program.get('id', '?')}"


def xdp_modes(router: Router) -> dict[str, Mode]:
    """Return the mode, with the family's router."""
    return {XDP_FORWARD.name: XdpMode(XDP_FORWARD, router)}
