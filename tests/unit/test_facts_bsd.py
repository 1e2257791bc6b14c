"""Facts of FreeBSD and OpenBSD, whose programs are played by scripts that print what those systems print."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.analysis.doctor import Inventory, InventoryLink, InventoryPort, examine
from dutlab.hosts.facts import collect_facts
from dutlab.hosts.local import LocalHost
from dutlab.systems.bsd_facts import arp_states
from dutlab.systems.bsd_slot import addresses, pciconf_devices, pcidump_devices, way_to_root
from outputs import output

# Host bridge, root port and card, of many more lines than are read: usr.sbin/pciconf/pciconf.c and cap.c; `-B` of bridges, `-c` of all.
PCICONF = output("facts_bsd", "freebsd-pciconf")
# usr.sbin/pcidump/pcidump.c of OpenBSD 7.
PCIDUMP = output("facts_bsd", "openbsd-pcidump")
DMESG = output("facts_bsd", "openbsd-dmesg")
# usr.sbin/arp/arp.c of FreeBSD.
FREEBSD_ARP = output("facts_bsd", "freebsd-arp")
# usr.sbin/arp/arp.c of OpenBSD.
OPENBSD_ARP = output("facts_bsd", "openbsd-arp")
OPENBSD = {
    "hw.model": "AMD GX-412TC SOC", "hw.ncpu": "4", "hw.physmem": "4259930112", "hw.setperf": "0", "hw.perfpolicy": "auto", "hw.cpuspeed": "600",
    "kern.timecounter.hardware": "acpihpet0", "kern.timecounter.choice": "i8254(0) acpihpet0(1000) acpitimer0(1000)", "kern.pool_debug": "1",
    "net.inet.ip.forwarding": "0",
}  # fmt: skip
PF_INFO = "Status: Enabled for 0 days 00:12:07          Debug: err\n\nState Table                          Total             Rate\n"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that is before all others."""
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


async def test_openbsd_tells_its_clock_its_checks_and_its_packet_filter_and_what_spoils_measurements_is_found_from_that(system) -> None:
    openbsd(system)
    facts = await collect_facts(LocalHost("dut"), [])
    kernel = {"name": "OpenBSD", "release": "7.6", "version": "GENERIC.MP#338", "machine": "amd64", "relinks_at_boot": True}
    assert facts["kernel"] == kernel
    assert (facts["cpu"]["model"], facts["cpu"]["cores"], facts["memory_bytes"]) == ("AMD GX-412TC SOC", 4, 4_259_930_112)
    assert facts["sysctls"]["hw.setperf"] == "0"
    assert facts["sysctls"]["dev.cpu.0.freq"] is None
    assert "is invalid" in facts["absent"]["sysctls/dev.cpu.0.freq"]
    assert facts["firewall"]["pf_enabled"] is True
    findings = examine(Inventory({"sink": facts}))
    assert {"power-saving", "firewall-in-the-way", "clock-source", "kernel-relinking", "pool-debug"} <= {f.kind for f in findings}
    # 30.2, 23.1 and 16.0 %; the others have no price
    assert [f.kind for f in findings][:3] == ["power-saving", "clock-source", "firewall-in-the-way"]


def freebsd(folder: Path, *, slots: str = PCICONF) -> None:
    program(folder, "uname", "case $1 in -s) echo FreeBSD;; *) echo 14.1-RELEASE;; esac")
    (folder / "slots").write_text(slots)
    (folder / "table").write_text(FREEBSD_ARP)
    program(folder, "pciconf", f'[ "$*" = "-lBc" ] && cat {folder}/slots')
    program(folder, "arp", f'[ "$*" = "-an" ] && cat {folder}/table')


