"""A whole run on a DUT of family freebsd-pf: a namespace that forwards as Linux does and answers in FreeBSD's words.

Its programs are scripts that keep what they are told in files, so the run's way (lease, facts, undo, modes, counters, cores, restore) is the real
one and the frames are real, while its pf drops nothing: that is what verification must find out.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from capability import need_engine
from dutlab import labs
from dutlab.cli.console import Console
from dutlab.hosts.host import CommandLog, Done, Host
from dutlab.hosts.netns import NetnsHost
from dutlab.runner import stage
from dutlab.runner.execution import RunOptions
from dutlab.runner.run import run
from dutlab.spec.loader import read_experiment
from dutlab.spec.testbed import Testbed
from dutlab.systems import system_of
from run_records import record_in

pytestmark = pytest.mark.usefixtures("cheap_rig")
PROGRAMS = {
    "uname": 'for o; do case $o in -sm) echo "FreeBSD amd64" ;; -s) echo FreeBSD ;; -r) echo 14.1-RELEASE ;; *) echo amd64 ;; esac; done',
    "kldstat": "exit 0",
    "sysctl": r"""
file() { case $1 in net.inet.ip.forwarding) echo /proc/sys/net/ipv4/ip_forward ;; net.inet6.ip6.forwarding) echo "$S/six" ;; esac; }
for word; do case $word in
  -n) ;;
  *=*) echo "${word#*=}" >"$(file "${word%%=*}")" || exit 1 ;;
  net.inet*.forwarding) cat "$(file "$word")" ;;
  kern.clockrate) echo '{ hz = 1000, tick = 1000, profhz = 8126, stathz = 100 }' ;;
  kern.cp_times) awk '/^cpu[0-9]/ { printf "%d %d %d %d 0 ", $2, $3, $4, $5 + $6 + $7 + $8 } END { print "" }' /proc/stat ;;
  *) echo "sysctl: unknown oid '$word'" >&2; exit 1 ;;
esac; done""",
    "pfctl": r"""
echo "$*" >>"$S/pfctl"
case "$*" in
  "-s info") echo "Status: $(cat "$S/pf") for 0 days 00:01:00  Debug: Urgent"; printf 'State Table  Total  Rate\n  current entries  3\n' ;;
  "-s memory") echo "states        hard limit $(sed -n 's/^set limit states //p' "$S/rules")" ;;
  -e) echo Enabled >"$S/pf" ;;
  -d) echo Disabled >"$S/pf" ;;
  "-n -f -") cat >/dev/null ;;
  "-F all -f -" | "-f -") cat >"$S/rules" ;;
  "-F all") : >"$S/rules" ;;
  "-s rules") grep -E '^(pass|block|scrub)' "$S/rules"; exit 0 ;;
  "-s nat") grep -E '^nat' "$S/rules"; exit 0 ;;
esac""",
    "netstat": r"""
[ "$1" = -i ] || { echo "42 packets forwarded"; exit 0; }
echo "Name Mtu Network Address Ipkts Ierrs Idrop Ibytes Opkts Oerrs Obytes Coll Drop"
for d in /sys/class/net/*; do n=${d##*/}
  echo "$n 1500 <Link#1> $(cat $d/statistics/rx_packets) 0 0 $(cat $d/statistics/rx_bytes) $(cat $d/statistics/tx_packets) 0 0 0 0"
