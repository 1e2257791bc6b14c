"""One run on a machine at a time, over ssh and in namespaces."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dutlab.errors import HostError
from dutlab.hosts.child import ChildCarrier
from dutlab.hosts.host import Host
from dutlab.hosts.lease import Holder, InUse, lease_files, leased
from dutlab.hosts.netns import NetnsHost
from dutlab.hosts.ssh import SshHost
from dutlab.hosts.ssh_login import Login
from processes import LIMIT_S, command_lines, eventually, running_with, signalled

pytestmark = pytest.mark.timing

NOBODY = 65534
ANNA = Holder("anna@one (process 7)", "/runs/first", "2026-11-21T08:01:00+00:00")
BEN = Holder("ben@two (process 8)", "/runs/second", "2026-11-21T08:02:00+00:00")


@pytest.fixture(autouse=True)
def _roots_folder_is_roots() -> Iterator[None]:
    """As on every system, but perhaps not where a test's own /run was mounted."""
    mode = stat.S_IMODE(Path("/run").stat().st_mode)
    Path("/run").chmod(0o755)
    yield
    Path("/run").chmod(mode)


@pytest.fixture(params=["netns", "ssh"])
def host(request: pytest.FixtureRequest, namespace: str) -> Host:
    return NetnsHost("dut", namespace) if request.param == "netns" else SshHost(request.getfixturevalue("ssh_login"))


def lease_file(namespace: str) -> Path:
    return lease_files(str(Path("/run/netns", namespace).stat().st_ino))[0]


def shared_file(namespace: str) -> Path:
    """Where the lease of a login lies that may not write into root's folder."""
    return lease_files(str(Path("/run/netns", namespace).stat().st_ino))[1]


async def test_the_second_is_refused_and_told_who_since_when_and_for_what(host: Host, namespace: str) -> None:
    async with leased({"dut": host}, ANNA):
        with pytest.raises(InUse) as caught:
            async with leased({"dut": host}, BEN, take_over=True):
                pass
        assert (caught.value.holder, caught.value.alive) == (ANNA, True)
    assert not lease_file(namespace).exists()
    async with leased({"dut": host}, BEN):
        pass
    await host.close()


async def test_who_is_cancelled_while_a_lease_is_still_starting_leaves_none(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    over, is_made = ChildCarrier.over, asyncio.Event()

    async def slow(process: subprocess.Popen[bytes]) -> ChildCarrier:
        assert await asyncio.to_thread(eventually, lambda: lease_file(namespace).exists())
        is_made.set()
        await asyncio.sleep(0.2)
        return await over(process)

    async def taken() -> None:
        async with leased({"dut": NetnsHost("dut", namespace)}, ANNA):
            pass

    monkeypatch.setattr(ChildCarrier, "over", slow)
    taking = asyncio.ensure_future(taken())
    await is_made.wait()
    taking.cancel()
    await asyncio.wait([taking])
    assert taking.cancelled()
    assert not lease_file(namespace).exists()


async def test_what_a_dead_holder_left_is_taken_only_on_purpose_or_by_its_own_run(host: Host, namespace: str) -> None:
    async with leased({"dut": host}, ANNA):
        pid = int(lease_file(namespace).read_text().splitlines()[0])
        assert pid in running_with("dutlab-lease")
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: pid not in running_with("dutlab-lease"))
        with pytest.raises(InUse) as caught:
            async with leased({"dut": host}, BEN):
                pass
        assert (caught.value.holder, caught.value.alive) == (ANNA, False)
    async with leased({"dut": host}, ANNA):  # resume or undo of the same run
        assert lease_file(namespace).exists()
    assert not lease_file(namespace).exists()
    lease_file(namespace).write_text("4194305\ntorn")  # no such process can be: PID_MAX_LIMIT is 2^22
    async with leased({"dut": host}, BEN, take_over=True):
        pass
    assert not lease_file(namespace).exists()
    await host.close()


class Ordinary(NetnsHost):
    """The same machine, to which a user logs in who may not write into root's folder."""

    def _carry(self, argv: Sequence[str]) -> list[str]:
        return super()._carry(["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--", *argv])


@pytest.mark.parametrize("first", [NetnsHost, Ordinary])
async def test_root_and_an_ordinary_user_see_each_other_s_lease(namespace: str, first: type[NetnsHost]) -> None:
    second = Ordinary if first is NetnsHost else NetnsHost
    async with leased({"dut": first("dut", namespace)}, ANNA):
        assert (lease_file(namespace).exists(), shared_file(namespace).exists()) == ((True, False) if first is NetnsHost else (False, True))
        with pytest.raises(InUse) as caught:
            async with leased({"dut": second("dut", namespace)}, BEN):
                pass
        assert caught.value.holder == ANNA
    assert not lease_file(namespace).exists()
    assert not shared_file(namespace).exists()


