"""One run on a machine at a time, over ssh and in namespaces."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.lease import PLACE, Holder, InUse, leased
from dutlab.hosts.netns import NetnsHost
from dutlab.hosts.ssh import SshHost
from processes import eventually, running_with

pytestmark = pytest.mark.timing

ANNA = Holder("anna@one (process 7)", "/runs/first", "2026-11-21T08:01:00+00:00")
BEN = Holder("ben@two (process 8)", "/runs/second", "2026-11-21T08:02:00+00:00")


@pytest.fixture(params=["netns", "ssh"])
def host(request: pytest.FixtureRequest, namespace: str) -> Host:
    return NetnsHost("dut", namespace) if request.param == "netns" else SshHost(request.getfixturevalue("ssh_login"))


def lease_file(namespace: str) -> Path:
    return Path(f"{PLACE}{Path('/run/netns', namespace).stat().st_ino}")


async def test_the_second_is_refused_and_told_who_since_when_and_for_what(host: Host, namespace: str) -> None:
    async with leased({"dut": host}, ANNA):
        with pytest.raises(
            InUse, match=r"in use by anna@one \(process 7\) for /runs/first since 2026-11-21T08:01:00\+00:00; wait"
        ) as caught:
            async with leased({"dut": host}, BEN, take_over=True):
                pass
        assert (caught.value.holder, caught.value.alive) == (ANNA, True)
    assert not lease_file(namespace).exists()
    async with leased({"dut": host}, BEN):
        pass
    await host.close()


async def test_what_a_dead_holder_left_is_taken_only_on_purpose_or_by_its_own_run(host: Host, namespace: str) -> None:
    async with leased({"dut": host}, ANNA):
        pid = int(lease_file(namespace).read_text().splitlines()[0])
        assert pid in running_with("dutlab-lease")
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: pid not in running_with("dutlab-lease"))
        with pytest.raises(InUse, match="which has ended; `dutlab undo /runs/first` there restores and frees it") as caught:
            async with leased({"dut": host}, BEN):
                pass
        assert not caught.value.alive
    async with leased({"dut": host}, ANNA):  # resume or undo of the same run
        assert lease_file(namespace).exists()
    assert not lease_file(namespace).exists()
    lease_file(namespace).write_text("4194305\ntorn")  # no such process can be: PID_MAX_LIMIT is 2^22
    async with leased({"dut": host}, BEN, take_over=True):
        pass
    assert not lease_file(namespace).exists()
    await host.close()


async def test_all_hosts_are_leased_or_none(host: Host, namespace: str) -> None:
    with pytest.raises(HostError, match="is gone"):
        async with leased({"dut": host, "sink": NetnsHost("sink", f"{namespace}-gone")}, ANNA):
            pass
    assert not lease_file(namespace).exists()
    await host.close()


async def test_a_machine_with_two_roles_is_leased_once_and_to_one_run(host: Host, namespace: str) -> None:
    async with leased({"source": host, "sink": host}, ANNA):
        assert lease_file(namespace).exists()
        with pytest.raises(InUse):
            async with leased({"source": host, "sink": host}, BEN):
                pass
        assert lease_file(namespace).exists()
    assert not lease_file(namespace).exists()
    await host.close()
