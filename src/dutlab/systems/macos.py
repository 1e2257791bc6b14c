"""macOS. Its ping is made of FreeBSD's; read in Apple's ping(8) and ifconfig(8), never run on a machine."""

from __future__ import annotations

from dutlab.systems.bsd_counters import BSD_COUNTERS
from dutlab.systems.posix import SH, is_listening, listens
from dutlab.systems.system import PingWords, System

MACOS = System(
    name="macos",
    title="macOS",
    kernel="Darwin",
    shell=SH,
    ping=PingWords("macOS", ("ping", "-n", "-c", "1", "-W", "1000", "-D", "-s")),  # -W counts milliseconds
    listens=listens,
    is_listening=is_listening,
    install="brew install {}",
    ports=("ifconfig", "-l"),
    as_root=(("sudo", "-n"),),
    counters=BSD_COUNTERS,
)
