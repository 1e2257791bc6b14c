"""Logging in to real OpenSSH servers, and what can go wrong with them; commands themselves are in test_host_conformance.py."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from capability import need_program
from dutlab.errors import CommandFailed, HostError, InputError, ToolMissing
from dutlab.hosts.private_folder import new_private_folder, private_folder, remove_private_folder
from dutlab.hosts.ssh import SshHost
from dutlab.hosts.ssh_login import Login
from dutlab.tools.engine.binary import EngineFile, engine_on, find_engine
from processes import LIMIT_S, command_lines, eventually, running_with, signalled
from refusal import refused

pytestmark = pytest.mark.timing

NOBODY = 65534


def with_config(login: Login, old: str, new: str) -> Login:
    """The same login with one word of its ssh_config changed, in a file beside it."""
    assert login.config
    text = login.config[0].read_text()
    assert old in text
    changed = login.config[0].with_name("changed")
    changed.write_text(text.replace(old, new))
    return replace(login, config=(changed,))


def folder(login: Login) -> Path:
    assert login.config
    return login.config[0].parent


def sshd_processes(namespace: str, title: str) -> list[int]:
    """Numbers of the servers inside `namespace` whose title (setproctitle of sshd) begins so."""
    return [pid for pid, line in command_lines(namespace).items() if line.startswith(title.encode())]


async def test_an_unknown_host_key_is_named_and_refused(ssh_login: Login) -> None:
    (folder(ssh_login) / "known_hosts").write_text("")
    offered = asyncssh.read_private_key(folder(ssh_login) / "host-box").get_fingerprint()
    said = await refused(ssh_login)
    assert f"box: ssh box: its host key {offered} is unknown" in said
    assert "then log in once by hand: `ssh box`" in said


async def test_a_host_key_that_changed_is_refused_as_such(ssh_login: Login) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    (folder(ssh_login) / "known_hosts").write_text(f"127.0.0.1 {other}")
    said = await refused(ssh_login)
    assert "is not the known one" in said
    assert "`ssh-keygen -R box`" in said


async def test_checking_cannot_be_switched_off_by_the_configuration(
    ssh_login: Login, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # whatever the machine's own known_hosts has
    said = await refused(with_config(ssh_login, f"UserKnownHostsFile {folder(ssh_login)}/known_hosts", "UserKnownHostsFile none"))
    assert "is unknown" in said


async def test_a_key_that_the_server_does_not_know_is_refused_with_the_ways_to_log_in(ssh_login: Login) -> None:
    (folder(ssh_login) / "authorized_keys").write_text("")
    said = await refused(ssh_login)
    assert "no key or password was accepted" in said
    assert "DUTLAB_PASSWORD_BOX" in said


async def test_a_port_where_nothing_listens_is_refused_at_once() -> None:
    said = await refused(Login("box", "root@127.0.0.1:1", ()))
    assert (
        said
        == "box: ssh root@127.0.0.1:1: refused: nothing listens there; start sshd on it, or correct the port in the testbed or ~/.ssh/config"
    )


async def test_a_key_from_the_agent_opens_the_door(ssh_login: Login, tmp_path: Path) -> None:
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", tmp_path / "agent"], stdout=subprocess.DEVNULL)
    try:
        assert eventually((tmp_path / "agent").exists)
        env = {**os.environ, "SSH_AUTH_SOCK": str(tmp_path / "agent")}
        subprocess.run(["ssh-add", "-q", folder(ssh_login) / "client"], env=env, check=True)
        (folder(ssh_login) / "client").unlink()
        login = with_config(ssh_login, "IdentityAgent none", f"IdentityAgent {tmp_path / 'agent'}")
        config = (login.config or ())[0]
        config.write_text(
            "".join(line for line in config.read_text().splitlines(keepends=True) if "Identit" not in line or "Agent" in line)
        )
        host = SshHost(login)
        assert (await host.run(["echo", "in"])).text == "in\n"
        await host.close()
    finally:
        agent.terminate()
        agent.wait()


async def test_a_jump_over_another_host_reaches_one_that_only_it_can_see(ssh_login: Login) -> None:
    config = folder(ssh_login) / "jump"
    config.write_text(
        (folder(ssh_login) / "config").read_text()
        + f"Host behind\n  HostName 127.0.0.1\n  User root\n  IdentityFile {folder(ssh_login)}/client\n  ProxyJump box\n"
        + f"  UserKnownHostsFile {folder(ssh_login)}/known_hosts\n"
    )
    host = SshHost(Login("box", "behind", (config,)))
    assert (await host.run(["sh", "-c", "echo $SSH_CONNECTION"])).text.startswith("127.0.0.1 ")
    await host.close()


async def test_what_ssh_config_includes_and_matches_counts(ssh_login: Login, tmp_path: Path) -> None:
    text = (folder(ssh_login) / "config").read_text()
    (folder(ssh_login) / "of-the-site").write_text(text.replace("Host box", "Match originalhost box-*").replace("  User root\n", ""))
    config = folder(ssh_login) / "including"
    config.write_text(
        f'Include {folder(ssh_login)}/of-*\nMatch originalhost box-* exec "test -e {tmp_path}/on-site"\n  User nobody-here\n'
        "Match all\n  User root\n"
    )
    host = SshHost(Login("box", "box-7", (config,)))
    assert (await host.run(["id", "-un"])).text == "root\n"
    await host.close()
    (tmp_path / "on-site").touch()
    assert "box-7" in await refused(Login("box", "box-7", (config,)))  # the first that says something counts


async def test_an_ipv6_literal_is_an_address_with_or_without_a_port(ipv6_config: Path) -> None:
    ipv6_config.write_text(ipv6_config.read_text().replace("Host box", "Host ::1"))
    for target in ("root@[::1]", "root@[::1]:22", "[::1]:22"):
        host = SshHost(Login("box", target, (ipv6_config,)))
        assert (await host.run(["sh", "-c", "echo $SSH_CONNECTION"])).text.startswith("::1 ")
        await host.close()
    assert "[::1]:1: " in await refused(Login("box", "root@[::1]:1", ()))


async def test_what_a_login_script_prints_is_not_the_output_of_commands(ssh_login: Login, tmp_path: Path) -> None:
    with (folder(ssh_login) / "authorized_keys").open("r+") as f:
        key = f.read()
        f.seek(0)  # a forced command may do as a login script does: print, then run what was asked for
        f.write(f'command="echo welcome; echo mail >&2; eval \\"$SSH_ORIGINAL_COMMAND\\"" {key}')
    host = SshHost(ssh_login)
    done = await host.run(["sh", "-c", "echo out; echo err >&2"])
    assert (done.stdout, done.stderr, done.status) == (b"out\n", b"err\n", 0)
    await host.close()


async def test_a_login_that_runs_no_commands_says_so(ssh_login: Login) -> None:
    keys = folder(ssh_login) / "authorized_keys"
    keys.write_text('command="echo This account is not available; exit 1" ' + keys.read_text())
    assert "This account is not available" in await refused(ssh_login)


async def test_more_commands_at_once_than_sshd_allows_wait_for_each_other(ssh_login: Login) -> None:
    host = SshHost(ssh_login)
    done = await asyncio.gather(*(host.run(["sh", "-c", f"sleep 0.1; echo {i}"]) for i in range(25)))  # MaxSessions is 10
    assert [d.text for d in done] == [f"{i}\n" for i in range(25)]
    await host.close()


async def test_sudo_that_asks_fails_at_once_with_what_to_do(ssh_login: Login) -> None:
    need_program("sudo")
    host = SshHost(ssh_login)
    with pytest.raises(CommandFailed, match="NOPASSWD in sudoers"):
        await host.run(["setpriv", f"--reuid={NOBODY}", "--clear-groups", "sudo", "true"], timeout_s=LIMIT_S)
    await host.close()


async def test_a_server_that_is_killed_in_mid_command_is_named_and_the_next_command_finds_it_again(
    ssh_login: Login, namespace: str, marker: str
) -> None:
    host = SshHost(ssh_login)
    await host.run(["true"])
    running = asyncio.ensure_future(host.run(["sleep", marker]))
    assert await asyncio.to_thread(eventually, lambda: running_with(marker) != [])
    while not (host._link and host._link._running):
        await asyncio.sleep(0.01)
    await host.run(["true"])  # one connection keeps the order: by now the keeper has the other command's number
    for pid in sshd_processes(namespace, "sshd: root"):
        signalled(pid, 9)
    with pytest.raises(HostError, match=rf"the connection was lost .* while `sleep {marker}` ran, its progress is unknown"):
        await running
    assert await asyncio.to_thread(eventually, lambda: running_with(marker) == [])  # the keeper over there ended it
    assert (await host.run(["echo", "again"])).text == "again\n"
    await host.close()


async def test_what_a_server_that_missed_the_loss_still_runs_is_ended_at_the_next_connection(
    ssh_login: Login, namespace: str, marker: str
) -> None:
    host = SshHost(ssh_login)
    await host.spawn(["sleep", marker])
    assert await asyncio.to_thread(eventually, lambda: running_with(marker) != [])
    (server,) = sshd_processes(namespace, "sshd: root@")
    os.kill(server, 19)  # stopped: as if its cable were pulled
    assert host._link is not None
    host._link._connection.abort()
    await asyncio.sleep(0.1)
    assert running_with(marker)
    assert (await host.run(["echo", "again"])).text == "again\n"
    assert await asyncio.to_thread(eventually, lambda: running_with(marker) == [])
    os.kill(server, 18)
    await host.close()


async def test_nothing_is_left_over_there_after_close(ssh_login: Login, namespace: str) -> None:
    host = SshHost(ssh_login)
    await host.spawn(["sleep", "600"])
    await host.close()
    assert await asyncio.to_thread(eventually, lambda: sshd_processes(namespace, "sshd: root") == [])
    assert await asyncio.to_thread(
        eventually, lambda: len(subprocess.run(["ip", "netns", "pids", namespace], capture_output=True).stdout.split()) == 1
    )


async def test_the_engine_is_copied_checked_and_removed(ssh_login: Login, tmp_path: Path) -> None:
    engine, host = await EngineFile.read(find_engine()), SshHost(ssh_login)
    async with engine_on(host, engine, private_folder(host, new_private_folder())) as path:
        assert Path(path).read_bytes() == engine.data
        assert "dutlab-engine" in (await host.run([path, "--version"])).text
        async with engine_on(host, engine, private_folder(host, new_private_folder())) as again:
            assert Path(again).read_bytes() == engine.data
            assert again != path
    assert not Path(path).parent.exists()
    await host.close()


async def test_no_other_user_can_reach_the_engine_that_is_run(ssh_login: Login) -> None:
    """An ordinary user of the host who knows our version puts a genuine engine where ours would lie, to rename it after it was checked."""
    engine, host = await EngineFile.read(find_engine()), SshHost(ssh_login)
    planted = Path("/var/tmp") / f"dutlab-engine-{engine.sha256[:16]}"
    planted.write_bytes(engine.data)
    planted.chmod(0o755)
    os.chown(planted, NOBODY, NOBODY)
    try:
        async with engine_on(host, engine, private_folder(host, new_private_folder())) as path:
            for place in (Path(path), Path(path).parent):
                assert (place.stat().st_uid, place.stat().st_mode & 0o077) == (os.getuid(), 0)
            tries = [
                ["mv", path, f"{path}-2"],
                ["mv", str(Path(path).parent), "/var/tmp/away"],
                ["cat", path],
                ["ls", str(Path(path).parent)],
            ]
            for argv in tries:
                assert subprocess.run(argv, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, check=False).returncode != 0
    finally:
        planted.unlink()
    await host.close()


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
async def test_a_private_folder_is_made_by_us_or_not_at_all(ssh_login: Login, tmp_path: Path, kind: str) -> None:
    host, path = SshHost(ssh_login), Path(new_private_folder())
    if kind == "link":
        path.symlink_to(tmp_path)
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(HostError, match="cannot make the folder"):
        async with private_folder(host, str(path)):
            pytest.fail("it is somebody else's")
    path.rmdir() if kind == "folder" else path.unlink()
    await host.close()


async def test_only_a_folder_of_ours_is_ever_removed(ssh_login: Login, tmp_path: Path) -> None:
    host = SshHost(ssh_login)
    for path in (str(tmp_path), "/", "/var/tmp", "/var/tmp/dutlab-../../../etc", f"{new_private_folder()}/..", f"{new_private_folder()}\n"):
        with pytest.raises(InputError, match="not a folder of dutlab's"):
            await remove_private_folder(host, path)
    await host.close()


async def test_an_engine_that_cannot_run_there_says_so(ssh_login: Login, tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"#!/no/such/interpreter\n")
    host, path = SshHost(ssh_login), new_private_folder()
    with pytest.raises(ToolMissing, match=r"box: the copied engine does not run: .*install the engine there by hand"):
        async with engine_on(host, await EngineFile.read(tmp_path / "broken"), private_folder(host, path)):
            pass
    assert not Path(path).exists()
    await host.close()
