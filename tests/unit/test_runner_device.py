"""What a trial changes of the DUT is in the journal before it happens, and goes back newest first."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from dutlab.dut.mode import Check, UndoStep
from dutlab.errors import HostError, InputError, TestbedError
from dutlab.methods.dut_ports import ResetKind
from dutlab.runner.device import JournaledDevice
from dutlab.runner.journal import Journal, pending_undo, read_journal


@dataclass
class Dut:
    """A host that keeps what it was told, and whose command `breaks` fails."""

    name: str = "dut"
    told: list[str] = field(default_factory=list)
    breaks: str = ""

    async def run(self, argv, **_):
        self.told.append(argv[0])
        if argv[0] == self.breaks:
            raise HostError("no", host="dut")


@dataclass
class Mode:
    name: str
    journal: Journal

    async def undo(self, dut, testbed):
        return [UndoStep("dut", (f"leave-{self.name}",))]

    async def apply(self, dut, testbed):
        assert pending_undo(read_journal(self.journal._path)), "announced before it is done"
        await dut.run([self.name])

    async def verify(self, dut, testbed, prober):
        return [Check("it forwards", True, "yes"), Check("it filters", False, "no rule")]


class Reset:
    async def undo(self, dut, testbed):
        return UndoStep("dut", ("mend",))

    async def carry_out(self, dut, testbed, back):
        await dut.run(["reset"])


def device(dut, journal):
    modes = {name: Mode(name, journal) for name in ("router", "nat")}
    return JournaledDevice(dut, None, modes, {"software": Reset()}, prober=None, journal=journal)


async def test_changes_there_and_back_are_undone_newest_first_and_once(journal):
    dut = Dut()
    changing = device(dut, journal)
    for name in ("nat", "router", "nat", "router"):
        assert (await changing.change_mode(name)).took_s >= 0
    pending = [application for application, _ in pending_undo(read_journal(journal._path))]
    assert pending == ["into-router", "into-nat"]
    assert await changing.put_back()
    assert dut.told == ["nat", "router", "nat", "router", "leave-router", "leave-nat"]
    assert not pending_undo(read_journal(journal._path))
    assert not await changing.put_back(), "nothing is left"
    await changing.change_mode("nat")
    assert len(pending_undo(read_journal(journal._path))) == 1, "a later trial begins anew"


async def test_what_could_not_be_put_back_stays_in_the_journal(journal):
    dut = Dut(breaks="leave-nat")
    changing = device(dut, journal)
    await changing.change_mode("nat")
    with pytest.raises(TestbedError, match="not restored completely"):
        await changing.put_back()
    assert pending_undo(read_journal(journal._path))


async def test_a_reset_closes_its_entry_and_a_broken_one_is_mended_first(journal):
    dut = Dut()
    assert device(dut, journal).resets == (ResetKind.SOFTWARE,)
    assert await device(dut, journal).reset(ResetKind.SOFTWARE) >= 0
    assert dut.told == ["reset"]
    dut.breaks = "reset"
    with pytest.raises(HostError):
        await device(dut, journal).reset(ResetKind.SOFTWARE)
    assert dut.told == ["reset", "reset", "mend"]
    events = [e["event"] for e in read_journal(journal._path)]
    assert events == ["dut-changing", "dut-restored"] * 2


async def test_faults_of_a_mode_are_what_its_checks_found(journal):
    assert await device(Dut(), journal).faults_of_mode("nat") == ["it filters: no rule"]
    with pytest.raises(InputError, match="no mode bridge"):
        await device(Dut(), journal).change_mode("bridge")
