"""Facts of FreeBSD and OpenBSD, whose programs are played by scripts that print what those systems print."""

from __future__ import annotations

from pathlib import Path

import pytest

from dutlab.analysis.doctor import Patient, examine
from dutlab.hosts.facts import collect_facts
from dutlab.hosts.facts.bsd_slot import pciconf_step
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


PCICONF = """\
ixl2@pci0:101:0:2:\tclass=0x020000 rev=0x02 hdr=0x00 vendor=0x8086 device=0x1572 subvendor=0x15d9 subdevice=0x0000
    cap 01[40] = powerspec 3  supports D0 D3  current D0
    cap 11[70] = MSI-X supports 129 messages, enabled
    cap 10[a0] = PCI-Express 2 endpoint max data 256(2048) FLR RO
                 max read 512
                 link x4(x8) speed 8.0(8.0) ASPM L1(L1)
"""


def test_pciconf_tells_the_cards_own_link() -> None:
    step = pciconf_step(PCICONF)
    assert step is not None
    assert (step.address, step.link_gts, step.link_width, step.link_gts_most, step.link_width_most) == ("0:101:0:2", 8.0, 4, 8.0, 8)
    assert (step.payload_bytes, step.payload_bytes_most, step.read_request_bytes, step.aspm) == (256, 2048, 512, "L1")
    assert pciconf_step(PCICONF.replace("L1(L1)", "disabled(L0s/L1)")).aspm == "off"  # type: ignore[union-attr]
    assert pciconf_step("hostb0@pci0:0:0:0:\tclass=0x060000\n") is None


async def test_a_narrow_slot_of_freebsd_is_found(system: Path) -> None:
    program(system, "uname", "case $1 in -s) echo FreeBSD;; *) echo 14.1-RELEASE;; esac")
    (system / "said").write_text(PCICONF.replace("x4(x8)", "x1(x8)"))
    program(system, "pciconf", f'[ "$*" = "-lc ixl2" ] && cat {system}/said')
    facts = await collect_facts(LocalHost("dut"), ["ixl2"])
    facts["interfaces"]["ixl2"]["speed_mbps"] = 10_000
    found = {f.kind: f for f in examine(Patient({"dut": facts}))}
    assert found["narrow-slot"].evidence[0].read == "pciconf -lc pci0:101:0:2"
    assert found["narrow-slot"].evidence[0].said == "x1 of x8, 8.0 GT/s of 8.0"
    assert found["narrow-slot"].price.percent == pytest.approx(100 * (1 - 8e9 * 128 / 130 / 8 * 256 / 280 / (1.25e9 * 1514 / 1538)))
    assert found["pcie-power"].cure[0].command == "by hand: switch ASPM off in the BIOS"


async def test_linux_is_asked_nothing_of_it() -> None:
    facts = await collect_facts(LocalHost("dut"), [])
    assert facts["kernel"]["name"] == "Linux"
    assert "hw.setperf" not in facts["sysctls"] and "pf_enabled" not in facts["firewall"]
