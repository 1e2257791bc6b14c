"""Pings: what verifies modes where an end runs no engine, each system's own command and its answer, and what a cable carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dutlab.dut.custom import CommandMode
from dutlab.dut.frames import frame_checks
from dutlab.dut.mode import SeenProbe
from dutlab.errors import MeasurementError
from dutlab.hosts.host import Done
from dutlab.labs import description
from dutlab.spec.experiment import CustomMode
from dutlab.spec.loader import load_testbed
from dutlab.spec.testbed import Testbed
from dutlab.systems import SYSTEMS
from dutlab.systems.modes import GUARDS, ROUTES, TRANSLATES
from dutlab.systems.system import System, hint
from dutlab.systems.windows import WINDOWS
from dutlab.tools.ping import HEADERS, TRIES, Ping, ProbesByEnds
from transcript import TranscriptHost

BED = """
testbed: bed
hosts:
  source: {ssh: s, family: windows}
  dut: {ssh: d}
  sink: {ssh: t}
links:
  a: {path: [source:eth0, dut:in-a, dut:out-a, sink:eth0], addresses: [10.0.0.2/24, 10.0.0.1/24, 10.0.1.1/24, 10.0.1.2/24]}
"""
ANSWER = "> Antwort von {0}: Bytes=40 Zeit<1ms TTL=63\n"
NO_ANSWER = "> Zeitüberschreitung der Anforderung.\n= 1\n"
# What Windows says where the DUT's filter answers for the far end: status 0, and a line that is not the far end's.
REFUSED = "> Antwort von 10.0.0.1: Zielhost nicht erreichbar.\n"


class NoEngine:
    async def probe(self, links: Sequence[str], *, reverse: bool = False) -> list[SeenProbe]:
        raise AssertionError(f"frames of ours on links {links}")


@pytest.fixture
def bed(tmp_path: Path) -> Testbed:
    (tmp_path / "bed.yaml").write_text(BED)
    return load_testbed(tmp_path / "bed.yaml")


def prober(bed: Testbed, there: str, back: str) -> ProbesByEnds:
    """The source pings the sink as a German Windows does, the sink the source as a Linux does."""
    source = TranscriptHost("source", f"$ ping -n 1 -w 1000 -f -l 40 10.0.1.2\n{there}", system=WINDOWS)
    sink = TranscriptHost("sink", f"$ ping -n -c 1 -W 0.5 -M do -s 40 10.0.0.2\n{back}")
    return ProbesByEnds(NoEngine(), Ping({"source": source, "sink": sink}, bed), bed, frozenset({"sink"}))


@pytest.mark.parametrize(
    ("there", "back", "behaviour", "expected"),
    [
        (ANSWER.format("10.0.1.2"), "> ok\n", ROUTES, [True, True]),
        (ANSWER.format("10.0.1.2"), "= 1\n", GUARDS, [True, True]),
        (ANSWER.format("10.0.1.2"), "= 1\n", TRANSLATES, [True, True]),
        (ANSWER.format("10.0.1.2"), "> ok\n", GUARDS, [True, False]),
        (ANSWER.format("10.0.1.2"), "= 1\n", ROUTES, [True, False]),
        (NO_ANSWER, "= 1\n", GUARDS, [False, True]),
        (REFUSED, "= 1\n", GUARDS, [False, True]),
    ],
)
async def test_a_mode_holds_when_pings_pass_and_fail_as_its_frames_would(bed, there, back, behaviour, expected) -> None:
    checks = await frame_checks(bed, prober(bed, there, back), behaviour, None)
    assert [c.passed for c in checks] == expected
    assert all(c.by_ping and "(proof: ping" in c.found for c in checks)


async def test_a_mode_of_ones_own_tells_its_proof_too(bed: Testbed) -> None:
    mode = CommandMode("own", CustomMode.model_validate({"name": "own"}))
    (check,) = await mode.verify(TranscriptHost("dut", ""), bed, prober(bed, ANSWER.format("10.0.1.2"), "> ok\n"))
    assert (check.passed, check.by_ping) == (True, True)
    assert check.found.startswith("answered (proof: ping")


# ---- Each system's ping that may not be fragmented: the very command, and what its answer means


FAR, FAR6 = "172.16.10.2", "2001:db8:1::2"
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


# ---- What doctor finds that a cable carries: the first pings may be lost while an address is looked up


SIZES = (1500, 1486, 1482, 1478, 1492, 1400, 576)


class Cable:
    """A host at its end: a packet is answered as `answers(its size, how many were sent before it)` says."""

    system = SYSTEMS["linux"]

    def __init__(self, answers: Callable[[int, int], bool]) -> None:
        self.answers, self.sent = answers, 0

    async def run(self, argv: list[str], **_: Any) -> Done:
        size = int(argv[-2]) + HEADERS[6 if "-6" in argv or ":" in argv[-1] else 4]
        answered, self.sent = self.answers(size, self.sent), self.sent + 1
        return Done("source", tuple(argv), 0 if answered else 1, b"", b"", 0.0, 0.0)


@pytest.mark.parametrize("lab", ["three-node", "three-node-rfc5180"])
@pytest.mark.parametrize(
    ("answers", "carried"),
    [
        (lambda _, before: before >= TRIES, 1500),
        (lambda size, _: size <= 1486, 1486),
        (lambda size, before: size <= 1400 and before >= 1, 1400),
        (lambda *_: False, None),
    ],
    ids=["the first pings are lost", "a switch counts a header", "a tunnel", "nobody answers"],
)
async def test_lost_pings_are_no_limit_of_a_cable(lab: str, answers: Callable[[int, int], bool], carried: int | None) -> None:
    testbed = description(lab).testbed
    ping = Ping({"source": Cable(answers)}, testbed)  # type: ignore[dict-item]
    assert await ping.cable("a", "source", str(testbed.links["a"].path[1]), SIZES) == carried
