"""What every host must do, whatever reaches it. A new kind of host is one more parameter."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import subprocess
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capability import have_root, need
from dutlab.errors import CommandFailed, CommandSaidTooMuch, CommandTimedOut, HostError
from dutlab.hosts.host import Done, Host
from dutlab.hosts.local import LocalHost
from dutlab.hosts.netns import NamespaceGone, NetnsHost
from dutlab.hosts.private_folder import held_folder
from dutlab.hosts.ssh import SshHost
from processes import LIMIT_S, children, eventually, running_with, signalled

pytestmark = pytest.mark.timing


@pytest.fixture
def log() -> list[Done]:
    return []


@pytest.fixture(params=["local", "netns", "ssh"])
def made(request: pytest.FixtureRequest, log: list[Done]) -> Host:
    if request.param == "ssh":
        return SshHost(request.getfixturevalue("door"), log.append)
    return LocalHost("box", log.append) if request.param == "local" else NetnsHost("box", request.getfixturevalue("namespace"), log.append)


@pytest.fixture
async def host(made: Host) -> AsyncIterator[Host]:
    yield made
    await made.close()


async def test_a_command_reports_its_output_status_and_time(host: Host) -> None:
    done = await host.run(["sh", "-c", "echo out; echo err >&2; sleep 0.1; exit 3"], check=False)
    assert (done.status, done.stdout, done.stderr, done.host) == (3, b"out\n", b"err\n", "box")
    assert 0.09 <= done.seconds < 60  # two clocks: `sleep` may wake a little early by the other
    assert done.argv[0] == "sh"


async def test_a_status_other_than_0_is_an_error_that_says_what_the_command_said(host: Host) -> None:
    with pytest.raises(CommandFailed) as caught:
        await host.run(["sh", "-c", "echo no such luck >&2; exit 4"])
    assert (caught.value.status, caught.value.host, caught.value.stderr_tail.strip()) == (4, "box", "no such luck")


async def test_a_command_that_a_signal_ended_failed(host: Host) -> None:
    done = await host.run(["sh", "-c", "kill -9 $$"], check=False)
    assert done.status != 0


async def test_arguments_arrive_untouched(host: Host) -> None:
    strange = ["a b", "", "*", "$HOME", "'", '"', "\\", "ä", "-n", "new\nline"]
    done = await host.run(["printf", "%s\\0", *strange])
    assert done.stdout.decode().split("\0")[:-1] == strange


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=5000))
def test_any_bytes_go_in_and_come_out_unchanged(data: bytes) -> None:
    done = asyncio.run(LocalHost("box").run(["cat"], stdin=data))
    assert done.stdout == data


async def test_large_binary_output_arrives_whole(host: Host) -> None:
    data = os.urandom(2**20) * 20
    assert (await host.run(["cat"], stdin=data, most_bytes=len(data))).stdout == data
    with pytest.raises(CommandSaidTooMuch) as refused:
        await host.run(["cat"], stdin=data, most_bytes=len(data) - 7)
    assert (refused.value.most_bytes, refused.value.dropped_bytes) == (len(data) - 7, 7)


async def test_much_output_on_both_streams_does_not_block(host: Host) -> None:
    done = await host.run(["sh", "-c", "head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero"])
    assert (len(done.stdout), len(done.stderr)) == (3_000_000, 3_000_000)


async def test_a_command_need_not_read_its_input(host: Host) -> None:
    assert (await host.run(["true"], stdin=bytes(5_000_000))).status == 0


async def test_a_command_without_input_sees_its_end(host: Host) -> None:
    assert (await host.run(["cat"], timeout_s=LIMIT_S)).stdout == b""


async def test_a_command_that_takes_too_long_is_ended_with_all_its_children(host: Host, marker: str, log: list[Done]) -> None:
    with pytest.raises(CommandTimedOut) as caught:
        await host.run(["sh", "-c", f"sleep {marker} & (sleep {marker}) & trap '' TERM; sleep {marker}; sleep {marker}"], timeout_s=0.3)
    assert caught.value.timeout_s == 0.3
    assert running_with(marker) == []
    assert len(log) == 1


async def test_children_do_not_outlive_the_command_that_left_them(host: Host, marker: str) -> None:
    done = await host.run(["sh", "-c", f"sleep {marker} & echo started"], timeout_s=LIMIT_S)
    assert done.stdout == b"started\n"
    assert done.seconds < 60  # the child holds the pipe open; that is not a reason to wait
    assert eventually(lambda: running_with(marker) == [])


async def test_nobody_waits_for_the_children_of_a_command_that_was_over_at_once(marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    look = os.getsid

    def late(pid: int) -> int:
        eventually(lambda: not Path(f"/proc/{pid}").exists(), within_s=10.0)  # a thread of asyncio collects it, in Python 3.11
        return look(pid)

    monkeypatch.setattr(os, "getsid", late)
    async with asyncio.timeout(LIMIT_S / 10):
        done = await LocalHost("box").run(["sh", "-c", f"sleep {marker} & echo started; exit 3"], check=False)
    assert (done.status, done.stdout) == (3, b"started\n")
    assert eventually(lambda: running_with(marker) == [])


async def test_a_child_that_left_the_group_costs_neither_the_output_nor_the_time(host: Host, marker: str) -> None:
    done = await host.run(["sh", "-c", f"echo out; echo err >&2; setsid sleep {marker} & sleep 0.2"], timeout_s=LIMIT_S)
    for pid in running_with(marker):
        signalled(pid, signal.SIGKILL)
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    assert done.seconds < 60


async def test_a_cancelled_command_is_ended(host: Host, marker: str) -> None:
    running = asyncio.ensure_future(host.run(["sh", "-c", f"sleep {marker} & sleep {marker}"]))
    while len(running_with(marker)) < 2:
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert eventually(lambda: running_with(marker) == [])


async def test_a_command_that_is_cancelled_while_it_starts_is_ended_too(log: list[Done], marker: str) -> None:
    running = asyncio.ensure_future(LocalHost("box", log.append).run(["sh", "-c", f"sleep {marker} & sleep {marker}"]))
    while len(running_with(marker)) < 2:
        await asyncio.sleep(0)  # the process is made in one turn of the loop, its pipes are connected in later ones
        if children():
            while len(running_with(marker)) < 2:
                time.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(LIMIT_S):
            await running
    assert eventually(lambda: running_with(marker) == [])


async def test_a_missing_program_is_named_with_what_to_do(host: Host, log: list[Done]) -> None:
    with pytest.raises(CommandFailed) as caught:
        await host.run(["dutlab-no-such", "-x"])
    assert caught.value.status == 127
    assert "install dutlab-no-such on box" in caught.value.remedy
    assert (await host.run(["dutlab-no-such"], check=False)).status == 127
    with pytest.raises(HostError, match="no such program"):
        await host.spawn(["dutlab-no-such"])
    assert [d.status for d in log] == [127, 127, 127]


async def test_programs_speak_one_language_without_colours(host: Host) -> None:
    assert (await host.run(["sh", "-c", "echo $LC_ALL $NO_COLOR"])).text == "C 1\n"


async def test_every_command_is_logged_also_those_that_failed(host: Host, log: list[Done]) -> None:
    await host.run(["true"])
    await host.run(["false"], check=False)
    await (await host.spawn(["sleep", "60"])).end()
    assert [(d.argv[0], d.status) for d in log[:2]] == [("true", 0), ("false", 1)]
    assert log[2].argv == ("sleep", "60")
    assert log[2].status != 0
    assert all(d.started_s > 1e9 for d in log)


async def test_a_spawned_process_talks_line_by_line(host: Host) -> None:
    process = await host.spawn(["cat"])
    await process.write(b"one\ntwo\n")
    assert [await process.readline(), await process.readline()] == [b"one\n", b"two\n"]
    await process.write(b"rest")
    await process.close_stdin()
    done = await process.wait(LIMIT_S)
    assert (done.status, done.stdout) == (0, b"rest")
    assert await process.readline() == b""
    assert (process.argv, process.host_name) == (("cat",), "box")


async def test_a_line_of_many_megabytes_is_read_whole(host: Host) -> None:
    process = await host.spawn(["sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x; echo"])
    assert len(await process.readline()) == 5_000_001
    assert (await process.wait(LIMIT_S)).status == 0


async def test_a_process_that_ignores_sigterm_is_killed_after_its_grace(host: Host, marker: str) -> None:
    process = await host.spawn(["sh", "-c", f"trap '' TERM; echo ready; sleep {marker} & while :; do sleep 0.05; done"])
    await process.readline()
    done = await process.end(grace_s=0.2)
    assert done.status in (-signal.SIGKILL, 128 + signal.SIGKILL)
    assert eventually(lambda: running_with(marker) == [])


async def test_a_process_may_clean_up_when_it_is_ended(host: Host) -> None:
    process = await host.spawn(["sh", "-c", "trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.02; done"])
    await process.readline()
    done = await process.end()
    assert (done.status, done.stdout) == (0, b"cleaned\n")


async def test_ending_twice_is_harmless(host: Host, log: list[Done]) -> None:
    process = await host.spawn(["sleep", "60"])
    first, second = await asyncio.gather(process.end(), process.end())
    assert first == second == await process.end() == await process.wait(LIMIT_S)
    assert len(log) == 1


async def test_a_process_can_be_ended_while_somebody_reads_from_it(host: Host) -> None:
    process = await host.spawn(["sh", "-c", "echo line; exec sleep 60"])
    assert await process.readline() == b"line\n"
    reading = asyncio.ensure_future(process.readline())
    await asyncio.sleep(0.05)
    await process.end()
    assert await reading == b""


async def test_writing_to_an_ended_process_says_so(host: Host) -> None:
    process = await host.spawn(["true"])
    await process.wait(LIMIT_S)
    with pytest.raises(HostError, match="takes no more input"):
        await process.write(b"x")


async def test_waiting_too_long_for_a_process_ends_it(host: Host, marker: str) -> None:
    process = await host.spawn(["sleep", marker])
    with pytest.raises(CommandTimedOut):
        await process.wait(0.2)
    assert running_with(marker) == []


async def test_close_ends_all_that_was_left_running(host: Host, marker: str) -> None:
    for _ in range(3):
        await host.spawn(["sh", "-c", f"sleep {marker} & sleep {marker}"])
    await host.close()
    assert eventually(lambda: running_with(marker) == [])


async def test_put_and_get_carry_a_file_with_its_mode(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "file with space"
    data = bytes(range(256)) * 1000
    await host.put(data, str(path), mode=0o640)
    assert await host.get(str(path)) == data
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    await host.put(b"new", str(path))
    assert (await host.get(str(path)), [p.name for p in tmp_path.iterdir()]) == (b"new", [path.name])


async def test_put_says_when_there_is_no_such_folder(host: Host, tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"box: cannot write .*/absent/file: No such file"):
        await host.put(b"x", str(tmp_path / "absent" / "file"))


async def test_put_on_a_full_disk_leaves_the_old_file_and_says_what_to_do(host: Host, tmp_path: Path) -> None:
    need("root", have_root())
    # sshd keeps the mounts that it was started with, and all of its sessions see them; for the others a mount is the machine's.
    machine = host if isinstance(host, SshHost) else LocalHost("machine")
    await machine.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)])
    try:
        await host.put(b"old", str(tmp_path / "f"))
        with pytest.raises(HostError, match="No space left on device; free space"):
            await host.put(bytes(1_000_000), str(tmp_path / "f"))
        assert (await host.run(["ls", "-A", str(tmp_path)])).text == "f\n"
        assert await host.get(str(tmp_path / "f")) == b"old"
    finally:
        await machine.run(["umount", str(tmp_path)])


async def test_getting_a_file_that_is_not_there_says_so(host: Host, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="No such file"):
        await host.get(str(tmp_path / "absent"))


def test_everything_ends_when_the_controller_is_killed(made: Host, marker: str, python: str, python_env: dict[str, str]) -> None:
    match made:
        case SshHost(login=login):
            how = f"SshHost(Login('box', 'box', (Path({str(login.config[0])!r}),)))" if login.config else ""
        case NetnsHost(namespace=namespace):
            how = f"NetnsHost('box', {namespace!r})"
        case _:
            how = "LocalHost('box')"
    script = f"""
        import asyncio, sys
        from pathlib import Path
        from dutlab.hosts.local import LocalHost
        from dutlab.hosts.netns import NamespaceGone, NetnsHost
        from dutlab.hosts.ssh import SshHost
        from dutlab.hosts.ssh_login import Login
        async def main():
            host = {how}
            await host.spawn(["sh", "-c", "sleep {marker} & sleep {marker} | sleep {marker}"])
            print("ready", flush=True)
            running = asyncio.ensure_future(host.run(["sh", "-c", "sleep {marker} & sleep {marker}"], timeout_s=600))
            await asyncio.to_thread(sys.stdin.readline)
            for _ in range(2):  # over ssh one connection keeps the order: by now the keeper has the numbers of both groups
                await host.run(["true"])
            print("known", flush=True)
            await running
        asyncio.run(main())
    """
    pipe = subprocess.PIPE
    with subprocess.Popen([python, "-c", textwrap.dedent(script)], stdin=pipe, stdout=pipe, env=python_env) as controller:
        assert controller.stdin and controller.stdout and controller.stdout.readline() == b"ready\n"
        assert eventually(lambda: len(running_with(marker)) >= 5)
        controller.stdin.write(b"\n")
        controller.stdin.flush()
        assert controller.stdout.readline() == b"known\n"
        controller.send_signal(signal.SIGKILL)
    assert eventually(lambda: running_with(marker) == [])


async def test_a_namespace_that_vanished_is_no_fault_of_the_command(namespace: str, log: list[Done]) -> None:
    host = NetnsHost("dut", namespace, log.append)
    await host.run(["true"])
    subprocess.run(["ip", "netns", "del", namespace], check=True)
    for attempt in (host.run(["true"]), host.run(["true"], check=False), host.spawn(["true"]), host.get("/proc/version")):
        with pytest.raises(NamespaceGone) as caught:
            await attempt
        assert caught.value.host == "dut"


async def test_a_namespace_whose_name_lost_its_mount_has_vanished_too(namespace: str) -> None:
    subprocess.run(["umount", f"/run/netns/{namespace}"], check=True)
    with pytest.raises(NamespaceGone):
        await NetnsHost("dut", namespace).run(["true"])


async def test_a_namespace_shows_its_own_network_and_the_files_of_the_machine(namespace: str, tmp_path: Path) -> None:
    host = NetnsHost("dut", namespace)
    assert (await host.run(["ls", "/sys/class/net"])).text.split() == ["lo"]
    await host.put(b"here", str(tmp_path / "f"))
    assert (tmp_path / "f").read_bytes() == b"here"


async def test_who_is_cancelled_while_closing_the_input_leaves_it_closed_for_the_next(host: Host) -> None:
    process = await host.spawn(["sh", "-c", "trap '' TERM; exec cat >/dev/null"])
    for _ in range(3):
        closing = asyncio.ensure_future(process.close_stdin())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
    await process.close_stdin()
    assert (await process.wait(LIMIT_S)).status == 0
    await process.close_stdin()


@pytest.mark.parametrize("made", ["local", "ssh"], indirect=True)
def test_a_held_folder_goes_with_whoever_held_it_however_that_ends(made: Host) -> None:
    """As the copy of the engine of a `dutlab calibrate` that is killed, which has no journal."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            asyncio.run(_hold(made, tell))
        os._exit(1)
    os.close(tell)
    with os.fdopen(told) as f:
        path = Path(f.readline().strip())
    try:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert (path / "file").read_text() == "ours"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert eventually(lambda: not path.exists())


async def _hold(host: Host, tell: int) -> None:
    async with held_folder(host) as path:
        await host.put(b"ours", f"{path}/file")
        os.write(tell, f"{path}\n".encode())
        await asyncio.sleep(600)


async def test_a_held_folder_is_gone_when_it_was_let_go(host: Host) -> None:
    async with held_folder(host) as path:
        await host.put(b"ours", f"{path}/file")
    assert not Path(path).exists()
