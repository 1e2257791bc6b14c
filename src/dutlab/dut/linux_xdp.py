"""Mode `xdp-forward` of Linux: a router whose test ports have a program of ours in XDP, attached by ip-link(8).

The program (xdp_forward.c) asks the kernel for route and neighbour, and sends the frame on before a packet is made of it. clang on this
machine compiles it when the mode is first applied. That frames go through it is shown by what the IP stack does not count.
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
    """Command that puts the program in an object file on a port: in the driver where that can, else behind it."""
    return f"ip link set dev {port} xdp obj {path} sec {section}"


@cache
def compiled() -> bytes:
    """The object file of the program. Raises ToolMissing without clang, HostError when it refuses the source."""
    try:
        done = run(_COMPILE, input=_SOURCE.read_bytes(), capture_output=True, check=False)
    except FileNotFoundError as e:
        raise ToolMissing("clang is not there", tool="clang", host="here", remedy="install clang, or leave mode xdp-forward out") from e
    if done.returncode != 0:
        raise HostError(f"clang refuses {_SOURCE.name}: {reason_in(done.stderr.decode(errors='replace'))}", host="here")
    return done.stdout


@dataclass(frozen=True)
class XdpMode(OfRecord):
    """The program on both test ports of every link."""

    router: Router

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """On the DUT."""
        of_router = self.router.needs() if isinstance(self.router, NeedsPrograms) else {}
        return {"dut": (IP, *of_router.get("dut", ()))}

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Raises HostError where a port has a program of somebody else's, which could not be put back; ToolMissing."""
        await asyncio.to_thread(compiled)
        ports = link_ports(testbed)
        if taken := [port for port, of in (await attached(dut, ports)).items() if of]:
            raise HostError(f"{taken[0]} has an XDP program already", host=dut.name, remedy=f"`ip link set dev {taken[0]} xdp off`")
        script = "".join(f"ip link set dev {port} xdp off\n" for port in ports)
        return [UndoStep(dut.name, ("sh",), script, "no XDP program, as it was found"), *await self.router.undo(dut, testbed)]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Raises CommandFailed, HostError, ToolMissing."""
        await self.router.apply(dut, testbed)
        words = "\n".join(attach_words(port, '"$f"') for port in link_ports(testbed))
        script = f'f=$(mktemp)\ntrap \'rm -f "$f"\' EXIT\ncat >"$f"\n{words}\n'
        await dut.run(["sh", "-ec", script], stdin=await asyncio.to_thread(compiled))

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Those of a router, and that its IP stack forwarded none of these frames."""
        before = await state.forwarded(dut)
        checks = await self.router.verify(dut, testbed, prober)
        packets = await state.forwarded(dut) - before
        past = Check("frames pass below the IP stack", packets == 0, f"it forwarded {packets} packets meanwhile")
        return [*checks, *await self._programs(dut, testbed), past]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> list[Check]:
        """The router, and the programs at its ports."""
        return [*await self.router.checks_of_state(dut, testbed), *await self._programs(dut, testbed)]

    @staticmethod
    async def _programs(dut: Host, testbed: Testbed) -> list[Check]:
        program_by_port = await attached(dut, link_ports(testbed))
        return [Check(f"{port}: an XDP program is attached", bool(of), of or "none") for port, of in program_by_port.items()]


async def detach_ours(dut: Host, testbed: Testbed) -> None:
    """Take our program off the ports, where a change from this mode to another left it. Raises CommandFailed."""
    off = "ip -d link show dev {0} | grep -q {1} && ip link set dev {0} xdp off"
    await dut.run(["sh", "-c", "\n".join([*(off.format(port, _NAME) for port in link_ports(testbed)), "true"])])


def link_ports(testbed: Testbed) -> list[str]:
    """The DUT's ports of all links."""
    return list(dict.fromkeys(port.interface for link in testbed.links.values() for port in (link.dut_in, link.dut_out)))


async def attached(dut: Host, ports: Sequence[str]) -> dict[str, str]:
    """Port → where its XDP program is (driver, generic or card) and its number; empty where it has none. Raises CommandFailed."""
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
    """The mode, over the family's router."""
    return {XDP_FORWARD.name: XdpMode(XDP_FORWARD, router)}
