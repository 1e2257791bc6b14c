"""Storage of a finished run: in the campaign's object store, if it has one, and in the index of the fleet.

The run itself remains in the campaign's folder. Secrets are masked in the copy (store/outgoing.py). A failure is
reported and tried again: at the end of the campaign, by `resume` and by `dutlab campaign keep`. A place's file `kept` names where the run
is stored, and is written last.
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
    """Storage of one campaign's runs, with the database of its leases."""

    folder: CampaignFolder
    database: FleetDatabase

    def keep(self, planned: PlannedRun) -> str | None:
        """Store a run; return why that failed, None if it is stored or there is no finished run."""
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
        """Store all finished runs; return the first failure, if any. The others would fail for the same reason."""
        for planned in self.folder.planned():
            if (why := self.keep(planned)) is not None:
                return [why]
        return []

    def _insist_on_one(self, identity: str) -> None:
        if self.folder.first_store(identity) != identity:
            raise InputError(
                f"the workers of {self.folder.path} have another database", remedy=f"set {FLEET_DATABASE} to the same as theirs"
            )
