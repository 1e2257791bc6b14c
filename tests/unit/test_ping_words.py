"""Each system's ping that may not be fragmented: the very command, and what its answer means."""

from __future__ import annotations

import pytest

from dutlab.errors import MeasurementError
from dutlab.systems import SYSTEMS
from dutlab.systems.system import System, hint
from transcript import TranscriptHost

FAR, FAR6 = "172.16.10.2", "2001:db8:1::2"
WINDOWS = SYSTEMS["windows"]
PINGS = [system for system in SYSTEMS.values() if system.has_way_in]


async def asked(system: System, payload: int, *, far: str = FAR, version: int = 4) -> tuple[bool, int]:
    """Whether the far end answered, and the size that was named."""
    done = await TranscriptHost.of("pings").run(system.ping.argv(version, payload, far), check=False)
    return system.ping.answered(done.status, done.text, far), hint(done.text + done.errors)


@pytest.mark.parametrize("system", PINGS, ids=lambda system: system.name)
async def test_a_narrow_router_is_told_by_every_system(system: System) -> None:
    assert await asked(system, 8972) == (False, 0 if system is WINDOWS else 1500), "Windows names no size"
    assert (await asked(system, 1472))[0]
    if system.ping.v6:
        assert (await asked(system, 1452, far=FAR6, version=6))[0]


async def test_a_host_that_cannot_send_so_much_itself_names_no_size() -> None:
    assert await asked(SYSTEMS["freebsd"], 9188) == (False, 0)


@pytest.mark.parametrize(
    ("payload", "answers"),
    [(1472, True), (1473, False), (1474, False), (1475, False), (1476, False)],
    ids=["answered", "router refuses", "nobody answers", "time to live", "too long to send"],
)
async def test_a_windows_of_any_language_is_read_by_the_shape_of_its_answer(payload: int, answers: bool) -> None:
    done = await TranscriptHost.of("pings-windows-german").run(WINDOWS.ping.argv(4, payload, FAR), check=False)
    assert WINDOWS.ping.answered(done.status, done.text, FAR) == answers


def test_the_bytes_of_an_old_code_page_change_nothing() -> None:
    said = "Ping wird ausgeführt für 172.16.10.2\r\nAntwort von 172.16.10.2: Bytes=1472 Zeit<1ms TTL=63\r\n"
    assert WINDOWS.ping.answered(0, said.encode("cp850").decode("utf-8", "replace"), FAR)
    # Another host that answers is not the far end.
    assert not WINDOWS.ping.answered(0, "Antwort von 172.16.10.20: Bytes=1472 Zeit<1ms TTL=63", FAR)
    assert not WINDOWS.ping.answered(0, "Antwort von 1172.16.10.2: Bytes=1472 Zeit<1ms TTL=63", FAR)


@pytest.mark.parametrize("name", ["windows", "macos"])
def test_a_system_that_cannot_forbid_fragments_says_so(name: str) -> None:
    system = SYSTEMS[name]
    with pytest.raises(MeasurementError, match=system.title):
        system.ping.argv(6, 1452, FAR6)
