"""How commands become root's on a DUT, and what is said where they may not."""

from __future__ import annotations

import pytest

from dutlab.dut.privilege import Root
from dutlab.errors import HostError
from transcript import TranscriptHost

# sudo(8) -n and doas(1) -n; the messages are those of their sources (sudo: auth/sudo_auth.c, doas.c)
NOBODY = "$ id -u\n> 1000\n"
NO_DOAS = "$ doas -n true\n= 127\n"
NO_SUDO = "$ sudo -n true\n= 127\n"
ASKING_SUDO = "$ sudo -n true\n! sudo: a password is required\n= 1\n"
ASKING_DOAS = "$ doas -n true\n! doas: Authorization required\n= 1\n"


@pytest.mark.parametrize(
    ("transcript", "prefix"),
    [
        ("$ id -u\n> 0\n", ()),
        (f"{NOBODY}$ doas -n true\n", ("doas", "-n")),
        (f"{NOBODY}{NO_DOAS}$ sudo -n true\n", ("sudo", "-n")),
        (f"{NOBODY}{ASKING_DOAS}$ sudo -n true\n", ("sudo", "-n")),
    ],
)
async def test_root_is_had_by_what_the_host_has(transcript: str, prefix: tuple[str, ...]) -> None:
    root = await Root.on(TranscriptHost("dut", transcript))
    assert root.prefix == prefix
    assert root.step("pfctl", "-d", why="off").argv == (*prefix, "pfctl", "-d")


@pytest.mark.parametrize(
    ("transcript", "said"),
    [
        (f"{NOBODY}{NO_DOAS}{ASKING_SUDO}", "NOPASSWD in sudoers"),
        (f"{NOBODY}{ASKING_DOAS}{NO_SUDO}", "nopass in doas.conf"),
        (f"{NOBODY}{NO_DOAS}{NO_SUDO}", "log in as root"),
    ],
)
async def test_a_password_that_would_be_asked_for_is_named_with_what_to_do(transcript: str, said: str) -> None:
    with pytest.raises(HostError) as refused:
        await Root.on(TranscriptHost("dut", transcript))
    assert said in refused.value.remedy and refused.value.host == "dut"


async def test_a_command_carries_the_prefix_and_its_standard_input() -> None:
    host = TranscriptHost("dut", f"{NOBODY}$ doas -n true\n$ doas -n pfctl -f -\n< pass\n$ doas -n sysctl -n no.such\n! unknown oid\n= 1\n")
    root = await Root.on(host)
    await root.run(["pfctl", "-f", "-"], stdin="pass\n")
    assert await root.value(["sysctl", "-n", "no.such"]) is None