def test_pciconf_and_pcidump_tell_each_link_up_to_the_root_and_buses_that_lead_to_themselves_end() -> None:
    card, port = way_to_root(pciconf_devices(PCICONF), "ixl0")
    assert (card.address, card.link_gts, card.link_width, card.link_gts_most, card.link_width_most) == ("0:101:0:0", 8.0, 4, 8.0, 8)
    assert (card.payload_bytes, card.payload_bytes_most, card.read_request_bytes, card.aspm) == (128, 2048, 512, "L1")
    assert (port.address, port.payload_bytes_most, port.aspm) == ("0:0:9:0", 256, "off")
    (other,) = way_to_root(pciconf_devices(PCICONF), "ixl2")  # bus 101 of another domain is another bus
    assert other.address == "1:101:0:0"
    assert way_to_root(pciconf_devices(PCICONF), "hostb0") == way_to_root([], "ixl0") == []
    # Buses that lead to themselves end.
    circle = PCICONF.replace("bus range  = 101-102", "bus range  = 0-102")
    assert [step.address for step in way_to_root(pciconf_devices(circle), "ixl0")] == ["0:101:0:0"]
    # Pcidump tells each link up to the root of a card that dmesg names.
    names = addresses(DMESG)
    assert names["1:0:0"] == "em0"  # as at the last of two boots
    card, port = way_to_root(pcidump_devices(PCIDUMP, names), "em0")
    assert (card.address, card.link_gts, card.link_gts_most, card.link_width, card.link_width_most) == ("1:0:0", 2.5, 2.5, 1, 1)
    assert (card.payload_bytes, card.payload_bytes_most, card.read_request_bytes, card.aspm) == (128, 512, 512, "off")
    assert (port.address, port.link_gts_most, port.aspm) == ("0:2:2", 5.0, "L1")


@settings(max_examples=40)
@given(st.text("ixl0@pci:.12 \nbusrange=-Domain/dv()x", max_size=300))
def test_any_words_of_a_slot_are_read_without_an_error(text: str) -> None:
    assert way_to_root(pciconf_devices(PCICONF + text) + pcidump_devices(PCIDUMP + text, addresses(DMESG + text)), "em0")


async def test_a_narrow_slot_of_freebsd_is_found(system: Path) -> None:
    freebsd(system, slots=PCICONF.replace("link x4(x8) speed 8.0(8.0) ASPM disabled", "link x1(x8) speed 8.0(8.0) ASPM disabled"))
    facts = await collect_facts(LocalHost("dut"), ["ixl0", "ixl0.100"])
    assert facts["interfaces"]["ixl0.100"]["pcie"] == facts["interfaces"]["ixl0"]["pcie"]
    facts["interfaces"] = {"ixl0": {**facts["interfaces"]["ixl0"], "speed_mbps": 10_000}}
    found = {f.kind: f for f in examine(Inventory({"dut": facts}))}
    assert found["narrow-slot"].evidence[0].read == "pciconf -lc pci0:0:9:0"  # not the card's own link, but that above it
    assert found["narrow-slot"].evidence[0].said == "x1 of x8, 8.0 GT/s of 8.0"
    assert found["narrow-slot"].price.percent == pytest.approx(100 * (1 - 8e9 * 128 / 130 / 8 * 128 / 152 / (1.25e9 * 1514 / 1538)))
    assert "128 bytes" in found["small-payload"].what and "256" in found["small-payload"].what
    assert found["pcie-power"].cure[0].command.startswith("by hand: ")


async def test_a_slow_link_of_openbsd_is_found(system: Path) -> None:
    openbsd(system)
    (system / "slots").write_text(PCIDUMP.replace("2.5 / 2.5 GT/s", "2.5 / 5.0 GT/s"))
    (system / "words").write_text(DMESG)
    program(system, "pcidump", f'[ "$*" = "-v" ] && cat {system}/slots')
    program(system, "grep", f'case "$*" in *"/var/run/dmesg.boot") exec /bin/grep -E "$2" {system}/words;; *) exec /bin/grep "$@";; esac')
    facts = await collect_facts(LocalHost("dut"), ["em0"])
    found = {f.kind: f for f in examine(Inventory({"dut": facts}))}
    assert "Gen1 x1" in found["narrow-slot"].what and "Gen2 x1" in found["narrow-slot"].what
    assert found["narrow-slot"].evidence[0].read == "pcidump -v 1:0:0"
    assert found["pcie-power"].evidence[0].said == "ASPM L1"


