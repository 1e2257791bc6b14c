"""Each system's ping that may not be fragmented: the very command, and what its answer means."""

from __future__ import annotations

import pytest

from dutlab.errors import MeasurementError
from dutlab.tools.ping_words import hint, words_of
from transcript import TranscriptHost

FAR, FAR6 = "172.16.10.2", "2001:db8:1::2"


@pytest.mark.parametrize("family", ["linux", "vyos", "freebsd", "freebsd-pf", "pfsense", "openbsd", "openbsd-pf", "windows"])
async def test_a_narrow_router_is_told_by_every_system(family: str) -> None:
    host, words = TranscriptHost.of("pings"), words_of(family)
    too_large = await host.run(words.argv(4, 8972, FAR), check=False)
    assert not words.answered(too_large)
    assert hint(too_large) == (0 if family == "windows" else 1500), "Windows names no size"
    assert words.answered(await host.run(words.argv(4, 1472, FAR), check=False))
    if family != "windows":
        assert words.answered(await host.run(words.argv(6, 1452, FAR6), check=False))


async def test_a_host_that_cannot_send_so_much_itself_names_no_size() -> None:
    host, words = TranscriptHost.of("pings"), words_of("freebsd")
    done = await host.run(words.argv(4, 9188, FAR), check=False)
    assert (words.answered(done), hint(done)) == (False, 0)


async def test_windows_ends_with_0_although_a_router_said_no_and_speaks_its_users_language() -> None:
    host, words = TranscriptHost.of("pings"), words_of("windows")
    assert not words.answered(await host.run(words.argv(4, 1473, FAR)))
    assert words.answered(await host.run(words.argv(4, 1472, FAR)))


def test_a_system_that_cannot_forbid_fragments_says_so() -> None:
    with pytest.raises(MeasurementError, match=r"ping of Windows cannot forbid that IPv6 is fragmented; measure the path MTU from another"):
        words_of("windows").argv(6, 1452, FAR6)
