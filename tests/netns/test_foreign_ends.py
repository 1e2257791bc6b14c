"""Ends of other systems: a stand-in for a Windows behind a real sshd, with cmd or PowerShell, German, without sh and without our engine."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import login_shells
from capability import need_program
from cells import cell_of
from dutlab.errors import CommandTimedOut, HostError, ToolMissing
from dutlab.hosts.host import NO_SUCH_PROGRAM, Host
from dutlab.hosts.lease import Holder, InUse, leased
from dutlab.hosts.programs import IP, IPERF3, missing_on
from dutlab.hosts.ssh import SshHost
from dutlab.hosts.ssh_login import Login
from dutlab.labs import Lab
from dutlab.sensors.totals import read_counters
from dutlab.spec.workloads.steps import StepsWorkload
from dutlab.systems.windows import WINDOWS
from dutlab.tools.iperf3.program import version_of
from dutlab.tools.iperf3.tcp import Iperf3
from dutlab.tools.ping import Ping
from dutlab.tools.steps.account import Account
from dutlab.tools.steps.steps import Steps
from processes import eventually, running_with
from slow_links import slow_down

pytestmark = pytest.mark.timing


@pytest.fixture(params=["windows-cmd", "windows-powershell"])
async def windows(lab: Lab, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SshHost]:
    """The lab's source, as a Windows."""
    need_program("sshd")
    need_program("iperf3")
    namespace = lab.namespaces["source"]
    subprocess.run(["ip", "-n", namespace, "link", "set", "dev", "lo", "up"], check=True)
    folder: Path = tmp_path_factory.mktemp("ssh") / "files"
    config = login_shells.start(folder, namespace, request.param)
    host = SshHost(Login("source", "box", (config,)), system=WINDOWS)
    yield host
    await host.close()
    os.kill(int((folder / "box.pid").read_text()), signal.SIGTERM)


@pytest.fixture
async def ends(lab: Lab, windows: SshHost) -> dict[str, Host]:
    """The lab's hosts with a router between them, the source a Windows."""
    hosts: dict[str, Host] = dict(lab.hosts())
    await hosts["dut"].run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
    slow_down(lab.namespaces["dut"], "in-a", "out-a")
    hosts["source"] = windows
    return hosts


async def test_words_input_output_and_status_arrive_and_what_is_not_there_is_said(windows: SshHost, tmp_path: Path) -> None:
    data = bytes(range(256)) * 500
    path = str(tmp_path / "a file of 'ours'")
    await windows.put(data, path)
    assert await windows.get(path) == data
    assert [p.name for p in tmp_path.iterdir()] == ["a file of 'ours'"]
    with pytest.raises(HostError, match="cannot write /nowhere/file"):
        await windows.put(b"x", "/nowhere/file")
    assert (await windows.run(["sh", "-c", "true"], check=False)).status == NO_SUCH_PROGRAM
    assert (await windows.run(["iperf3", "-c", 'a "quoted" word\\'], check=False)).status == 1
    (missing,) = await missing_on(windows, [IPERF3, IP])
    assert isinstance(missing, ToolMissing)
    assert str(missing) == "source: ip is not installed; install it (put the folder of iproute2 on the system's PATH)"


async def test_a_command_that_takes_too_long_and_one_whose_connection_ends_are_ended_by_number(windows: SshHost) -> None:
    with pytest.raises(CommandTimedOut):
        await windows.run(["iperf3", "-s", "-p", "5999"], timeout_s=2)
    assert await asyncio.to_thread(eventually, lambda: running_with("5999") == [])
    await windows.spawn(["iperf3", "-s", "-p", "5998"])
    assert await asyncio.to_thread(eventually, lambda: running_with("5998") != [])
    assert windows._link is not None
    windows._link._connection.abort()
    assert await asyncio.to_thread(eventually, lambda: running_with("5998") == [])


async def test_one_run_at_a_time_and_none_is_left_behind(windows: SshHost) -> None:
    def holder(run: str) -> Holder:
        return Holder.this_process(Path(run), datetime.now(UTC))

    async with leased({"source": windows}, holder("first")):
        with pytest.raises(InUse) as caught:
            async with leased({"source": windows}, holder("second")):
                pytest.fail("the first holds it")
        assert caught.value.holder is not None
        assert (caught.value.host, Path(caught.value.holder.run).name, caught.value.alive) == ("source", "first", True)
    async with leased({"source": windows}, holder("second")):
        pass


async def test_iperf3_runs_from_it_and_to_it_by_tcp_and_udp(lab: Lab, ends: dict[str, Host]) -> None:
    tool = Iperf3(ends, lab.testbed, {})
    assert await version_of(ends["source"])
    before = await read_counters(ends["source"])
    whole = await tool.measure(cell_of("iperf3", streams=1, duration_s=1))
    after = await read_counters(ends["source"])
    assert after["eth-a_tx_bytes"] - before["eth-a_tx_bytes"] > whole.figures["a"]["goodput_bps"] / 8 * 0.9
    assert whole.figures["a"]["goodput_bps"] > 0
    back = await tool.pair(cell_of("matrix", client="sink", server="source", streams=1, duration_s=1))
    assert back.figures["a"]["goodput_bps"] > 0
    params = {"protocol": "udp", "client": "source", "server": "sink", "length_bytes": 1000, "rate_pps": 500, "duration_s": 1}
    assert (await tool.pair(cell_of("matrix", **params))).figures["a"]["goodput_bps"] > 0


async def test_a_german_ping_tells_what_passes_whole(lab: Lab, ends: dict[str, Host]) -> None:
    ping = Ping(ends, lab.testbed)
    assert (await ping.check()).startswith("source ping of Windows, sink ping from")
    there = str(lab.testbed.links["a"].dut_in)
    assert await ping.cable("a", "source", there, (9000, 1500, 68)) == 1500
    await ends["dut"].run(["ip", "link", "set", "in-a", "down"])
    assert await ping.cable("a", "source", there, (1500,)) is None


async def test_steps_are_the_users_own_powershell_and_begin_with_those_of_others(ends: dict[str, Host]) -> None:
    steps = StepsWorkload.model_validate(
        {
            "startup": {"source": ["iperf3 --version"], "sink": ["iperf3 --version"]},
            "run": {"source": ["Get-Nonsense"], "sink": ["true"]},
        }
    )
    account = Account()
    await Steps({name: ends[name] for name in ("source", "sink")}).carry_out(steps, account)
    said = {(d.host, d.step.command): d for d in account.done}
    assert said["source", "iperf3 --version"].stdout.startswith(b"iperf 3.")
    assert said["source", "Get-Nonsense"].status == 1
    assert {start.host for start in account.starts["startup"]} == {"source", "sink"}
