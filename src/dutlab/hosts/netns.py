"""Hosts that are network namespaces of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dutlab.errors import HostError
from dutlab.hosts.host import CommandLog, Done
from dutlab.hosts.local import LocalHost
from dutlab.systems.linux import LINUX
from dutlab.systems.system import System

NAMESPACES = Path("/run/netns")
"""Folder of iproute2's names (ip-netns(8))."""

# Messages of iproute2 when it cannot enter a namespace: the name is gone, or has no mount any more.
_CANNOT_ENTER = (b"Cannot open network namespace", b"setting the network namespace")


class NamespaceGone(HostError):
    """Error for a deleted namespace. All changes in it are gone too, so nothing is left to undo there."""

    def __init__(self, namespace: str, *, host: str) -> None:
        super().__init__(
            f"network namespace {namespace} is gone",
            host=host,
            remedy="`dutlab resume` the run: it builds its own lab again (build your own again first), and finished trials stay",
        )
        self.namespace = namespace


class NetnsHost(LocalHost):
    """Host in a network namespace. Commands run with `ip netns exec`, so /sys and /proc/net show the namespace. Files are the machine's."""

    def __init__(
        self,
        name: str,
        namespace: str,
        log: CommandLog | None = None,
        *,
        nice: int = 0,
        group: Path | None = None,
        system: System = LINUX,
    ) -> None:
        """Create the host. `nice` is added to the niceness of its programs (nice(1)); below 0 they have priority over other work.

        `group` is their control group (cgroups(7)).
        """
        super().__init__(name, log, system=system)
        self.namespace = namespace
        self._before = () if nice == 0 else ("nice", "-n", str(nice))
        if group is not None:
            self._before = (*self._before, "sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs"))

    @property
    def namespace_inode(self) -> int | None:
        """Number of the network namespace; None once it is gone."""
        try:
            return (NAMESPACES / self.namespace).stat().st_ino
        except OSError:
            return None

    def _carry(self, argv: Sequence[str]) -> list[str]:
        return [*self._before, "ip", "netns", "exec", self.namespace, *argv]

    def _ready(self) -> None:
        if not (NAMESPACES / self.namespace).exists():
            raise NamespaceGone(self.namespace, host=self.name)

    def _insist(self, done: Done) -> None:
        if done.status != 0 and done.stderr.startswith(_CANNOT_ENTER):
            raise NamespaceGone(self.namespace, host=self.name)


class NetnsMachine(NetnsHost):
    """Network namespace with its own process namespace, so that a user's `killall` ends only processes of this host.

    Create it with `open()`. The first process of its process namespace is ours. When it ends, the kernel ends all others
    (pid_namespaces(7)).
    """

    _keeper_pid: int | None = None

    @classmethod
    async def open(cls, name: str, namespace: str, log: CommandLog | None = None) -> NetnsMachine:
        """Create the process namespace and return the host. Raises HostError."""
        machine = cls(name, namespace)
        keeper = await machine.spawn(["sh", "-c", "echo $$; exec unshare --pid --fork --kill-child --mount-proc sh -c 'echo; exec cat'"])
        pid_text = (await keeper.readline()).strip()
        if not pid_text.isdigit() or not await keeper.readline():
            done = await keeper.end()
            why = done.errors.strip()
            raise HostError(
                f"cannot have a separate process namespace: {why}", host=name, remedy="it needs root, and unshare of util-linux"
            )
        machine._keeper_pid, machine._log = int(pid_text), log
        return machine

    def _carry(self, argv: Sequence[str]) -> list[str]:
        if self._keeper_pid is None:
            return super()._carry(argv)
        space = f"/proc/{self._keeper_pid}/ns"
        return ["nsenter", f"--net={NAMESPACES / self.namespace}", f"--mount={space}/mnt", f"--pid={space}/pid_for_children", "--", *argv]
