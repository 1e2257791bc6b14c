"""Commands through login shells that are not plain sh: they arrive, they end with all their children, or they are refused with a reason."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import login_shells
import password_sshd
from capability import need_program
from dutlab.errors import CommandTimedOut, HostError
from dutlab.hosts.ssh import SshHost
from dutlab.hosts.ssh_login import Login
from processes import eventually, running_with

pytestmark = pytest.mark.timing

each_shell = pytest.mark.parametrize("shell", login_shells.RUN_COMMANDS)
WORDS = ["a b", "", "*", "$HOME", "'", '"', "\\", "ä", "-n", "new\nline", "!!", "`id`", "%PATH%", "$(id)", "~"]


@pytest.fixture
def behind(namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], SshHost]]:
    subprocess.run(["ip", "-n", namespace, "link", "set", "dev", "lo", "up"], check=True)

    def log_in(shell: str) -> SshHost:
        need_program("sshd")
        if shell in login_shells.PROGRAMS:
            need_program(login_shells.PROGRAMS[shell])
        folder: Path = tmp_path_factory.mktemp("ssh") / "files"
        return SshHost(Login("box", "box", (login_shells.start(folder, namespace, shell),)))

    yield log_in
    password_sshd.stop(namespace)


@each_shell
async def test_arguments_input_output_and_status_arrive_as_meant(behind: Callable[[str], SshHost], shell: str) -> None:
    host = behind(shell)
    said = await host.run(["printf", "%s|", *WORDS])
    assert said.text.split("|")[:-1] == WORDS
    done = await host.run(["sh", "-c", "cat; echo wrong >&2; exit 7"], stdin=bytes(range(256)), check=False)
    assert (done.stdout, done.stderr, done.status) == (bytes(range(256)), b"wrong\n", 7)
    await host.close()


@each_shell
async def test_a_command_that_takes_too_long_and_one_that_leaves_children_end_with_all_of_them(
    behind: Callable[[str], SshHost], shell: str, marker: str
) -> None:
    host = behind(shell)
    with pytest.raises(CommandTimedOut):
        await host.run(["sh", "-c", f"sleep {marker} & sleep {marker}"], timeout_s=1)
    assert await asyncio.to_thread(eventually, lambda: running_with(marker) == [])
    assert (await host.run(["sh", "-c", f"sleep {marker} >/dev/null 2>&1 & echo left"])).text == "left\n"
    assert await asyncio.to_thread(eventually, lambda: running_with(marker) == [])
    process = await host.spawn(["sleep", marker])
    assert await asyncio.to_thread(eventually, lambda: running_with(marker) != [])
    await process.end()
    assert await asyncio.to_thread(eventually, lambda: running_with(marker) == [])
    await host.close()


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("rc.initial-2.4.5", r"its shell may split commands at blanks, as the login shell of pfSense 2.4.5 and older does"),
        ("rbash", r"restricted.*; check that this user may run commands there, in an ordinary shell of a Unix"),
        ("cmd", r"'exec' is not recognized as an internal or external command"),
        ("powershell", r"The term 'exec' is not recognized"),
    ],
)
async def test_a_shell_that_cannot_carry_commands_is_refused_with_its_words(
    behind: Callable[[str], SshHost], shell: str, said: str
) -> None:
    host = behind(shell)
    with pytest.raises(HostError, match=f"(?s)the login shell did not run the command; .*{said}"):
        await host.run(["true"])
    await host.close()
