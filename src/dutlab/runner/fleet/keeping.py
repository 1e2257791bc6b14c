"""Brings a finished run to where a campaign keeps it: into the object store, where it has one, and into the index of the fleet.

The run is finished in the campaign's folder before, and stays there. Secrets are covered in what leaves it (store/outgoing.py). What fails
is said and tried again: at the end of the campaign, by `resume` and by `dutlab campaign keep`. A place's file `kept` says where the run
is, and is written last.
"""

from __future__ import annotations

from dataclasses import dataclass

from dutlab.errors import DutlabError, InputError
from dutlab.hosts.passwords import all_variables
from dutlab.runner.campaign_folder import CampaignFolder
from dutlab.spec.planned_run import PlannedRun
from dutlab.store.fleet_database import ANSWERS_S, FLEET_DATABASE, FleetDatabase
from dutlab.store.fleet_index import opened_fleet
from dutlab.store.object_store import put_run


@dataclass(frozen=True)
class RunKeeping:
    """Keeper of one campaign's runs, with the database of its leases."""

    folder: CampaignFolder
    database: FleetDatabase

    def keep(self, planned: PlannedRun) -> str | None:
        """None once the run is kept, or where there is none; else why it is not."""
        name = self.folder.done(planned)
        if name is None or self.folder.kept(planned) is not None:
            return None
        run = self.folder.runs.absolute() / name
        store = self.folder.fleet.store
        try:
            place = put_run(run, store, all_variables()) if store else str(run)
            with opened_fleet(self.database, answers_s=ANSWERS_S) as index:
                self._insist_on_one(index.identity())
                index.add(run, place, all_variables())
            self.folder.note_kept(planned, place)
        except DutlabError as error:
            return f"{name} stays in {self.folder.runs} alone for now: {error}"
        return None

    def keep_all(self) -> list[str]:
        """Why finished runs are not kept that were not before. Only the first of several: they fail alike."""
        for planned in self.folder.planned():
            if (why := self.keep(planned)) is not None:
                return [why]
        return []

    def _insist_on_one(self, identity: str) -> None:
        if self.folder.first_store(identity) != identity:
            raise InputError(
                f"the workers of {self.folder.path} have another database", remedy=f"set {FLEET_DATABASE} to the same as theirs"
            )
