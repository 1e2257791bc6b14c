"""Counters and cores of systems that are not Linux, from literal text in the form that their sources print."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from dutlab.hosts.local import LocalHost
from dutlab.sensors.cores import Sampler, samples
from dutlab.sensors.sensor import WATCH_COST, SensorSite
from dutlab.sensors.totals import difference
from dutlab.systems import SYSTEMS
from dutlab.systems import bsd_counters as bsd
from dutlab.systems.freebsd import FREEBSD_CPU
from dutlab.systems.linux_proc import LINUX_CPU, parse_reading
from dutlab.systems.openbsd import OPENBSD_CPU
from dutlab.systems.polled import parse_ethdev, parse_ovs, parse_testpmd
from dutlab.systems.posix import SH
from dutlab.systems.sample_names import DEVICE_FRAMES, poll_cycle_shares
from dutlab.systems.watched import CONNTRACK_ENTRIES
from outputs import output

pytestmark = pytest.mark.timing

# netstat/if.c, inet.c; pfctl_parser.c print_status(); vmstat.c dointr()
FREEBSD = output("sensors_systems", "freebsd")
# netstat/if.c 1.81 of OpenBSD: a table for bytes, and packets with errors (-e) or with what queues dropped (-d); `<Link>` without a number
OPENBSD = output("sensors_systems", "openbsd")
# Open vSwitch 3.1.0 and testpmd 22.11.11 of Debian 12, in modes ovs-router-polling and testpmd-mac of the lab three-node: ovs.txt, testpmd.txt.
# l3fwd 22.11.11 between two ports, after three pings: `/ethdev/stats,0` and `,1` by dpdk-telemetry.py: l3fwd.txt.
# VPP with cards and workers: after vnet/interface_cli.c and vlib/error.c. vpp-26.10.txt is recorded from VPP 26.10-rc0~374-gb575ec2c56d on
# 2026-11-28: ten pings through two host interfaces, one of them polled; sessions shortened, blanks at ends of lines cut.
VPP = output("sensors_systems", "vpp")


def test_freebsd_counts_by_the_names_of_linux_where_they_mean_the_same() -> None:
    found = bsd.parse(FREEBSD)
    assert (found["ixl2_rx_packets"], found["ixl2_rx_errors"], found["ixl2_rx_dropped"]) == (14880952, 3, 7)
    assert (found["ixl2_rx_bytes"], found["ixl2_tx_packets"], found["ixl2_tx_bytes"], found["ixl2_tx_dropped"]) == (1011904736, 12, 1008, 5)
    assert (found["ixl3_rx_packets"], found["lo0_tx_bytes"], found["pflog0_tx_packets"]) == (0, 6720, 9)
    assert (found["ip_forwarded_datagrams"], found["ip_in_header_errors"]) == (14880940, 2)
    assert (found["ip_out_discards"], found["ip_out_no_routes"]) == (1, 4)
    assert (found["tcp_retransmitted_segments"], found["udp_no_ports"], found["udp_receive_buffer_errors"]) == (3, 6, 8)
    assert (found[CONNTRACK_ENTRIES], found["pf_searches"], found["pf_state_mismatch"]) == (42, 29761880, 3)
    assert (found["interrupts_irq264_ixl2_rxq0"], found["interrupts_cpu0_timer"]) == (148809, 60241)
    assert not [name for name in found if "total" in name or "bytes_in" in name]


def test_openbsds_tables_are_one_and_what_queues_dropped_is_no_error() -> None:
    found = bsd.parse(OPENBSD)
    assert (found["em1_rx_packets"], found["em1_rx_errors"], found["em1_tx_errors"]) == (700123, 2, 1)
    assert (found["em1_rx_dropped"], found["em1_tx_dropped"]) == (40, 30)
    summed = bsd.interfaces("Name Mtu Network Address Ipkts Ifail Opkts Ofail Colls\nem1 9000 <Link> 00:0d:b9:00:00:01 7 42 7 31 0\n")
    assert summed == {"em1_rx_packets": 7, "em1_tx_packets": 7}, "errors and drops in one column are neither"
    asked = bsd.interfaces("Name Mtu Network Address Ipkts Iqdrop Opkts Oqdrop Colls\nem1 9000 <Link> 7 42 7 31 0\n", "dropped")
    assert (asked["em1_rx_dropped"], asked["em1_tx_dropped"]) == (42, 31)
    assert (found["em1_rx_bytes"], found["em1_tx_bytes"], found["lo0_rx_bytes"]) == (6300000, 6299000, 840)
    assert (found["ip_forwarded_datagrams"], found["interrupts_irq112_em1"]) == (700099, 70012)
    assert CONNTRACK_ENTRIES not in found, "pfctl was not allowed to tell"


def test_vpp_counts_beside_the_linux_that_it_runs_on() -> None:
    counting = SYSTEMS["vpp"].counters
    assert counting is not None
    found = counting.parse("\x1esoftnet\n00000064 00000001 00000002\n" + VPP)
    assert (found["TenGigabitEthernet3/0/0_rx_packets"], found["TenGigabitEthernet3/0/0_rx_bytes"]) == (14880952, 1011904736)
    assert (found["TenGigabitEthernet3/0/0_rx_dropped"], found["TenGigabitEthernet3/0/0_rx_missed"]) == (27, 300)
    assert (found["TenGigabitEthernet3/0/1_tx_packets"], found["local0_rx_dropped"]) == (14880652, 1)
    assert (found["vpp_dpdk-input_calls"], found["vpp_dpdk-input_vectors"]) == (590123, 123064475), "over all threads"
    assert "vpp_ip4-lookup_calls" not in found, "it does not poll"
    assert (found["vpp_acl_plugin_in_ip4_fa_acl_permit_packets"], found["vpp_ip4_input_ip4_ttl_1"]) == (13610, 7)
    assert (found[CONNTRACK_ENTRIES], found["cpu0_softnet_dropped"]) == (4, 1)


def test_a_recorded_vpp_counts_ten_pings_and_their_replies() -> None:
    counting = SYSTEMS["vpp"].counters
    assert counting is not None
    found = counting.parse(output("sensors_systems", "vpp-26.10"))
    assert [found[f"TenGigabitEthernet3/0/{n}_{way}_packets"] for n in (0, 1) for way in ("rx", "tx")] == [19, 13, 19, 19]
    assert (found["vpp_af-packet-input_calls"], found["vpp_af-packet-input_vectors"]) == (3754576, 20)
    assert (found["vpp_acl_plugin_in_ip4_fa_acl_deny_packets"], found["vpp_arp_reply_arp_replies_sent"]) == (4, 2)
    assert found[CONNTRACK_ENTRIES] == 0
    assert not [name for name in found if "cli" in name], "processes that wait do not poll"


def test_programs_that_poll_tell_what_they_took_and_how_often_they_looked_in_vain() -> None:
    ovs, testpmd = parse_ovs(output("sensors_systems", "ovs")), parse_testpmd(output("sensors_systems", "testpmd"), 2.0)
    assert (ovs[DEVICE_FRAMES], ovs["pmd1_idle_polls"], ovs["pmd1_busy_polls"]) == (40, 5144291, 5)
    assert poll_cycle_shares(ovs) == [pytest.approx(59819640 / (13355238426 + 59819640))]
    assert (testpmd[DEVICE_FRAMES], testpmd["testpmd_port0_rx_packets"], testpmd["testpmd_port3_tx_packets"]) == (40, 10, 10)
    assert poll_cycle_shares(testpmd) == [552716 / (2100e6 * 2)]
    assert parse_ovs("") == parse_testpmd("", 2.0) == {}


def test_ports_of_dpdk_are_counted_by_the_order_of_their_answers() -> None:
    l3fwd = output("sensors_systems", "l3fwd")
    found = parse_ethdev(l3fwd)
    assert (found[DEVICE_FRAMES], found["dpdk_port0_rx_packets"], found["dpdk_port1_tx_packets"]) == (28, 15, 13)
    unknown = parse_ethdev("no socket\n" + l3fwd.splitlines()[1] + '\n{"/ethdev/stats": null}\n[1]\n')
    assert {name for name in unknown if "rx_packets" in name} == {"dpdk_port1_rx_packets"}


def test_a_trial_counts_what_came_in_between_and_flows_stay_a_level() -> None:
    after = {**bsd.parse(FREEBSD), "ixl2_rx_dropped": 9.0, CONNTRACK_ENTRIES: 40.0}
    change = difference(bsd.parse(FREEBSD), after)
    assert (change["ixl2_rx_dropped"], change["ixl2_rx_packets"], change[CONNTRACK_ENTRIES]) == (2, 0, 40)


@pytest.mark.parametrize("name", sorted(name for name, system in SYSTEMS.items() if system.shell is SH and system.kernel))
def test_the_script_of_every_system_is_shell_and_ends_well_on_a_host_that_has_none_of_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "/bin/sh")
    counting = SYSTEMS[name].counters
    assert counting is not None
    done = subprocess.run(["sh", "-c", counting.script], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert counting.parse(done.stdout) == {}


# kern.cp_times: user nice sys intr idle of each core; stathz 128 here
FIRST = "\x1eclockrate\n{ hz = 1000, tick = 1000, profhz = 8126, stathz = 128 }\n\x1etimes\n100 0 200 84 896 0 0 0 0 1280\n"
SECOND = "\x1eclockrate\n{ hz = 1000, tick = 1000, profhz = 8126, stathz = 128 }\n\x1etimes\n100 0 264 148 896 0 0 0 0 1408\n"


def test_freebsds_cores_are_told_as_shares_of_each_second() -> None:
    readings = [FREEBSD_CPU.parse(text) for text in (FIRST, SECOND)]
    assert [r.uptime_s for r in readings] == [10.0, 11.0]
    told = {s.name: (s.t_s, s.value) for s in samples(readings, host="dut")}
    assert told["cpu0_system_percent"] == told["cpu0_irq_percent"] == (1.0, 50.0)
    assert (told["cpu0_idle_percent"], told["cpu1_idle_percent"]) == ((1.0, 0.0), (1.0, 100.0))


# systat: print_header(), print_title(), a row a core (cpu.c); kern.cp_time: user,nice,sys,spin,intr,idle, the mean of the cores
SYSTAT = output("sensors_systems", "openbsd-systat")
STAND_INS = {
    "systat": r"""
