"""Why a program failed, in what real programs print."""

from __future__ import annotations

from pathlib import Path

import pytest

from dutlab.reason import MOST, reason_in

WITHOUT_NETMAP = (Path(__file__).parents[1] / "data" / "pkt-gen" / "without-netmap.txt").read_text()
TRACEBACK = """Traceback (most recent call last):
  File "trex_client.py", line 40, in connect
    self.api = importlib.import_module("trex.stl.api")
ModuleNotFoundError: No module named 'trex'
bye
"""
ARGPARSE = "usage: x [-h] --size SIZE\n  -h, --help   show this message, which has no error in it\nx: error: argument --size: invalid int value: 'a'\n"
NFT = "/dev/stdin:3:1-9: Error: Could not process rule: No such file or directory\nadd rule ip x y drop\n            ^\n"
FIO = "warning: a bad option was ignored\nfio: pid=5509, err=5/file:io_u.c:1896, func=io_u error, error=Input/output error\nRun status group 0\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (WITHOUT_NETMAP, "/dev/netmap: No such file or directory"),
        (TRACEBACK, "ModuleNotFoundError: No module named 'trex'"),
        (ARGPARSE, "x: error: argument --size: invalid int value: 'a'"),
        (NFT, "/dev/stdin:3:1-9: Error: Could not process rule: No such file or directory"),
        (FIO, "fio: pid=5509, err=5/file:io_u.c:1896, func=io_u error, error=Input/output error"),
        ("one\n  two\n", "one two"),
        ("", ""),
        (" \n\n", ""),
    ],
)
def test_the_line_that_says_it_is_found(text: str, reason: str) -> None:
    assert reason_in(text) == reason


def test_a_long_line_is_cut_and_of_a_text_without_a_reason_the_end_is_told() -> None:
    assert len(reason_in(f"cannot open {'x' * 500}\n")) == MOST
    assert reason_in("a " * 500 + "end").endswith(" a end")