done""",
    "vmstat": "printf 'interrupt total rate\\nirq16: ixl0:rxq0 %s 0\\nTotal 7 0\\n' $(date +%s)",
}


class SpeaksFreebsd(NetnsHost):
    """A namespace whose programs are before the machine's."""

    programs = Path()

    def _carry(self, argv: Sequence[str]) -> list[str]:
        path = f"PATH={self.programs}:{os.environ['PATH']}"
        return super()._carry(["env", path, f"S={self.programs.parent}", *argv])

    def _absent(self, argv: Sequence[str]) -> Done | None:
        return None if (self.programs / argv[0]).exists() else super()._absent(argv)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The folder of its state, as somebody left it: pf on, with a ruleset."""
    (tmp_path / "bin").mkdir()
    for name, script in PROGRAMS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    for name, text in (("pf", "Enabled\n"), ("rules", "block drop in all\npass out all flags S/SA keep state\n"), ("six", "0\n")):
        (tmp_path / name).write_text(text)
    return tmp_path


async def test_a_run_goes_its_whole_way_and_what_pf_only_says_is_not_believed(
    lab: labs.Lab, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hosts_of(testbed: Testbed, log: CommandLog | None = None) -> dict[str, Host]:
        hosts = lab.hosts(log)
        dut = SpeaksFreebsd("dut", lab.namespaces["dut"], log)
        dut.programs, dut.system = machine / "bin", system_of("freebsd-pf")
        return {**hosts, "dut": dut}

    monkeypatch.setattr(stage, "hosts_of", hosts_of)
    engine = need_engine()
    links = lab.testbed.links["a"]
    (tmp_path / "bed.yaml").write_text(
        "testbed: t\nhosts: {source: {ssh: root@s}, dut: {ssh: root@d, family: freebsd-pf}, sink: {ssh: root@k}}\n"
        f"links: {{a: {{path: [{', '.join(map(str, links.path))}], addresses: [{', '.join(map(str, links.addresses))}]}}}}\n"
    )
    text = "experiment: e\ntestbed: bed.yaml\nfactors: {mode: [router, filter-empty, filter-default]}\norder: as-written\nrepeats: 1\n"
    (tmp_path / "e.yaml").write_text(text + "workloads: [{sweep: {rates: [2kpps], frame_sizes: [64], duration: 1s, warmup: 100ms}}]\n")
    before = {name: (machine / name).read_text() for name in ("pf", "six")}
    options = RunOptions(runs=tmp_path / "runs", engine_binary=Path(engine), command=("dutlab", "run"))
    done = await run(read_experiment(tmp_path / "e.yaml"), options, Console())
    records = [record_in(p) for p in sorted(done.folder.glob("trials/*/record.json"))]
    assert [r["status"] for r in records] == ["measured", "measured", "refused"], [r["why"] for r in records]
    assert "a new flow from outside is dropped: 10 of 10 probe frames arrived" in records[2]["why"]
    assert "pf holds" not in records[2]["why"]
    dut, received = records[0]["counters"]["dut"], records[0]["flows"][0]["received_frames"]
    assert dut[f"{links.dut_in.interface}_rx_packets"] >= received > 0
    assert dut["conntrack_entries"] == 3 and dut["interrupts_irq16_ixl0_rxq0"] > 0
    sampled = duckdb.sql(f"SELECT DISTINCT name FROM '{done.folder}/trials/0001/samples.parquet' WHERE host = 'dut'").fetchall()
    assert {("cpu0_idle_percent",), ("cpu0_system_percent",)} <= set(sampled)
    found = json.loads((done.folder / "doctor.json").read_text())["findings"]
    assert any(f["kind"] == "busy-cpu" and "dut" in f["where"] for f in found), "its cores have no time left for anything but interrupts"
    facts = json.loads((done.folder / "hosts/dut.json").read_text())
    assert (facts["os"], facts["interfaces"][links.dut_in.interface]["driver"]) == ("FreeBSD 14.1-RELEASE", links.dut_in.interface)
    assert {name: (machine / name).read_text() for name in ("pf", "six")} == before
    assert (machine / "rules").read_text().endswith("block drop in all\npass out all flags S/SA keep state\n")
    forwards = subprocess.run(
        ["ip", "netns", "exec", lab.namespaces["dut"], "cat", "/proc/sys/net/ipv4/ip_forward"], capture_output=True, text=True
    )
    assert forwards.stdout == "0\n"