@pytest.mark.parametrize(("way", "speed"), [("sudo", 8.0), (None, None)])
async def test_what_only_root_is_told_is_asked_as_root_where_that_takes_no_password(system, way, speed) -> None:
    freebsd(system, slots=PCICONF)
    program(system, "id", "echo 1000")
    for name in ("doas", "sudo"):
        allowed = '[ "$1" = -n ] || exit 9; shift; AS_ROOT=1 exec "$@"'
        program(system, name, allowed if name == way else "echo a password is required >&2; exit 1")
    refuses = '[ -n "$AS_ROOT" ] || { echo "pciconf: /dev/pci: Permission denied" >&2; exit 1; }'
    words = (system / "pciconf").read_text()
    (system / "pciconf").write_text(words.replace("#!/bin/sh\n", f"#!/bin/sh\n{refuses}\n"))
    facts = await collect_facts(LocalHost("dut"), ["ixl0"])
    steps = facts["interfaces"]["ixl0"].get("pcie") or [{}]
    assert steps[0].get("link_gts") == speed


def test_each_systems_arp_table_is_read() -> None:
    assert arp_states(FREEBSD_ARP, "ixl0") == [{"state": "REACHABLE", "expires_s": 41}, {"state": "PERMANENT", "expires_s": None}]
    assert arp_states(FREEBSD_ARP, "ixl2") == [{"state": "INCOMPLETE", "expires_s": None}]
    assert arp_states(FREEBSD_ARP, "ixl3") == [{"state": "STALE", "expires_s": None}]
    assert arp_states(OPENBSD_ARP, "em0") == [{"state": "REACHABLE", "expires_s": 41}, {"state": "PERMANENT", "expires_s": None}]
    assert arp_states(OPENBSD_ARP, "em1") == [{"state": "REACHABLE", "expires_s": 1186}]
    assert arp_states(OPENBSD_ARP, "em2") == [{"state": "INCOMPLETE", "expires_s": None}]
    assert arp_states("Host Ethernet Address Netif Expire Flags\n", "em0") == []


@pytest.mark.parametrize(
    ("system_name", "table", "ports", "learn"),
    [
        ("FreeBSD", FREEBSD_ARP, ("ixl0", "ixl1"), "ping -c 1 172.16.0.2; arp -S 172.16.0.2 \"$(arp -n 172.16.0.2 | awk '{print $4}')\""),
        ("OpenBSD", OPENBSD_ARP, ("em0", "em1"), "ping -c 1 172.16.0.2; arp -F -s 172.16.0.2 \"$(arp -n 172.16.0.2 | awk 'NR == 2 {print $2}')\""),
    ],
)  # fmt: skip
async def test_an_entry_that_expires_within_a_trial_is_found(system, system_name, table, ports, learn) -> None:
    program(system, "uname", f"case $1 in -s) echo {system_name};; *) echo 1;; esac")
    (system / "table").write_text(table)
    program(system, "arp", f'[ "$*" = "-an" ] && cat {system}/table')
    facts = await collect_facts(LocalHost("dut"), ports)
    way = (InventoryPort("source", "a"), InventoryPort("dut", ports[0]), InventoryPort("dut", ports[1]), InventoryPort("sink", "b"))
    link = InventoryLink("a", way, ("172.16.0.1", "172.16.0.2", "172.16.10.2", "172.16.10.1"))
    (found,) = [f for f in examine(Inventory({"dut": facts}, links=(link,))) if f.kind == "neighbour-ageing"]
    assert found.where == (f"dut:{ports[0]}",)
    assert (found.evidence[0].read, found.evidence[0].said) == ("arp -an", "REACHABLE, expires in 41 s")
    assert (found.cure[0].command, found.undo[0].command) == (learn, "arp -d 172.16.0.2")


