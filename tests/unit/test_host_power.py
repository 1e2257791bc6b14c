"""The power of hosts in a run: off for a phase and on again whatever happens, and on for a host that does not answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dutlab.errors import HostError, InputError, TestbedError
from dutlab.hosts.black_box import BlackBox
from dutlab.runner.device import JournaledDevice
from dutlab.runner.host_power import revived, revived_once
from dutlab.runner.journal import Journal, pending_undo, read_journal
from dutlab.runner.undo import carry_out
from dutlab.spec.testbed import Testbed


@dataclass
class Machine:
    """Answers while the file says that it is on; `hung` until it was off."""

    state: Path
    name: str = "dut"
    hung: bool = False

    async def run(self, argv: Any, **_: Any) -> None:
        if "off" in self.state.read_text():
            self.hung = False
        if self.hung or self.state.read_text().split()[-1] != "on":
            raise HostError("no answer", host=self.name)


def bed(state: Path, **keys: Any) -> Testbed:
    switch = {"kind": "command", "on": f"echo on >> {state}", "off": f"echo off >> {state}", "status": f"tail -n 1 {state}"}
    power = {**switch, "off-for": "10ms", "back-within": "300ms", **keys}
    return Testbed.model_validate({"name": "bench", "hosts": {"dut": {"name": "dut", "ssh": "root@192.0.2.1", "power": power}}})


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (path := tmp_path / "state").write_text("on\n")
    return path


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    yield (journal := Journal(tmp_path / "journal.jsonl"))
    journal.close()


def device(state: Path, journal: Journal, **keys: Any) -> JournaledDevice:
    return JournaledDevice(Machine(state), bed(state, **keys), {}, {}, prober=None, journal=journal)  # type: ignore[arg-type]


def pending(journal: Journal) -> Any:
    return pending_undo(read_journal(journal._path))


async def test_what_is_switched_off_is_on_again_at_the_end_of_the_trial(state: Path, journal: Journal) -> None:
    of = device(state, journal, **{"may-switch": True})
    assert of.has_power
    await of.off()
    assert state.read_text() == "on\noff\n" and of.restarted
    assert [name for name, _ in pending(journal)] == ["power"]
    await of.on()
    assert state.read_text() == "on\noff\non\n" and of.restarted, "its mode is lost until it is applied anew"
    assert await of.put_back() and not of.restarted and not pending(journal)
    assert state.read_text() == "on\noff\non\n", "what is on is not switched"


async def test_a_later_process_switches_it_on_from_the_journal_alone(state: Path, journal: Journal) -> None:
    of = device(state, journal, **{"may-switch": True})
    await of.off()
    ((_, steps),) = pending(journal)
    assert json.loads(steps[0].switch)["kind"] == "command"
    await carry_out(steps, {})
    assert state.read_text() == "on\noff\non\n", "also of a host that no command reaches"


async def test_a_switch_that_does_nothing_is_said(state: Path, journal: Journal) -> None:
    of = device(state, journal, **{"may-switch": True})
    await of.off()
    ((_, steps),) = pending(journal)
    deaf = [type(step)(step.host, (), switch=step.switch.replace("echo on", "exit 3; echo on")) for step in steps]
    with pytest.raises(TestbedError, match="status 3"):
        await carry_out(deaf, {})


async def test_a_box_without_a_way_in_is_back_once_frames_pass(state: Path, journal: Journal) -> None:
    class Prober:
        looks = 0

        async def probe(self, links: Any, *, reverse: bool = False) -> Any:
            self.looks += 1
            return [type("Seen", (), {"received": self.looks > 2})()]

    of = device(state, journal, **{"may-switch": True, "back-within": "10s"})
    of.dut, of.prober = BlackBox("dut"), Prober()  # type: ignore[assignment]
    of.testbed = of.testbed.model_copy(update={"links": {"a": None}})
    await of.off()
    await of.on()
    assert of.prober.looks == 3 and await of.put_back()


async def test_nothing_is_switched_that_the_testbed_does_not_allow(state: Path, journal: Journal) -> None:
    of = device(state, journal)
    assert not of.has_power
    with pytest.raises(InputError, match="switch dut"):
        await of.off()
    hosts, log = {"dut": Machine(state, hung=True)}, list[Any]()
    assert await revived(hosts, bed(state), lambda *a, **k: log.append((a, k))) == ()  # type: ignore[arg-type]
    assert not await revived_once(hosts["dut"], "away", testbed=bed(state), journal=print)  # type: ignore[arg-type]
    assert state.read_text() == "on\n" and not log


@pytest.mark.parametrize(("was", "hung", "then"), [("on", True, "on\noff\non\n"), ("off", False, "off\non\n"), ("on", False, "on\n")])
async def test_a_host_that_does_not_answer_is_switched_once(state: Path, was: str, hung: bool, then: str) -> None:
    state.write_text(f"{was}\n")
    log = list[Any]()
    hosts = {"dut": Machine(state, hung=hung)}
    said = await revived(hosts, bed(state, **{"may-switch": True}), lambda *a, **k: log.append((a, k)))  # type: ignore[arg-type]
    assert state.read_text() == then
    assert len(said) == len(log) == (then != "on\n")
    assert all("did not answer" in sentence for sentence in said)


async def test_a_host_that_stays_away_is_not_asked_again(state: Path) -> None:
    class Dead(Machine):
        async def run(self, argv: Any, **_: Any) -> None:
            raise HostError("no answer", host=self.name)

    with pytest.raises(HostError, match=r"dut: no answer"):
        await revived({"dut": Dead(state)}, bed(state, **{"may-switch": True}), lambda *_a, **_k: None)  # type: ignore[dict-item]
    assert state.read_text() == "on\noff\non\n"
