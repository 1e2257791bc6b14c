"""Campaigns without files, and one that runs nothing: each planned run ends as a test says."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path

from dutlab.runner.campaign import CampaignWork
from dutlab.runner.campaign_folder import CampaignFolder
from dutlab.runner.fleet.carrier import LocalCarrier
from dutlab.spec.campaign import Campaign, PlannedCampaign
from dutlab.spec.planned_run import PlannedRun
from dutlab.store.manifest import MANIFEST


def folder_of(path: Path, runs: int = 2, **more: object) -> CampaignFolder:
    """A campaign of so many runs on one testbed, without a file."""
    planned = tuple(PlannedRun(n, "e", "t", "", 1, ("e.yaml",)) for n in range(1, runs + 1))
    return CampaignFolder.create(path, PlannedCampaign(campaign_of(**more), planned, ()), "0.1.0")


def campaign_of(**more: object) -> Campaign:
    return Campaign.model_validate({"campaign": "c", "experiments": ["e.yaml"], "again_after": 0.01, **more})


def finish(folder: CampaignFolder, number: int, name: str) -> None:
    """A run of planned run `number`, finished where its process makes it."""
    run = folder.path / "planned" / f"{number:03d}" / "runs" / name
    run.mkdir(parents=True)
    (run / MANIFEST).write_text("{}")


class Told(CampaignWork):
    """Runs nothing: does as `ends` says, which has the exit statuses of each planned run; 0 finishes it."""

    def __init__(self, folder: CampaignFolder, ends: dict[int, list[int]], now: datetime | None = None) -> None:
        super().__init__(folder, self.hear, LocalCarrier(folder))
        self.ends, self.said, self.did, self.now = ends, list[str](), list[int](), now or datetime(2026, 1, 1).astimezone()
        self.clock = lambda: self.now

    def hear(self, line: str) -> None:
        self.said.append(line)

    async def one(self, planned: PlannedRun) -> int:
        self.did.append(planned.number)
        await asyncio.sleep(0)  # a process takes time
        status = (self.ends.get(planned.number) or [0]).pop(0) if self.ends.get(planned.number) else 0
        place = self.folder.place(planned)
        place.mkdir(parents=True, exist_ok=True)
        entry = {"began": self.now.isoformat(), "ended": self.now.isoformat(), "exit_status": status, "command": "run"}
        with (place / "tries").open("a") as tries:
            tries.write(json.dumps(entry) + "\n")
        if status == 0:
            finish(self.folder, planned.number, f"r{planned.number}")
            self.folder.settle(planned)
        return status
