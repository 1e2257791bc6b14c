"""One of two ports of this machine, moved to a network namespace during a run.

A kernel delivers packets between its own addresses locally. With the far port in a namespace, they go through the box. A port that
is moved loses its addresses and routes. A shell that waits for this process to end restores both, also after SIGKILL.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

from dutlab.hosts.host import Host
from dutlab.hosts.iproute import entries
from dutlab.hosts.passwords import child_environment
from dutlab.runner.two_ports import TesterPort
from dutlab.spec.links import IPV6

_ENDS_S = 30.0


@dataclass
class FarPort:
    """The far port, which is moved, and the near port."""

    host: Host
    """This machine."""
    near: TesterPort
    far: TesterPort
    namespace: str = field(default_factory=lambda: f"dutlab-far-{os.getpid()}")
    _guard: subprocess.Popen[bytes] | None = None

    async def isolate(self) -> None:
        """Move the far port, and route each end's packets through the box. Raises HostError; call put_back() also after that."""
        near, far, space = self.near.port.name, self.far.port.name, self.namespace
        wait = ["nodad"] if self.far.address.version == IPV6 else []
        routes = await entries(self.host, ["route", "show", str(self.far.address.network)])
        do, undo = [["ip", "netns", "add", space], ["ip", "link", "set", far, "netns", space]], list[Sequence[str]]()
        for words in (
            ["link", "set", "lo", "up"],
            ["link", "set", far, "up"],
            ["address", "add", str(self.far.address), "dev", far, *wait],
            ["route", "add", str(self.near.address.network), "via", str(self.far.gateway), "dev", far],
        ):
            do.append(["ip", "-n", space, *words])  # noqa: PERF401 -- reads as the lines around it
        if all(route.get("dev") == far for route in routes):
            route = [str(self.far.address.network), "via", str(self.near.gateway), "dev", near]
            do.append(["ip", "route", "add", *route])
            undo.append(["ip", "route", "del", *route])
        if self.near.address not in self.near.port.addresses:
            do.insert(0, ["ip", "address", "add", str(self.near.address), "dev", near, *wait])
            undo.append(["ip", "address", "del", str(self.near.address), "dev", near])
        if not self.near.port.up:
            do.insert(0, ["ip", "link", "set", near, "up"])
            undo.append(["ip", "link", "set", near, "down"])
        again = [shlex.join(words) for words in (*undo, *await self._settings_of_far(), ["ip", "netns", "del", space])]
        # The shell ($$) is in the namespace that the port came from.
        again.insert(len(undo), f"ip -n {shlex.quote(space)} link set {shlex.quote(far)} netns $$")
        self._guard = subprocess.Popen(  # noqa: ASYNC220 -- it outlives the event loop
            ["sh", "-c", "cat >/dev/null\n" + "\n".join(again)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=child_environment(os.environ), start_new_session=True,
        )  # fmt: skip
        for command in do:
            await self.host.run(command)

    def put_back(self) -> None:
        """Restore ports, addresses and routes. A command that fails does not stop the others."""
        if self._guard is not None:
            self._guard.communicate(timeout=_ENDS_S)
            self._guard = None

    async def _settings_of_far(self) -> list[Sequence[str]]:
        """Return the commands that restore the far port's state, addresses and routes, in order."""
        port = self.far.port.name
        there = await entries(self.host, ["address", "show", "dev", port])
        addresses = [a for of in there for a in of.get("addr_info", ()) if a.get("scope") != "link"]
        commands: list[Sequence[str]] = [["ip", "link", "set", port, "up" if self.far.port.up else "down"]]
        commands += [["ip", "address", "add", f"{a['local']}/{a['prefixlen']}", "dev", port] for a in addresses]
        for version in ("-4", "-6"):
            routes = await entries(self.host, [version, "route", "show", "dev", port])
            for route in (r for r in routes if r.get("protocol") not in {"kernel", "ra"}):
                via = ["via", str(route["gateway"])] if "gateway" in route else []
                commands.append(["ip", version, "route", "replace", str(route["dst"]), *via, "dev", port])
        return commands
