"""FreeBSD, what is made of it, OpenBSD and macOS: facts of machine and card by the names of Linux's, from sysctl(8), kenv(1), ifconfig(8).

What findings follow from is in `bsd.py`, which every host is asked at once; this is asked of those that are known to be one.

Tried against transcripts of documented outputs only, never on a machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dutlab.hosts.facts.questions import Answers, Question
from dutlab.hosts.facts.tree import FactTree

FREEBSD, OPENBSD, DARWIN = "FreeBSD", "OpenBSD", "Darwin"
SYSTEMS = (FREEBSD, OPENBSD, DARWIN)
"""What `uname -s` says of them."""
_NAMED = {
    FREEBSD: {
        "cpu.threads_per_core": "kern.smp.threads_per_core",
        "cpu.now_mhz": "dev.cpu.0.freq",
        "virtual": "kern.vm_guest",
    },
    OPENBSD: {
        "cpu.smt": "hw.smt",
        "cpu.now_mhz": "hw.cpuspeed",
        "cpu.governor": "hw.perfpolicy",
        "cpu.setperf_percent": "hw.setperf",
        "machine.vendor": "hw.vendor",
        "machine.product": "hw.product",
    },
    DARWIN: {
        "cpu.model": "machdep.cpu.brand_string",
        "memory_bytes": "hw.memsize",
        "machine.product": "hw.model",
        "cpu.physical_cores": "hw.physicalcpu",
    },
}
_MITIGATIONS = {FREEBSD: ("vm.pmap.pti", "hw.ibrs_active", "hw.mds_disable_state", "hw.spec_store_bypass_disable_active")}
_SYSCTLS = {
    FREEBSD: (
        "net.inet6.ip6.forwarding", "net.inet.ip.redirect", "net.inet.ip.fw.enable", "net.inet.tcp.cc.algorithm",
        "net.isr.dispatch", "net.isr.maxthreads", "kern.ipc.maxsockbuf", "net.link.ifqmaxlen",
    ),
    OPENBSD: ("net.inet6.ip6.forwarding", "net.inet.ip.ifq.maxlen"),
    DARWIN: ("net.inet.tcp.sendspace", "net.inet.tcp.recvspace", "kern.ipc.maxsockbuf"),
}  # fmt: skip
_KENV = {"machine.vendor": "smbios.system.maker", "machine.product": "smbios.system.product", "machine.bios": "smbios.bios.version"}
_OF_DRIVER = {"description": "%desc", "driver_version": "iflib.driver_version", "firmware": "fw_version", "bus": "%location"}
_PFSENSE = (("slurp", "/etc/platform"), ("slurp", "/etc/version"))
_SW_VERS = ("sw_vers", "-productVersion")
_SPEED = re.compile(r"\b(\d+(?:\.\d+)?)(G?)base", re.IGNORECASE)


def questions(system: str, names: Sequence[str]) -> Iterator[Question]:
    """What is asked of a `system`, and of its interfaces `names`."""
    yield ("uname", "-r")
    if system == DARWIN:
        yield _SW_VERS
    for name in (*_NAMED[system].values(), *_MITIGATIONS.get(system, ()), *_SYSCTLS[system]):
        yield ("sysctl", "-n", name)
    if system == FREEBSD:
        yield from _PFSENSE
        yield from (("kenv", "-q", key) for key in _KENV.values())
    for name in names:
        yield _ifconfig(system, name)
        if system == FREEBSD:
            yield from (_of_driver(name, leaf) for leaf in _OF_DRIVER.values())


def put(facts: FactTree, answers: Answers, system: str, names: Sequence[str]) -> None:
    """Into the same paths as Linux's facts."""
    facts.put("os", _os(answers, system))
    for path, name in _NAMED[system].items():
        text, why = answers.said("sysctl", "-n", name)
        facts.put(path, int(text) if text and text.isdigit() else text, why)
    if system == FREEBSD:
        for path, key in _KENV.items():
            facts.put(path, *answers.said("kenv", "-q", key))
    told = {name: text for name in _MITIGATIONS.get(system, ()) if (text := answers.said("sysctl", "-n", name)[0])}
    facts.put("mitigations", told or None, "no sysctl tells")
    for name in _SYSCTLS[system]:
        facts.put(f"sysctls/{name}", *answers.said("sysctl", "-n", name))
    for name in names:
        _put_interface(facts, answers, system, name)


def _put_interface(facts: FactTree, answers: Answers, system: str, name: str) -> None:
    at = f"interfaces/{name}"
    said, why = answers.said(*_ifconfig(system, name))
    why = "not in the output of ifconfig" if said else why
    text = said or ""
    if system != DARWIN:  # there every port of Ethernet is an `en`
        facts.put(f"{at}/driver", re.sub(r"[\d.]+$", "", name))  # drivers number their interfaces (ifconfig(8))
    facts.put(f"{at}/mtu", int(m[1]) if (m := re.search(r"\bmtu (\d+)", text)) else None, why)
    facts.put(f"{at}/mac", m[1] if (m := re.search(r"\b(?:ether|lladdr) ([0-9a-f:]{17})", text)) else None, why)
    facts.put(f"{at}/operstate", m[1] if (m := re.search(r"\bstatus: (.+)", text)) else None, why)
    media = m[1] if (m := re.search(r"\bmedia: (.+)", text)) else None
    facts.put(f"{at}/media", media, why)
    speed = _SPEED.search(media or "")
    facts.put(f"{at}/speed_mbps", round(float(speed[1]) * (1000 if speed[2] else 1)) if speed else None, why)
    facts.put(f"{at}/duplex", next((way for way in ("full", "half") if f"{way}-duplex" in (media or "")), None), why)
    options = re.search(r"\b(?:options|hwfeatures)=[0-9a-f]+<([A-Za-z0-9_,]*)>", text)
    facts.put(f"{at}/offloads", {word: True for word in options[1].split(",") if word} if options else None, why)
    if system == FREEBSD:
        for key, leaf in _OF_DRIVER.items():
            facts.put(f"{at}/{key}", *answers.said(*_of_driver(name, leaf)))


def _os(answers: Answers, system: str) -> str:
    release, _ = answers.said("uname", "-r")
    text = f"{system} {release or ''}".strip()
    if system == DARWIN and (version := answers.said(*_SW_VERS)[0]):
        return f"macOS {version} ({text})"
    if system == FREEBSD and (answers.of(*_PFSENSE[0])[0] or "").strip().lower() == "pfsense":
        return f"pfSense {answers.of(*_PFSENSE[1])[0]} ({text})"
    return text


def _ifconfig(system: str, name: str) -> Question:
    return ("ifconfig", name, "hwfeatures") if system == OPENBSD else ("ifconfig", "-v", name)


def _of_driver(name: str, leaf: str) -> Question:
    m = re.fullmatch(r"([a-z_]+)(\d+)(?:\..*)?", name)  # a VLAN has its parent's card
    return ("sysctl", "-n", f"dev.{m[1]}.{m[2]}.{leaf}" if m else f"dev.{name}.{leaf}")
