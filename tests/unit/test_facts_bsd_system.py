"""Facts of FreeBSD, pfSense and OpenBSD, from transcripts; and the way to them on a host that is not Linux."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from typing import Any, cast

import pytest

from dutlab.hosts.facts import collect_facts
from dutlab.hosts.host import Done, Host
from dutlab.report.sections.facts import fact_rows
from dutlab.systems import SYSTEMS
from dutlab.systems.bsd_facts import BsdFacts
from dutlab.systems.facts import Answers, FactTree, OwnFacts
from dutlab.systems.freebsd import FREEBSD
from dutlab.systems.macos import MACOS
from dutlab.systems.openbsd import OPENBSD
from transcript import TranscriptHost


def own(kernel: str) -> OwnFacts:
    return next(s.own_facts for s in SYSTEMS.values() if s.kernel == kernel and s.own_facts)


def answers_of(name: str, system: str, ports: Sequence[str]) -> tuple[Answers, TranscriptHost]:
    """What the shell of hosts/facts.py would have brought back, had it met the transcript's commands."""
    host = TranscriptHost.of(name)
    found: dict[tuple[str, ...], tuple[str | None, str]] = {}
    of_all = set(BsdFacts(system).questions([]))  # test_facts_bsd.py has those
    for question in own(system).questions(ports):
        exchange = next((e for e in host.exchanges if e.argv == question), None)
        if exchange is None:
            assert question in of_all, question
            continue
        exchange.used = True
        why = exchange.stderr.strip()
        found[question] = (None, why) if exchange.status else (exchange.stdout.strip(), "")
    return Answers(found, "never asked"), host


def facts_of(name: str, system: str, port: str) -> dict[str, Any]:
    answers, host = answers_of(name, system, [port])
    assert host.unused() == []
    tree = FactTree()
    own(system).put(tree, answers, [port])
    facts = tree.to_json()
    facts["absent"] = {path: why for path, why in facts["absent"].items() if why != "never asked"}
    return facts


def test_pfsense_says_what_it_is_in_freebsds_words() -> None:
    facts = facts_of("freebsd-facts", "FreeBSD", "ixl2")
    assert facts["os"] == "pfSense 2.7.2-RELEASE (FreeBSD 14.0-CURRENT)"
    assert (facts["cpu"]["threads_per_core"], facts["cpu"]["now_mhz"], facts["virtual"]) == (2, 2200, "none")
    assert facts["mitigations"] == {"vm.pmap.pti": "1", "hw.ibrs_active": "0", "hw.mds_disable_state": "inactive"}
    assert facts["sysctls"]["net.isr.dispatch"] == "direct"
    port = facts["interfaces"]["ixl2"]
    assert (port["driver"], port["driver_version"], port["mtu"], port["speed_mbps"], port["duplex"]) == (
        "ixl",
        "2.3.3-k",
        1500,
        10000,
        "full",
    )
    assert (port["mac"], port["operstate"]) == ("3c:ec:ef:00:00:02", "active")
    assert sorted(port["offloads"]) == ["HWSTATS", "JUMBO_MTU", "VLAN_HWCSUM", "VLAN_HWFILTER", "VLAN_HWTAGGING", "VLAN_MTU"]
    assert "fw 3.1.55727" in port["firmware"]
    assert port["rx_queues"] == 2
    assert facts["absent"] == {
        "machine.bios": "kenv: unable to get smbios.bios.version",
        "sysctls/net.inet.ip.fw.enable": "sysctl: unknown oid 'net.inet.ip.fw.enable'",
        "sysctls/net.inet.rss.enabled": "sysctl: unknown oid 'net.inet.rss.enabled'",
        "interfaces/ixl2/channels": "not stated",
    }


def test_openbsd_says_its_clock_and_its_card_under_the_names_of_linux() -> None:
    facts = facts_of("openbsd-facts", "OpenBSD", "em1")
    assert facts["os"] == "OpenBSD 7.5"
    assert facts["cpu"]["setperf_percent"] == 100
    assert facts["kernel"]["relinks_at_boot"] is True
    assert facts["cpu"]["governor"] == "auto"
    port = facts["interfaces"]["em1"]
    assert (port["driver"], port["mtu"], port["speed_mbps"], port["duplex"], port["mac"]) == ("em", 9000, 1000, "full", "00:0d:b9:00:00:01")
    # Its facts stand beside those of a linux host under the same names.
    rows = fact_rows({"dut": facts_of("openbsd-facts", "OpenBSD", "em1"), "sink": {"machine": {"product": "other"}}})
    assert next(row.by_host for row in rows if row.name == "machine.product") == {"dut": "apu2", "sink": "other"}


@pytest.mark.parametrize("system", sorted(s.kernel for s in (FREEBSD, OPENBSD, MACOS)))
async def test_a_host_that_is_no_linux_is_asked_a_second_time_in_its_own_words(system: str) -> None:
    class Shell:
        system = FREEBSD

        def __init__(self) -> None:
            self.name, self.asked = "dut", list[str]()

        async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, check: bool = True) -> Done:
            assert argv == ["sh", "-s"]
            lines = [line for line in stdin.decode().splitlines() if line.startswith("answer ")]
            self.asked.append(stdin.decode())
            said = "".join(f"\x1e{i}\n{system if shlex.split(line)[2:] == ['uname', '-s'] else ''}" for i, line in enumerate(lines))
            return Done(self.name, tuple(argv), 0, said.encode(), b"", time.time(), 0.0)

    shell = Shell()
    facts = await collect_facts(cast("Host", shell), ["em0"])  # only run() is used
    assert facts["kernel"]["name"] == system
    assert facts["interfaces"]["em0"]["driver"] == (None if system == "Darwin" else "em")  # a port of a Mac does not name its driver
    assert len(shell.asked) == 2
    assert "ifconfig" in shell.asked[1]
    assert "/sys/class" not in shell.asked[1].rpartition("}\n")[2]


def test_a_mac_tells_its_version_its_processor_and_its_port() -> None:
    said = {
        ("uname", "-r"): "23.6.0",
        ("sw_vers", "-productVersion"): "14.6.1",
        ("sysctl", "-n", "machdep.cpu.brand_string"): "Apple M2",
        ("sysctl", "-n", "hw.memsize"): "17179869184",
        ("ifconfig", "-v", "en0"): (
            "en0: flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST> mtu 1500\n"
            "\toptions=6463<RXCSUM,TXCSUM,TSO4,TSO6,CHANNEL_IO,PARTIAL_CSUM,ZEROINVERT_CSUM>\n"
            "\tether 3c:22:fb:00:00:01\n\tmedia: autoselect (10Gbase-T <full-duplex>)\n\tstatus: active"
        ),
    }
    assert set(said) <= set(own("Darwin").questions(["en0"]))
    facts = FactTree()
    own("Darwin").put(facts, Answers({q: (text, "") for q, text in said.items()}, "never asked"), ["en0"])
    found = facts.to_json()
    assert (found["os"], found["cpu"]["model"], found["memory_bytes"]) == ("macOS 14.6.1 (Darwin 23.6.0)", "Apple M2", 17179869184)
    port = found["interfaces"]["en0"]
    assert (port["mtu"], port["mac"], port["speed_mbps"], port["duplex"]) == (1500, "3c:22:fb:00:00:01", 10_000, "full")
    assert "driver" not in port and port["offloads"]["TSO4"]