[ "$*" = "-a -B -s 0.05 cpu" ] || exit 1
n=$(($(cat "$D/turns") + 1)); echo $n >"$D/turns"; [ -e "$D/$n" ] || exec sleep 60
cat "$D/$n" """,
    "sysctl": r"""
case "$*" in
  "-n kern.clockrate") echo "tick = 10000, hz = 100, profhz = 1024, stathz = 128" ;;
  "-n kern.cp_time") echo "$((72 + 128 * $(cat "$D/turns"))),0,256,12,500,1000" ;;
esac""",
}


class SpeaksOpenbsd(LocalHost):
    """This machine, before whose programs stand those of a test."""

    programs = Path()

    def _carry(self, argv: Sequence[str]) -> list[str]:
        return super()._carry(["env", f"PATH={self.programs}:{os.environ['PATH']}", f"D={self.programs}", *argv])


def speaks_openbsd(folder: Path, programs: dict[str, str]) -> SpeaksOpenbsd:
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script.strip()}\n")
        (folder / name).chmod(0o755)
    host = SpeaksOpenbsd("dut")
    host.programs = folder
    return host


async def test_openbsds_cores_are_told_as_shares_of_each_turn(tmp_path: Path) -> None:
    host = speaks_openbsd(tmp_path, STAND_INS)
    for turn, (user, idle) in enumerate(((5, 40), (10, 35), (25.5, 19.5)), start=1):
        (tmp_path / str(turn)).write_text(SYSTAT.format(user=user, idle=idle))
    (tmp_path / "turns").write_text("0")
    sampler = Sampler(SensorSite(host), OPENBSD_CPU, interval_s=0.05)
    await sampler.start()
    while (tmp_path / "turns").read_text().strip() != "4":
        await asyncio.sleep(0.01)
    told = {(s.t_s, s.name): s.value for s in (await sampler.stop()).samples}
    assert {t for t, _ in told} == {1.0, 2.0}
    assert [told[t, "cpu0_user_percent"] for t in (1.0, 2.0)] == [10.0, 25.5]
    assert [told[t, "cpu0_idle_percent"] for t in (1.0, 2.0)] == [35.0, 19.5]
    assert (told[1.0, "cpu0_system_percent"], told[1.0, "cpu0_irq_percent"], told[2.0, "cpu1_idle_percent"]) == (15.0, 40.0, 100.0)
    assert not [name for _, name in told if name.startswith("cpu2")], "a core that is off has no share"
    assert told[1.0, WATCH_COST] >= 0
    linux = {
        s.name
        for s in samples([parse_reading(LINUX), parse_reading(LATER)], host="dut")
        if s.name.endswith("_percent") and s.name != WATCH_COST
    }
    assert {name for _, name in told if name.startswith("cpu0")} == linux, "the names of Linux's"


async def test_an_openbsd_whose_systat_fails_has_no_shares_and_is_not_kept_busy(tmp_path: Path) -> None:
    (tmp_path / "turns").write_text("0")
    host = speaks_openbsd(tmp_path, {**STAND_INS, "systat": 'echo >>"$D/asked"; exit 1'})
    sampler = Sampler(SensorSite(host), OPENBSD_CPU, interval_s=0.2)
    began_s = time.monotonic()
    await sampler.start()
    while not (tmp_path / "asked").exists():
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    assert not [s for s in (await sampler.stop()).samples if s.unit == "%" and s.name != WATCH_COST]
    assert len((tmp_path / "asked").read_text()) <= 2 + (time.monotonic() - began_s) / 0.2


LINUX = "\x1euptime\n1.0 1.0\n\x1estat\ncpu0 1 0 1 1 0 1 1 1\n\x1esoftnet\n\x1eown\n0m0s 0m0s\n"
LATER = "\x1euptime\n2.0 1.0\n\x1estat\ncpu0 2 0 2 2 0 2 2 2\n\x1esoftnet\n\x1eown\n0m0s 0m0s\n"


def test_cores_are_watched_in_the_words_of_the_family_or_not_at_all() -> None:
    assert SYSTEMS["pfsense"].cores is FREEBSD_CPU
    assert SYSTEMS["vyos"].cores is SYSTEMS["linux"].cores is LINUX_CPU
    assert SYSTEMS["openbsd-pf"].cores is SYSTEMS["openbsd"].cores is OPENBSD_CPU
    assert SYSTEMS["windows"].cores is SYSTEMS["macos"].cores is None
