"""Facts of a host, read from literal output of several systems."""

from __future__ import annotations

import json
import os
import platform

from click.testing import CliRunner

from dutlab.cli.main import dutlab
from dutlab.report.sections.facts import fact_summary
from dutlab.systems.linux_facts import text as facts


def test_the_name_of_the_system_lscpu_and_pairs_of_a_colon_are_read() -> None:
    assert facts.os_name('ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n') == "Debian GNU/Linux 12 (bookworm)"
    assert facts.os_name("PRETTY_NAME=Alpine\n") == "Alpine"
    assert facts.os_name("ID=x\n") is None
    # Lscpu is read flat and nested.
    flat = {"lscpu": [{"field": "CPU(s):", "data": "4"}, {"field": "Model name:", "data": "AMD GX-412TC"}]}
    nested = {"lscpu": [{"field": "Vendor ID:", "data": "AMD", "children": [{"field": "Model name:", "data": "AMD GX-412TC"}]}]}
    assert facts.lscpu_fields(json.dumps(flat))["Model name:"] == "AMD GX-412TC"
    assert facts.lscpu_fields(json.dumps(nested))["Model name:"] == "AMD GX-412TC"
    assert facts.lscpu_fields("lscpu: invalid option") == {}
    small, large = ({"field": "Model name:", "data": f"Cortex-{of}"} for of in ("A55", "A76"))
    arm = {"lscpu": [{"field": "Vendor ID:", "data": "ARM", "children": [small, {"field": "Socket(s):", "data": "-"}, large, small]}]}
    fields = facts.lscpu_fields(json.dumps(arm))
    assert (fields["Model name:"], "Socket(s):" in fields) == ("Cortex-A55, Cortex-A76", False)
    # Driver and firmware are pairs of a colon.
    text = "driver: ixgbe\nversion: 6.1.0\nfirmware-version: 0x80000835, 1.2.3\nexpansion-rom-version: \nbus-info: 0000:03:00.1\n"
    assert facts.colon_pairs(text)["firmware-version"] == "0x80000835, 1.2.3"
    assert facts.colon_pairs(text)["bus-info"] == "0000:03:00.1"


def test_rings_are_what_could_be_and_what_is() -> None:
    text = """\
Ring parameters for eth0:
Pre-set maximums:
RX:\t\t4096
RX Mini:\tn/a
TX:\t\t4096
Current hardware settings:
RX:\t\t512
RX Mini:\tn/a
TX:\t\t1024
"""
    assert facts.ring_sizes(text) == {"most": {"rx": 4096, "tx": 4096}, "now": {"rx": 512, "tx": 1024}}
    assert facts.ring_sizes("Ring parameters for veth0:\n") is None


# ---- dutlab facts, on this machine


def told(*argv):
    return CliRunner().invoke(dutlab, ["facts", *argv])


def test_this_machine_is_told_as_json_and_as_lines():
    done = told("--port", "lo", "--json")
    assert done.exit_code == 0, done.output
    (facts,) = json.loads(done.output).values()
    assert facts["kernel"]["release"] == platform.release()
    assert list(facts["interfaces"]) == ["lo"]
    lines = told("--port", "lo", "--all").output.splitlines()
    assert f"kernel.release: {platform.release()}" in lines
    assert any(line.startswith("interfaces.lo.mtu: ") for line in lines)
    absent = [line.startswith("absent.") for line in lines]
    assert absent == sorted(absent), "why facts are absent is told last"
    summary = dict(line.split(": ", 1) for line in told("--port", "lo").output.splitlines() if ": " in line)
    assert platform.release() in summary["system"] and "MTU 65536" in summary["port lo"] and len(summary) <= 40 < len(lines)


def test_a_summary_lists_some_ports_and_counts_the_others():
    port = {"driver": "ixgbe", "speed_mbps": 10000, "mtu": 9000, "channels": {"now": {"combined": 4}, "most": {"combined": 63}}}
    rows = dict(fact_summary({"cpu": {"cores": 1}, "memory_bytes": 16e9, "interfaces": {f"eth{n}": port for n in range(20)}}))
    assert rows["port eth0"] == "ixgbe, 10 Gb/s, MTU 9000, 4 of 63 queues"
    assert (rows["processor"], rows["memory"], rows["and"]) == ("1 core", "16.0 GB", "8 more ports")
    odd = {"cpu": "none", "memory_bytes": "much", "interfaces": {"eth0": {"mtu": [], "channels": 3, "speed_mbps": "fast"}}, "drives": None}
    assert dict(fact_summary(odd)).keys() <= {"port eth0"}, "facts of another version are no fault"


def test_a_port_that_no_host_has_and_a_host_that_would_be_an_option_of_ssh_are_refused():
    assert "no interface nope" in str(told("--port", "nope", "--port", "lo").exception)
    # A host that would be an option of ssh is refused.
    assert "-oProxyCommand" in str(told("--", "-oProxyCommand=true").exception)


def test_a_host_that_the_testbed_has_not_is_refused_with_those_it_has(tmp_path):
    (tmp_path / "t.yaml").write_text(
        "testbed: t\nhosts: {source: {local: true}, dut: {ssh: root@192.0.2.1}, sink: {local: true}}\n"
        "links: {a: {path: [source:lo, dut:lo, dut:lo2, sink:lo3], addresses: [172.16.0.2/24, 172.16.0.1/24, 172.16.10.1/24, 172.16.10.2/24]}}\n"
    )
    done = told("router", "--testbed", os.fspath(tmp_path / "t.yaml"))
    assert "no host router" in str(done.exception)
    found = json.loads(told("source", "--testbed", os.fspath(tmp_path / "t.yaml"), "--json").output)
    assert list(found) == ["source"]
    assert list(found["source"]["interfaces"]) == ["lo"]
