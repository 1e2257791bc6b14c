"""Start the process of a planned run on this machine and wait for it. dask_carrier.py does the same on other machines."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Protocol

from dutlab.runner.campaign_folder import CampaignFolder
from dutlab.runner.fleet.cost import FleetCost, on_this_clock
from dutlab.runner.fleet.place import ended_in_order
from dutlab.spec.planned_run import PlannedRun
from dutlab.store.write import opened_to_append


class PlaceCarrier(Protocol):
    """Carrier of a campaign's planned runs."""

    async def carry(self, planned: PlannedRun) -> int:
        """Carry out a planned run, and return its exit status; 3 if no worker is free. If cancelled, the run ends properly."""
        ...


@dataclass(frozen=True)
class LocalCarrier:
    """Carrier that starts a child process."""

    folder: CampaignFolder

    async def carry(self, planned: PlannedRun) -> int:
        handed_s = on_this_clock()
        status = await ended_in_order(await begin_place(self.folder, planned))
        if (cost := cost_since(self.folder, planned, handed_s)) is not None:
            self.folder.note_cost(planned, cost)
        return status


def cost_since(folder: CampaignFolder, planned: PlannedRun, handed_s: float) -> FleetCost | None:
    """Return the cost added to a run whose process on this machine has just ended; None if it made no run since `handed_s`."""
    run = folder.last_clock(planned)
    return None if run is None or run.began_s < handed_s else FleetCost.of(handed_s, run, on_this_clock())


async def begin_place(folder: CampaignFolder, planned: PlannedRun) -> asyncio.subprocess.Process:
    """Start the process of a planned run. It finishes its work even if this process is killed."""
    folder.lock_of(planned)
    with opened_to_append(folder.said_by(planned)) as log:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dutlab", "campaign", "place", str(folder.path), str(planned.number),
            stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
