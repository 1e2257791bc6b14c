"""Modes are verified by pings where an end of a link does not run the engine: who pings whom, what follows, and how it is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dutlab.dut.custom import CommandMode
from dutlab.dut.frames import frame_checks
from dutlab.dut.mode import SeenProbe
from dutlab.spec.experiment import CustomMode
from dutlab.spec.loader import load_testbed
from dutlab.spec.testbed import Testbed
from dutlab.systems.modes import GUARDS, ROUTES, TRANSLATES
from dutlab.systems.windows import WINDOWS
from dutlab.tools.ping import Ping, ProbesByEnds
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
