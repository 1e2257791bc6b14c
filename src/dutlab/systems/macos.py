"""macOS. Its ping is derived from FreeBSD's. Written from Apple's ping(8) and ifconfig(8); never run on a machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.systems.bsd_facts import BsdFacts
from dutlab.systems.facts import Answers, Question
from dutlab.systems.posix import SH, is_listening, listens
from dutlab.systems.system import PingWords, System

_SW_VERS = ("sw_vers", "-productVersion")


class _Facts(BsdFacts):
    """Facts of macOS, with Apple's version number; every Ethernet port is an `en`."""

    def questions(self, names: Sequence[str]) -> Iterator[Question]:
        """Yield the questions for any BSD, and those for macOS."""
        yield from super().questions(names)
        yield _SW_VERS

    def title(self, answers: Answers, release: str) -> str:
        """Return the name of the system, with Apple's version number."""
        version, _ = answers.output_of(*_SW_VERS)
        return f"macOS {version} ({release})" if version else release

    def driver(self, name: str) -> None:
        """Return None: a port's name does not show its driver."""


MACOS = System(
    untried=True,
    name="macos",
    title="macOS",
    kernel="Darwin",
    shell=SH,
    ping=PingWords("macOS", ("ping", "-n", "-c", "1", "-W", "1000", "-D", "-s")),  # -W is in milliseconds
    listens=listens,
    is_listening=is_listening,
    install="brew install {}",
    ports=("ifconfig", "-l"),
    as_root=(("sudo", "-n"),),
    own_facts=_Facts(
        "Darwin",
        named={
            "cpu.model": "machdep.cpu.brand_string",
            "memory_bytes": "hw.memsize",
            "machine.product": "hw.model",
            "cpu.physical_cores": "hw.physicalcpu",
        },
        sysctls=("net.inet.tcp.sendspace", "net.inet.tcp.recvspace", "kern.ipc.maxsockbuf"),
    ),
    counters_path="dutlab.systems.bsd_counters:BSD_COUNTERS",
)
