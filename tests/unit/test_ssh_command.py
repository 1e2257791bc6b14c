from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from capability import need_program
from dutlab.hosts.ssh_command import Head, Tail, new_mark
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
