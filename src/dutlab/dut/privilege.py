"""Commands on a DUT as root, for a login that is not root: by doas(1) or sudo(8), whichever the system has, without a password."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from dutlab.dut.mode import UndoStep
from dutlab.errors import HostError
from dutlab.hosts.host import NO_SUCH_PROGRAM, Done, Host, command_failed


@dataclass(frozen=True)
class Root:
    """Runner of commands as root; `prefix` precedes each command and is empty for a login as root."""

    dut: Host
    prefix: tuple[str, ...] = ()

    @classmethod
    async def on(cls, dut: Host) -> Self:
        """Return the runner for this DUT. Raises HostError with a remedy when the login cannot become root without a password."""
        if (await dut.run(["id", "-u"])).text.strip() == "0":
            return cls(dut)
        refused = None
        for way in dut.system.as_root:
            tried = await dut.run([*way, "true"], check=False)
            if tried.status == 0:
                return cls(dut, way)
            refused = tried if tried.status != NO_SUCH_PROGRAM else refused
        if refused is not None:
            raise command_failed(refused)
        absent = " nor ".join(way[0] for way in dut.system.as_root)
        raise HostError(f"its modes need root, and it has neither {absent}", host=dut.name, remedy="log in as root")

    async def run(self, argv: Sequence[str], *, stdin: str = "", check: bool = True) -> Done:
        """Run a command as root. Raises CommandFailed on a status other than 0 if `check`, HostError."""
        return await self.dut.run([*self.prefix, *argv], stdin=stdin.encode(), check=check)

    async def value(self, argv: Sequence[str]) -> str | None:
        """Return a command's stripped output; None when it fails or prints nothing, as for a name that this kernel lacks.

        OpenBSD's sysctl(8) warns of such a name and ends with 0 (sysctl.c 1.268, parse()).
        """
        done = await self.run(argv, check=False)
        return done.text.strip() or None if done.status == 0 else None

    def step(self, *argv: str, stdin: str = "", why: str) -> UndoStep:
        """Return an undo step that runs as root."""
        return UndoStep(self.dut.name, (*self.prefix, *argv), stdin, why)
