"""OpenBSD, alone and as router with pf(4). Written from its 7.6 sources (sbin/ping/ping.c, sbin/ifconfig); never run on a machine.

The kernel has the times of each core (KERN_CPTIME2 of sysctl(2)), but sysctl(8) prints only the sum of all cores. Of the programs in the
base system, systat prints each core. `-B` waits for a second reading and prints the difference of the two. So a turn covers all of its
interval, but not the moments between two turns. Shares have steps of 0.1 %.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dutlab.systems.bsd_counters import ticks_per_s
from dutlab.systems.bsd_facts import BsdFacts
from dutlab.systems.facts import Answers, FactTree, Question
from dutlab.systems.modes import FIREWALL_UNTRACKED, IPSEC
from dutlab.systems.posix import DOAS_OR_SUDO, SH, is_listening, listens
from dutlab.systems.system import PingWords, System
from dutlab.systems.watched import CpuReading, CpuTimes, CpuWatch, sections, shell_times_s

_RELINKED = ("ls", "/var/db/kernel.SHA256")
"""Command that shows whether reorder_kernel(8) links a new kernel: this checksum must be that of the running kernel."""
_CORES = r"""
ticks=$(sysctl -n kern.clockrate)
while :; do
  printf '\036shares\n'; systat -a -B -s "$1" cpu || sleep "$1"
  printf '\036clockrate\n%s\n' "$ticks"
  printf '\036times\n'; sysctl -n kern.cp_time
  printf '\036own\n'; times
  printf '\036end\n'
done
"""
# Columns: CPU User Nice System Spin Interrupt Idle; a core that is off has `-` in each.
_ROW = re.compile(r"^\s*(\d+)" + r"\s+([\d.]+)%" * 6 + r"\s*$", re.MULTILINE)


def parse_cores(text: str) -> CpuReading:
    """Parse one turn's output: the shares of each core, in thousandths.

    The finest clock of OpenBSD's shell is a second, so the mean ticks of a core since boot (kern.cp_time) are the clock. Spinning on a
    kernel lock counts as `system`, as in vmstat(8).
    """
    part = sections(text)
    cpus = {}
    for core, *shares in _ROW.findall(part.get("shares", "")):
        user, nice, system, spin, interrupt, idle = (round(10 * float(share)) for share in shares)
        cpus[int(core)] = CpuTimes(user + nice, system + spin, idle, interrupt, 0, 0)
    ticks = sum(int(word) for word in part["times"].split(",") if word.strip().isdigit())
    return CpuReading(ticks / ticks_per_s(part["clockrate"]), cpus, {}, shell_times_s(part.get("own", "")))


class _Facts(BsdFacts):
    """Facts of OpenBSD, and whether it links its kernel again at each boot."""

    def questions(self, names: Sequence[str]) -> Iterator[Question]:
        """Yield the questions for any BSD, and those for OpenBSD."""
        yield from super().questions(names)
        yield _RELINKED

    def put(self, facts: FactTree, answers: Answers, names: Sequence[str]) -> None:
        """Store the facts of any BSD, and those of OpenBSD."""
        super().put(facts, answers, names)
        facts.put("kernel.relinks_at_boot", answers.output_of(*_RELINKED)[0] is not None)

    def ifconfig(self, name: str) -> Question:
        """Return the command that describes an interface, with the offloads that the card supports."""
        return ("ifconfig", name, "hwfeatures")


OPENBSD_CPU = CpuWatch(_CORES, parse_cores, since="turn")
OPENBSD = System(
    untried=True,
    name="openbsd",
    title="OpenBSD",
    kernel="OpenBSD",
    shell=SH,
    # -m: the kernel does not fragment packets of ping6 to the least MTU of IPv6.
    ping=PingWords("OpenBSD", ("ping", "-n", "-c", "1", "-w", "1", "-D", "-s"), ("ping6", "-n", "-c", "1", "-w", "1", "-m", "-s")),
    listens=listens,
    is_listening=is_listening,
    install="pkg_add {}",
    ports=("sh", "-c", r"ifconfig | sed -n 's/^\([^[:space:]:]*\):.*/\1/p'"),
    as_root=DOAS_OR_SUDO,
    own_facts=_Facts(
        "OpenBSD",
        named={
            "cpu.smt": "hw.smt",
            "cpu.now_mhz": "hw.cpuspeed",
            "cpu.governor": "hw.perfpolicy",
            "cpu.setperf_percent": "hw.setperf",
            "machine.vendor": "hw.vendor",
            "machine.product": "hw.product",
        },
        sysctls=("net.inet6.ip6.forwarding", "net.inet.ip.ifq.maxlen"),
    ),
    counters_path="dutlab.systems.bsd_counters:BSD_COUNTERS",
    cores_path="dutlab.systems.openbsd:OPENBSD_CPU",
)
# ipsecctl(8) refuses AES-GCM with static keys.
OPENBSD_PF = replace(OPENBSD, name="openbsd-pf", title="OpenBSD with pf", modes=(*FIREWALL_UNTRACKED, IPSEC[1]))
