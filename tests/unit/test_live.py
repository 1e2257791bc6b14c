"""What is told of a program while it works: each line, to its end, in its time."""

from __future__ import annotations

import pytest

from dutlab.errors import CommandTimedOut
from dutlab.hosts.local import LocalHost
from dutlab.tools.live import received_rate, run_heard

HERE = LocalHost("here")


async def test_each_line_is_heard_also_those_that_renew_one_and_the_status_is_kept() -> None:
    heard: list[str] = []
    done = await run_heard(HERE, ["sh", "-c", "printf 'one\\rtwo\\nthree\\n'; echo why >&2; exit 3"], heard.append, timeout_s=60)
    assert [line for line in heard if line] == ["one", "two", "three"]
    assert (done.status, done.complaint) == (3, "why")


async def test_a_line_without_an_end_does_not_fill_the_memory_and_standard_input_is_closed() -> None:
    heard: list[str] = []
    done = await run_heard(HERE, ["sh", "-c", "head -c 300000 /dev/zero; printf '\\nend\\n'; cat"], heard.append, timeout_s=60)
    assert done.status == 0 and heard[-1] == "end" and max(map(len, heard)) < 300_000


async def test_a_program_that_does_not_end_in_time_is_ended() -> None:
    with pytest.raises(CommandTimedOut, match=r"0\.2 s"):
        await run_heard(HERE, ["sh", "-c", "echo why >&2; sleep 600"], lambda _: None, timeout_s=0.2)


async def test_an_interface_that_is_not_there_costs_nothing_and_tells_nothing() -> None:
    told: list[str] = []
    async with received_rate(HERE, "nowhere0", "a", "iperf3", lambda where, who, values: told.append(where)):
        done = await HERE.run(["true"])
    assert done.status == 0 and told == []
