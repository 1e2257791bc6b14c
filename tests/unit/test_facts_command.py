"""dutlab facts, on this machine."""

from __future__ import annotations

import json
import os
import platform

from click.testing import CliRunner

from dutlab.cli.main import dutlab


def told(*argv):
    return CliRunner().invoke(dutlab, ["facts", *argv])


def test_this_machine_is_told_as_json_and_as_lines():
    done = told("--port", "lo", "--json")
    assert done.exit_code == 0, done.output
    (facts,) = json.loads(done.output).values()
    assert facts["kernel"]["release"] == platform.release()
    assert list(facts["interfaces"]) == ["lo"]
    lines = told("--port", "lo").output.splitlines()
    assert f"kernel.release: {platform.release()}" in lines
    assert any(line.startswith("interfaces.lo.mtu: ") for line in lines)
    absent = [line.startswith("absent.") for line in lines]
    assert absent == sorted(absent), "why facts are absent is told last"


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
