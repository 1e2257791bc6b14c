"""Facts of FreeBSD and OpenBSD, whose programs are played by scripts that print what those systems print."""

from __future__ import annotations

from pathlib import Path

import pytest

from dutlab.analysis.doctor import Patient, examine
from dutlab.hosts.facts import collect_facts
from dutlab.hosts.local import LocalHost

OPENBSD = {
    "hw.model": "AMD GX-412TC SOC", "hw.ncpu": "4", "hw.physmem": "4259930112", "hw.setperf": "0", "hw.perfpolicy": "auto", "hw.cpuspeed": "600",
    "kern.timecounter.hardware": "acpihpet0", "kern.timecounter.choice": "i8254(0) acpihpet0(1000) acpitimer0(1000)", "kern.pool_debug": "1",
    "net.inet.ip.forwarding": "0",
}  # fmt: skip
PF_INFO = "Status: Enabled for 0 days 00:12:07          Debug: err\n\nState Table                          Total             Rate\n"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that stands before all others."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def openbsd(folder: Path) -> None:
    program(folder, "uname", "case $1 in -s) echo OpenBSD;; -r) echo 7.6;; -v) echo GENERIC.MP#338;; -m) echo amd64;; esac")
    cases = "".join(f"{name}) echo '{value}';; " for name, value in OPENBSD.items())
    program(folder, "sysctl", f'case $2 in {cases} *) echo "sysctl: top level name $2 in $2 is invalid" >&2; exit 1;; esac')
    program(folder, "pfctl", f"printf '%s' '{PF_INFO}'")
    program(folder, "ls", '[ "$1" = /var/db/kernel.SHA256 ] && echo "$1"')


async def test_openbsd_tells_its_clock_its_checks_and_its_packet_filter(system: Path) -> None:
    openbsd(system)
    facts = await collect_facts(LocalHost("dut"), [])
    assert facts["kernel"] == {
        "name": "OpenBSD",
        "release": "7.6",
        "version": "GENERIC.MP#338",
        "machine": "amd64",
        "relinks_at_boot": True,
    }
    assert (facts["cpu"]["model"], facts["cpu"]["cores"], facts["memory_bytes"]) == ("AMD GX-412TC SOC", 4, 4_259_930_112)
    assert facts["sysctls"]["hw.setperf"] == "0"
    assert facts["sysctls"]["dev.cpu.0.freq"] is None
    assert "is invalid" in facts["absent"]["sysctls/dev.cpu.0.freq"]
    assert facts["firewall"]["pf_enabled"] is True


async def test_what_spoils_measurements_on_it_is_found_from_those_facts(system: Path) -> None:
    openbsd(system)
    findings = examine(Patient({"sink": await collect_facts(LocalHost("sink"), [])}))
    assert {"power-saving", "firewall-in-the-way", "clock-source", "kernel-relinking", "pool-debug"} <= {f.kind for f in findings}
    assert [f.kind for f in findings][:2] == ["power-saving", "firewall-in-the-way"]  # 30.2 % and 16.0 %, the others have no price


async def test_linux_is_asked_nothing_of_it() -> None:
    facts = await collect_facts(LocalHost("dut"), [])
    assert facts["kernel"]["name"] == "Linux"
    assert "hw.setperf" not in facts["sysctls"] and "pf_enabled" not in facts["firewall"]
