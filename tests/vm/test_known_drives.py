"""Drives whose answers are set in the guest's kernel, measured as any: `dutlab verify --storage`."""

from __future__ import annotations

import pytest

from capability import need_engine
from dutlab.runner import stalling_drive
from dutlab.runner.known_drives import verify


async def test_what_a_drive_fails_is_counted_and_one_that_gets_slower_is_not_called_steady_before(raid: str) -> None:
    told = []
    found = {(k.device, k.figure): k for k in await verify(told.append, raid, ("errors", "slows"))}
    assert list(found.values()) == told
    errors = [k for k in told if k.figure.endswith("_errors")]
    assert [(k.figure, k.found) for k in errors] == [("read_errors", 1024), ("write_errors", 1024)]
    (inside,) = [k for k in told if k.figure == "rounds_before_it_was_slow_in_window"]
    assert inside.found in (0, None), "on a busy machine it may not get steady at all, but never before"
    (first,) = [k for k in told if k.figure == "first_round_of_window"]
    assert first.found is None or first.holds, (first, "steady state is found at the right round")


async def test_a_drive_is_never_found_faster_than_it_answers(raid: str) -> None:
    found = await verify(lambda _: None, raid, ("delays",))
    assert [k.expected for k in found] == [2e6, 5e6, 20e6]
    for known in found:
        assert known.found is not None
        assert known.found >= known.expected * (1 - 1 / 64), "fio's bins are a 64th wide"


async def test_the_open_loop_sees_the_stalls_that_a_closed_one_hides(raid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need_engine()
    monkeypatch.setattr(stalling_drive, "LOADED_S", 40.0)  # 12,000 I/Os; p99.9 needs 10,000
    found = {known.figure: known for known in await verify(lambda _: None, raid, ("stalls",))}
    opened, hidden = found["lat_p999_ns"], found["closed_error_p999_percent"]
    assert opened.expected > 0.15e9, "the drive did stall"
    assert not opened.is_off, "a busy machine may be too late itself, and says so"
    assert opened.found is not None and hidden.found is not None
    assert opened.found >= opened.expected * 0.95, "on a busy machine I/Os may take longer, but no stall is hidden"
    assert hidden.found < -50, "the closed loop shows less than half of it"
