""""""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from capability import need_program
from dutlab.errors import HostError
from dutlab.hosts.ssh import SshHost
from dutlab.hosts.ssh_command import Head, Tail, new_mark
from dutlab.hosts.ssh_login import Login
from dutlab.systems.posix import command_line

MARK = b"\x1e0123456789abcdef:"
LIKE_MARKS = st.lists(st.binary(max_size=20) | st.sampled_from([b"\x1e", b"\x1e\n", b"\x1e7\n", MARK[:5], MARK[:-1]]), max_size=9).map(
    b"".join
)
"""What a login script or a command may print: anything but the mark, which nobody can foresee, and its beginnings too."""
ARGV = ["printf", "%s|", "a b", "", "*", "$HOME", "'", '"', "\\", "ä", "-n", "new\nline", "!!", "`id`"]


@pytest.mark.parametrize("shell", ["sh", "bash", "csh", "tcsh", "fish", "zsh", "busybox"])
def test_any_login_shell_hands_the_arguments_on_untouched(shell: str) -> None:
    need_program(shell)
    argv = [shell, "sh"] if shell == "busybox" else [shell]
    # As sshd does it: a session of its own, since the script ends with the end of its whole process group.
    done = subprocess.run([*argv, "-c", command_line(ARGV, MARK)], capture_output=True, start_new_session=True)
    assert re.fullmatch(re.escape(MARK) + rb"\d+\n(?P<out>.*)", done.stdout, re.DOTALL)["out"].decode().split("|")[:-1] == ARGV[2:]
    assert done.stderr == MARK + b"\n" + MARK + b"0\n"


def test_the_line_holds_nothing_that_csh_reads_inside_quotes() -> None:
    inner = command_line(ARGV, MARK).partition('"$(printf %b "')[2].partition('")"')[0]
    assert re.fullmatch(r"[A-Za-z0-9/._\-+,:= ]*(\\0[0-7]{3}[A-Za-z0-9/._\-+,:= ]*)*", inner)


def test_a_program_that_is_not_there_is_told_by_a_group_of_minus() -> None:
    done = subprocess.run(["sh", "-c", command_line(["dutlab-no-such"], MARK)], capture_output=True, start_new_session=True)
    assert (done.stdout, done.stderr) == (MARK + b"-\n", MARK + b"\n" + MARK + b"127\n")


@settings(max_examples=40)
@given(noise=LIKE_MARKS, body=LIKE_MARKS, cut=st.integers(0, 300))
def test_a_head_drops_what_came_before_it_however_the_bytes_are_cut(noise: bytes, body: bytes, cut: int) -> None:
    assume(MARK not in noise)  # a mark is drawn anew for each command, so nothing before it knows it
    whole, head = noise + MARK + b"4711\n" + body, Head(MARK)
    assert head.take(whole[:cut]) + head.take(whole[cut:]) == body
    assert (head.line, head.noise) == (b"4711", noise)


@settings(max_examples=40)
@given(body=LIKE_MARKS, cuts=st.lists(st.integers(0, 50), max_size=4))
def test_a_tail_takes_the_status_out_and_leaves_the_rest_however_the_bytes_are_cut(body: bytes, cuts: list[int]) -> None:
    assume(MARK not in body)
    told: list[int] = []
    tail, whole, got = Tail(MARK, told.append), body + MARK + b"137\n", b""
    for cut in cuts:
        got, whole = got + tail.take(whole[:cut]), whole[cut:]
    got += tail.take(whole) + tail.rest()
    assert (got, told) == (body, [137])


def test_each_command_has_a_mark_of_its_own() -> None:
    assert len({new_mark() for _ in range(100)}) == 100


# ---- What keeps ssh from logging in although no host was reached yet


async def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host router\n  HostName 127.0.0.1\n  IdentityFile {tmp_path}/absent\n")
    host = SshHost(Login("dut", "router", (config,)))
    with pytest.raises(HostError, match=f"{tmp_path}/absent") as refused:
        await host.run(["true"])
    assert refused.value.host == "dut" and "IdentityFile" in refused.value.remedy
    await host.close()


async def test_a_proxy_command_that_ends_by_itself_is_waited_for_once_and_nobody_warns(tmp_path, caplog):
    (config := tmp_path / "config").write_text("Host router\n  HostName 127.0.0.1\n  ProxyCommand sh -c 'exit 3'\n")
    filters = logging.getLogger("asyncio").filters
    for _ in range(5):
        host = SshHost(Login("dut", "router", (config,)))
        with pytest.raises(HostError, match="dut: ssh router"):
            await host.run(["true"])
        await host.close()
    assert not filters
    assert not [record.getMessage() for record in caplog.records if "child process" in record.getMessage()]
    assert not _ended_children()


def _ended_children():
    """Children that nobody has waited for."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            found += [stat.parent.name] if (state, parent) == ("Z", str(os.getpid())) else []
    return found
