"""FreeBSD, alone and as router with pf(4), and pfSense, which is based on it.

Written from the sources of FreeBSD 14 (sbin/ping/ping.c, ping6.c; usr.bin/cpuset) and pfSense 2.7.2; never run on a machine.
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

_KENV = {"machine.vendor": "smbios.system.maker", "machine.product": "smbios.system.product", "machine.bios": "smbios.bios.version"}
_OF_DRIVER = {"description": "%desc", "driver_version": "iflib.driver_version", "firmware": "fw_version", "bus": "%location"}
_PFSENSE = (("slurp", "/etc/platform"), ("slurp", "/etc/version"))
_INTERRUPTS = ("vmstat", "-ia")
_PAIRS = {"now": "act_vq_pairs", "most": "max_vq_pairs"}
"""Queues of a vtnet(4), whose interrupt names have no queues."""
_RX_QUEUES = "iflib.override_nrxqs"
"""Number of queues that /boot/loader.conf sets; 0 if it does not (iflib(4))."""
_CORES = r"""
ticks=$(sysctl -n kern.clockrate)
while :; do
  printf '\036clockrate\n%s\n' "$ticks"
  printf '\036times\n'; sysctl -n kern.cp_times
  printf '\036own\n'; times
  printf '\036end\n'
  sleep "$1"
done
"""
_STATES = 5
"""Number of states: user, nice, sys, intr, idle (sys/resource.h)."""


def parse_cores(text: str) -> CpuReading:
    """Parse one turn's output: kern.cp_times, five states per core in ticks of the statistics clock (sysctl(3)).

    The finest clock of FreeBSD's shell is a second, so the ticks of the first core are the clock.
    """
    part = sections(text)
    ticks = [int(word) for word in part["times"].split()]
    cores = [ticks[at : at + _STATES] for at in range(0, len(ticks) - _STATES + 1, _STATES)]
    cpus = {n: CpuTimes(user + nice, system, idle, interrupts, 0, 0) for n, (user, nice, system, interrupts, idle) in enumerate(cores)}
    return CpuReading(sum(cores[0]) / ticks_per_s(part["clockrate"]) if cores else 0.0, cpus, {}, shell_times_s(part.get("own", "")))


class _Facts(BsdFacts):
    """Facts of FreeBSD, with those from firmware, driver and pfSense's files."""

    def questions(self, names: Sequence[str]) -> Iterator[Question]:
        """Yield the questions for any BSD, and those for FreeBSD."""
        yield from super().questions(names)
        yield from (*_PFSENSE, _INTERRUPTS)
        yield from (("kenv", "-q", key) for key in _KENV.values())
        yield from (_of_driver(name, leaf) for name in names for leaf in (*_OF_DRIVER.values(), *_PAIRS.values(), _RX_QUEUES))

    def put(self, facts: FactTree, answers: Answers, names: Sequence[str]) -> None:
        """Store the facts of any BSD, and those of FreeBSD."""
        super().put(facts, answers, names)
        for path, key in _KENV.items():
            facts.put(path, *answers.output_of("kenv", "-q", key))
        for name in names:
            self._put_queues(facts, answers, name)
            for key, leaf in _OF_DRIVER.items():
                facts.put(f"interfaces/{name}/{key}", *answers.output_of(*_of_driver(name, leaf)))

    def _put_queues(self, facts: FactTree, answers: Answers, name: str) -> None:
        """Store the queues, from interrupt names: `ix0:rxq0` with iflib, earlier `igb0:que 0`, other drivers `cxl0:rx0`."""
        output, why = answers.output_of(*_INTERRUPTS)
        queues = set(re.findall(rf"\b{re.escape(name)}:(?:rxq|que ?|q|rx)(\d+)\b", output or ""))
        fixed = answers.output_of(*_of_driver(name, _RX_QUEUES))[0] or ""
        count = len(queues) or (int(fixed) if fixed.isdigit() else 0)
        facts.put(f"interfaces/{name}/rx_queues", count or None, "its interrupts name no queues" if output else why)
        pairs = {
            which: int(text) for which, leaf in _PAIRS.items() if (text := answers.output_of(*_of_driver(name, leaf))[0]) and text.isdigit()
        }
        facts.put(f"interfaces/{name}/channels", {which: {"combined": n} for which, n in pairs.items()} or None, "not stated")

    def title(self, answers: Answers, release: str) -> str:
        """Return the name of the system; a pfSense reports its own version."""
        platform, version = (answers.of(*question)[0] for question in _PFSENSE)
        return f"pfSense {version} ({release})" if (platform or "").strip().lower() == "pfsense" else release


def _of_driver(name: str, leaf: str) -> Question:
    m = re.fullmatch(r"([a-z_]+)(\d+)(?:\..*)?", name)  # a VLAN has its parent's card
    return ("sysctl", "-n", f"dev.{m[1]}.{m[2]}.{leaf}" if m else f"dev.{name}.{leaf}")


FREEBSD_CPU = CpuWatch(_CORES, parse_cores)
FREEBSD = System(
    untried=True,
    name="freebsd",
    title="FreeBSD",
    kernel="FreeBSD",
    shell=SH,
    # -W and -x are in milliseconds. ping6 has separate options, even where ping(8) implements both.
    ping=PingWords("FreeBSD", ("ping", "-n", "-c", "1", "-W", "1000", "-D", "-s"), ("ping6", "-n", "-c", "1", "-x", "1000", "-D", "-s")),
    listens=listens,
    is_listening=is_listening,
    install="pkg install {}",
    ports=("ifconfig", "-l"),
    pin=("cpuset", "-l"),
    as_root=DOAS_OR_SUDO,
    own_facts=_Facts(
        "FreeBSD",
        named={"cpu.threads_per_core": "kern.smp.threads_per_core", "cpu.now_mhz": "dev.cpu.0.freq", "virtual": "kern.vm_guest"},
        sysctls=(
            "net.inet6.ip6.forwarding",
            "net.inet.ip.redirect",
            "net.inet.ip.fw.enable",
            "net.inet.tcp.cc.algorithm",
            "net.isr.dispatch",
            "net.isr.maxthreads",
            "net.isr.numthreads",
            "net.inet.rss.enabled",
            "dev.cpu.0.cx_supported",
            "dev.cpu.0.cx_lowest",
            "hw.acpi.cpu.cx_lowest",
            "kern.ipc.maxsockbuf",
            "net.link.ifqmaxlen",
        ),
        mitigations=("vm.pmap.pti", "hw.ibrs_active", "hw.mds_disable_state", "hw.spec_store_bypass_disable_active"),
    ),
    counters_path="dutlab.systems.bsd_counters:BSD_COUNTERS",
    cores_path="dutlab.systems.freebsd:FREEBSD_CPU",
)
FREEBSD_PF = replace(FREEBSD, name="freebsd-pf", title="FreeBSD with pf", modes=(*FIREWALL_UNTRACKED, *IPSEC))
PFSENSE = replace(FREEBSD_PF, name="pfsense", title="pfSense")
