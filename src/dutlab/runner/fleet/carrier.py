"""Starts the process of a place and waits for it, here. With Dask, for other machines, that has the same face (dask_carrier.py)."""

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
    """Way in which a campaign's planned runs are carried out."""

    async def carry(self, planned: PlannedRun) -> int:
        """Return the exit status of the process, which ends in order when this is cancelled; 3 where no worker is free."""
        ...


@dataclass(frozen=True)
class LocalCarrier:
    """Carrier by a child of this process."""

    folder: CampaignFolder

    async def carry(self, planned: PlannedRun) -> int:
        handed_s = on_this_clock()
        status = await ended_in_order(await begin_place(self.folder, planned))
        if (cost := cost_since(self.folder, planned, handed_s)) is not None:
            self.folder.note_cost(planned, cost)
        return status


def cost_since(folder: CampaignFolder, planned: PlannedRun, handed_s: float) -> FleetCost | None:
    """Return the cost added to the run of a process of this machine that has just ended; None where it made none."""
    run = folder.last_clock(planned)
    return None if run is None or run.began_s < handed_s else FleetCost.of(handed_s, run, on_this_clock())


async def begin_place(folder: CampaignFolder, planned: PlannedRun) -> asyncio.subprocess.Process:
    """A process that outlives this one, whatever kills it: what it has begun, it finishes."""
    folder.lock_of(planned)
    with opened_to_append(folder.said_by(planned)) as log:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dutlab", "campaign", "place", str(folder.path), str(planned.number),
            stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