async def test_linux_is_asked_nothing_of_it() -> None:
    facts = await collect_facts(LocalHost("dut"), [])
    assert facts["kernel"]["name"] == "Linux"
    assert "hw.setperf" not in facts["sysctls"] and "pf_enabled" not in facts["firewall"]


# vmstat(8) of FreeBSD 14, `-ia`; iflib names queues so (sys/net/iflib.c).
VMSTAT = "interrupt                          total       rate\nirq256: ix0:rxq0                    8121         12\nirq257: ix0:rxq1                       2          0\n"
TEN_G = "ix0: flags=8843<UP> metric 0 mtu 1500\n\toptions=e53fbb<RXCSUM,TSO4,TSO6,LRO>\n\tmedia: Ethernet autoselect (10Gbase-SR <full-duplex,rxpause>)\n"
OF_FREEBSD = {
    "hw.ncpu": "8", "net.inet.ip.forwarding": "1", "dev.vtnet.0.act_vq_pairs": "1", "dev.vtnet.0.max_vq_pairs": "8",
    "dev.cpu.0.cx_supported": "C1/1/1 C2/2/80", "hw.acpi.cpu.cx_lowest": "C8", "dev.igc.0.iflib.override_nrxqs": "1", "net.isr.numthreads": "1", "net.isr.dispatch": "hybrid",
}  # fmt: skip


@pytest.mark.parametrize(
    ("media", "mbps"),
    [
        ("autoselect (10Gbase-SR <full-duplex>)", 10_000), ("autoselect (2500Base-T <full-duplex>)", 2500), ("10GSFP+Cu full-duplex", 10_000),
        ("100G-CAUI4 <full-duplex>", 100_000), ("autoselect (40Gbase-CR4 <full-duplex>)", 40_000), ("autoselect (none)", None),
        ("autoselect (1000baseT <full-duplex,master>)", 1000), ("autoselect (<unknown type>)", None),
    ],
)  # fmt: skip
async def test_a_name_of_media_has_the_speed(system: Path, media: str, mbps: int | None) -> None:
    freebsd(system)
    (system / "ifconfig.out").write_text(f"ix0: flags=8843<UP> metric 0 mtu 1500\n\tmedia: Ethernet {media}\n")
    program(system, "ifconfig", f"cat {system}/ifconfig.out")
    facts = await collect_facts(LocalHost("dut"), ["ix0"])
    assert facts["interfaces"]["ix0"].get("speed_mbps") == mbps


async def test_freebsd_tells_queues_flow_control_idle_states_and_netisr(system: Path) -> None:
    freebsd(system)
    cases = "".join(f"{name}) echo '{value}';; " for name, value in OF_FREEBSD.items())
    program(system, "sysctl", f"case $2 in {cases} *) echo \"sysctl: unknown oid '$2'\" >&2; exit 1;; esac")
    for name, text in {"vmstat": VMSTAT, "ifconfig": TEN_G}.items():
        (system / f"{name}.out").write_text(text)
        program(system, name, f"cat {system}/{name}.out")
    facts = await collect_facts(LocalHost("dut"), ["ix0", "vtnet0", "igc0"])
    card, virtual = facts["interfaces"]["ix0"], facts["interfaces"]["vtnet0"]
    assert (card["rx_queues"], card["pause_frames"]) == (2, {"rx": True, "tx": False})
    assert (virtual["rx_queues"], virtual["channels"]) == (None, {"now": {"combined": 1}, "most": {"combined": 8}})
    found = {f.kind: f for f in examine(Inventory({"dut": facts}))}
    assert {"flow-control", "offloads-on-router", "power-saving", "netisr-one-thread"} <= set(found)
    assert found["one-queue"].where == ("dut:vtnet0", "dut:igc0")