@pytest.mark.parametrize("kind", ["link to a file", "link to nothing", "link to a folder", "folder", "pipe"])
@pytest.mark.parametrize("who", [NetnsHost, Ordinary])
async def test_what_another_user_put_in_the_place_of_a_lease_is_neither_followed_nor_waited_for(
    namespace: str, tmp_path: Path, kind: str, who: type[NetnsHost]
) -> None:
    """A process of root's that wrote through such a link would overwrite a file of root's; one that opened the pipe would wait for ever."""
    (secret := tmp_path / "secret").write_text("root's")
    place = shared_file(namespace)
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to({"link to a file": secret, "link to nothing": tmp_path / "new", "link to a folder": tmp_path}[kind])
    try:
        async with asyncio.timeout(LIMIT_S):
            if who is NetnsHost:  # has a place of its own, which nobody can block
                async with leased({"dut": who("dut", namespace)}, ANNA, take_over=True):
                    assert lease_file(namespace).is_file()
            else:
                with pytest.raises(HostError, match="is not a file; it is not dutlab's"):
                    async with leased({"dut": who("dut", namespace)}, ANNA, take_over=True):
                        pass
        assert place.is_symlink() or not place.is_file()
        assert (secret.read_text(), sorted(p.name for p in tmp_path.iterdir())) == ("root's", ["secret"])
        assert kind != "folder" or not list(place.iterdir())
    finally:
        place.rmdir() if kind == "folder" else place.unlink()


async def test_what_a_lease_of_somebody_says_obeys_no_terminal(namespace: str) -> None:
    lease_file(namespace).write_text('4194305\n{"who": "\\u001b[2Janna\\u202e", "run": "/r", "since": "now"}\n')
    with pytest.raises(InUse, match=r"left in use by \?\[2Janna\? for /r since now"):
        async with leased({"dut": NetnsHost("dut", namespace)}, BEN):
            pass
    lease_file(namespace).unlink()


async def kill_sessions(host: SshHost, namespace: str) -> None:
    """Ends every ssh session of the host's, as `pkill sshd` there or a firewall that forgot its states does; returns when they are gone."""

    def left() -> list[int]:
        return [pid for pid, line in command_lines(namespace).items() if line.startswith((b"sshd: root", b"sshd-session: root"))]

    for pid in left():
        signalled(pid, signal.SIGKILL)
    assert await asyncio.to_thread(eventually, lambda: not left())
    await asyncio.sleep(0.2)  # this end hears of it, or finds out when it next speaks


async def test_a_run_whose_connection_was_lost_stops_where_another_took_its_host_over(ssh_login: Login, namespace: str) -> None:
    anna, ben = SshHost(ssh_login), SshHost(ssh_login)
    async with leased({"dut": anna}, ANNA) as left:
        pid = int(lease_file(namespace).read_text().splitlines()[0])
        await kill_sessions(anna, namespace)
        assert await asyncio.to_thread(eventually, lambda: pid not in running_with("dutlab-lease"))
        async with leased({"dut": ben}, BEN, take_over=True):
            for _ in range(2):
                with pytest.raises(InUse) as caught:
                    await anna.run(["true"])
                assert caught.value.holder == BEN
            assert (await ben.run(["echo", "ours"])).text == "ours\n"
        assert (await anna.run(["echo", "again"])).text == "again\n", "free again, and taken again"
        assert lease_file(namespace).exists()
    assert (left, lease_file(namespace).exists()) == ([], False)
    await anna.close()
    await ben.close()


@pytest.mark.parametrize("used", [True, False])
async def test_a_lease_whose_connection_was_lost_is_given_back_all_the_same(ssh_login: Login, namespace: str, used: bool) -> None:
    host = SshHost(ssh_login)
    async with leased({"source": host}, ANNA) as left:
        await kill_sessions(host, namespace)
        if used:
            await host.run(["true"])
    assert (left, lease_file(namespace).exists()) == ([], False)
    await host.close()


async def test_a_lease_that_cannot_be_given_back_is_named(ssh_login: Login, namespace: str) -> None:
    host = SshHost(ssh_login)
    async with leased({"source": host}, ANNA) as left:
        # Killed, it cannot remove its file; of a session that ends it may see the end before it is ended.
        os.kill(int(lease_file(namespace).read_text().splitlines()[0]), signal.SIGKILL)
        await kill_sessions(host, namespace)
        subprocess.run(["ip", "-n", namespace, "link", "set", "dev", "lo", "down"], check=True)
    assert (left, lease_file(namespace).exists()) == ([host.name], True)
    subprocess.run(["ip", "-n", namespace, "link", "set", "dev", "lo", "up"], check=True)
    async with leased({"source": host}, ANNA) as left:
        pass
    assert (left, lease_file(namespace).exists()) == ([], False)
    await host.close()


async def test_a_lease_whose_process_was_killed_is_given_back(namespace: str) -> None:
    async with leased({"dut": NetnsHost("dut", namespace)}, ANNA) as left:
        os.kill(int(lease_file(namespace).read_text().splitlines()[0]), signal.SIGKILL)
    assert (left, lease_file(namespace).exists()) == ([], False)


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
