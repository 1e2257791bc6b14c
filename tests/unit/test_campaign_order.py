"""The order of a campaign's work: what is tried again, the hours of each night, testbeds that are away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from campaign_folders import Told, campaign_of, folder_of
from dutlab.errors import StoreError
from dutlab.runner import campaign as of_campaigns
from dutlab.runner.campaign_folder import CampaignFolder, CampaignState
from dutlab.spec.campaign import PlannedCampaign
from dutlab.spec.planned_run import PlannedRun


@pytest.mark.parametrize(
    ("campaign", "ends", "did", "standings"),
    [
        ({"runs": 3}, {1: [3]}, [1, 1, 2, 3], [("done", 0)] * 3),  # away, and what comes after it on the testbed waits
        ({"runs": 2, "tries": 2}, {1: [1, 1, 1]}, [1, 2, 1], [("refused", 1), ("done", 0)]),  # a failed one keeps no other from its turn
        ({"runs": 2}, {1: [2, 0]}, [1, 2], [("refused", 2), ("done", 0)]),  # refused as input, so not tried again
    ],
)
def test_a_run_is_tried_again_as_far_as_that_can_help(tmp_path, campaign, ends, did, standings) -> None:
    work = Told(folder_of(tmp_path / "c", **campaign), ends)
    found = asyncio.run(work.carry_out())
    assert work.did == did
    assert [(s.state.value, s.exit_status) for s in found] == standings
    again = Told(work.folder, {})
    asyncio.run(again.carry_out())
    assert again.did == [n for n, (state, _) in enumerate(standings, start=1) if state != "done"], "what is done is not done again"


def test_a_fault_of_the_store_ends_it_all(tmp_path: Path) -> None:
    class Full(Told):
        async def one(self, planned: PlannedRun) -> int:
            raise StoreError(f"{planned.number}: no space left")

    with pytest.raises(StoreError):
        asyncio.run(Full(folder_of(tmp_path / "d"), {}).carry_out())


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Told], Told]]:
    """Lets a campaign's clock go on by itself while all of it waits, by the clock on the wall of a place that has summer time."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()

    def passed(work: Told) -> Told:
        work.now = datetime(2026, 10, 23, 12).astimezone()
        sleepers = list[datetime]()

        async def slept(seconds: float) -> None:
            sleepers.append(until := work.now.astimezone(UTC) + timedelta(seconds=seconds))
            while work.now < until:
                await nothing(0)
                if until == min(sleepers):
                    work.now = until.astimezone()
            sleepers.remove(until)

        monkeypatch.setattr(of_campaigns.asyncio, "sleep", slept)
        return work

    nothing = asyncio.sleep
    yield passed
    monkeypatch.undo()
    time.tzset()


def nights_of(path: Path, *, nights: int, testbeds: str, **more: object) -> CampaignFolder:
    """A campaign of a run for each testbed and night, numbered night by night."""
    both = [(night, testbed) for night in range(1, nights + 1) for testbed in testbeds]
    planned = tuple(PlannedRun(n, "e", testbed, "", night, ("e.yaml",)) for n, (night, testbed) in enumerate(both, start=1))
    campaign = campaign_of(hours="22:00-06:00", nights=nights, **{"again_after": 600.0, **more})
    return CampaignFolder.create(path, PlannedCampaign(campaign, planned, ()), "0.1.0")


def began(folder: CampaignFolder) -> list[str]:
    """When each run was begun last, by the wall clock."""
    return [f"{at:%d %H:%M}" if (at := folder.last_began(run)) else "" for run in folder.planned()]


def test_each_night_begins_in_hours_of_its_own_also_when_summer_time_ends(tmp_path: Path, passing: Callable[[Told], Told]) -> None:
    work = passing(Told(nights_of(tmp_path / "c", nights=3, testbeds="t"), {}))
    asyncio.run(work.carry_out())
    assert began(work.folder) == ["23 22:00", "24 22:00", "25 22:00"]
    assert [line for line in work.said if "waiting" in line] == [f"t: waiting until 2026-10-{day} 22:00" for day in (23, 24, 25)]


@pytest.mark.parametrize(("tries", "ends"), [(3, [3, 3, 3]), (100, [3] * 48)])  # its tries, or its hours, end before
def test_a_testbed_that_misses_a_night_makes_it_up_on_the_next_and_delays_no_other(tmp_path, passing, tries, ends) -> None:
    work = passing(Told(nights_of(tmp_path / "c", nights=2, testbeds="ab", tries=tries), {2: ends}))
    standings = asyncio.run(work.carry_out())
    assert [s.state for s in standings] == [CampaignState.DONE] * 4
    assert began(work.folder) == ["23 22:00", "24 22:00", "24 22:00", "25 22:00"]
    assert tries > 3 or any(line.startswith("b: ") and "night 1 missed" in line for line in work.said)


def test_a_testbed_that_never_comes_is_given_up_after_as_many_nights_as_the_campaign_has(tmp_path, passing) -> None:
    work = passing(Told(nights_of(tmp_path / "c", nights=2, testbeds="ab"), {2: [3] * 99, 4: [3] * 99}))
    standings = asyncio.run(work.carry_out())
    assert [(s.state, s.tries) for s in standings] == [
        (CampaignState.DONE, 1), (CampaignState.REFUSED, 6), (CampaignState.DONE, 1), (CampaignState.PLANNED, 0),
    ]  # fmt: skip
    again = passing(Told(work.folder, {}))
    asyncio.run(again.carry_out())
    assert again.did == [2, 4] and began(work.folder)[3] == "24 22:00", "each on a night of its own"


def test_no_testbed_keeps_the_turns_of_another(tmp_path: Path) -> None:
    planned = tuple(PlannedRun(n, "e", "a" if n <= 4 else "b", "", 1, ("e.yaml",)) for n in range(1, 7))
    work = Told(CampaignFolder.create(tmp_path / "c", PlannedCampaign(campaign_of(), planned, ()), "0.1.0"), {})
    asyncio.run(work.carry_out())
    assert work.did == [1, 5, 2, 6, 3, 4]
