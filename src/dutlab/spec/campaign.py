"""The model of a campaign file: many runs, of experiments on testbeds in versions, on as many nights.

    campaign: nightly
    experiments: [throughput.yaml, latency.yaml]
    testbeds: [{lab: three-node}, rack.yaml]      # left out: the one that each experiment names
    versions:
      stock: {}
      new: {apply: [install-image new], verify: [uname -r | grep -q new], restore: [install-image stock]}
    nights: 3
    hours: "22:00-06:00"

Every key, its unit and its default are in docs/reference/campaign-file.md.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from dutlab.errors import Fault, SpecRefused
from dutlab.spec.experiment import LabRef, TestbedPath, TestbedRef
from dutlab.spec.factors import VERSION, CommandsOfLevel
from dutlab.spec.fields import Duration, Name
from dutlab.spec.fleet import Fleet, as_fleet
from dutlab.spec.loader import given_experiment, path_of_testbed
from dutlab.spec.model import FILE_CONTEXT, SpecModel, plain_faults
from dutlab.spec.planned_run import PlannedRun
from dutlab.spec.yaml_source import parse, read_file
from dutlab.units import Seconds

_HOURS = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])")
_DAY = timedelta(days=1)
MOST_TRIES = 100


@dataclass(frozen=True)
class Hours:
    """The part of each day in which runs may begin; it may go past midnight.

    Times are what the clock on this machine's wall shows, so they have no zone: a night in which summer time ends is an hour longer.
    """

    begin: time
    end: time

    @classmethod
    def parse(cls, text: str) -> Self:
        """As in `22:00-06:00`. Raises ValueError."""
        found = _HOURS.fullmatch(text)
        if found is None:
            raise ValueError('must be two times of a day, as in "22:00-06:00"')
        begin, end = time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))
        if begin == end:
            raise ValueError("ends when it begins; leave `hours` out for the whole day")
        return cls(begin, end)

    def __str__(self) -> str:
        return f"{self.begin:%H:%M}-{self.end:%H:%M}"

    def night_of(self, now: datetime) -> datetime | None:
        """When the night began that `now` lies in; None between two nights."""
        for day in (now, now - _DAY):
            begin = datetime.combine(day.date(), self.begin)
            end = datetime.combine(day.date(), self.end) + (_DAY if self.end <= self.begin else timedelta())
            if begin <= now < end:
                return begin
        return None

    def next_begin(self, now: datetime) -> datetime:
        """When the next night begins."""
        begin = datetime.combine(now.date(), self.begin)
        return begin if begin > now else begin + _DAY

    def night_after(self, then: datetime) -> datetime:
        """When the next night begins after `then`, and after the night in which `then` lies."""
        return self.next_begin(self.night_of(then) or then)


def _hours(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    return Hours.parse(value) if isinstance(value, str) else value


def _positive(value: Seconds) -> Seconds:
    if value <= 0:
        raise ValueError("must be above 0s")
    return value


class Campaign(SpecModel):
    """A campaign file."""

    name: Annotated[Name, Field(alias="campaign")]
    experiments: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
    """Paths, relative to this file."""
    testbeds: tuple[TestbedRef, ...] = ()
    """None: the one that each experiment names."""
    versions: Annotated[dict[Name, CommandsOfLevel], Field(default_factory=dict)]
    nights: Annotated[int, Field(ge=1, le=1000)] = 1
    hours: Annotated[Hours | None, BeforeValidator(_hours)] = None
    fleet: Annotated[Fleet, BeforeValidator(as_fleet)] = Fleet()
    at_once: Annotated[int | None, Field(ge=1, le=64)] = None
    """Testbeds that are used at the same time; None: one on this machine, all of them with workers."""
    tries: Annotated[int, Field(ge=1, le=MOST_TRIES)] = 3
    """Of a run that ends early."""
    again_after: Annotated[Duration, AfterValidator(_positive)] = Seconds(600.0)


@dataclass(frozen=True)
class PlannedCampaign:
    """A campaign and all of its runs, in their order."""

    campaign: Campaign
    runs: tuple[PlannedRun, ...]
    files: tuple[Path, ...]
    """What its runs are read from."""


def read_campaign(path: Path) -> PlannedCampaign:
    """The campaign in `path`, every run of it checked against its testbed. Raises SpecRefused with every fault of all files."""
    source = parse(read_file(path), str(path))
    try:
        campaign = Campaign.model_validate(source.data, context=FILE_CONTEXT)
    except ValidationError as error:
        raise SpecRefused([source.fault(loc, what) for loc, what in plain_faults(error)]) from error
    here = path.parent.absolute()
    faults, planned, files = list[Fault](), list[PlannedRun](), {path.absolute()}
    for name, testbed, version in product(dict.fromkeys(campaign.experiments), campaign.testbeds or (None,), campaign.versions or ("",)):
        file = here / name
        bed = here / testbed.path if isinstance(testbed, TestbedPath) else None
        overrides = (
            [] if not isinstance(testbed, LabRef) else [f"testbed={json.dumps(testbed.model_dump(mode='json', exclude_defaults=True))}"]
        )
        if version:
            level = {version: source.data["versions"][version]}
            overrides += [f"factors.{VERSION}={json.dumps([version])}", f"levels.{VERSION}={json.dumps(level)}"]
        try:
            text = read_file(file)
            given = given_experiment(text, file, overrides, testbed=bed)
        except SpecRefused as refused:
            faults += refused.faults
            continue
        if version and VERSION in (parse(text, str(file)).data.get("factors") or {}):
            faults.append(source.fault(("versions",), f"{name} has a factor `{VERSION}` of its own"))
        own = given.experiment.testbed
        files |= {file, *([bed] if bed else [path_of_testbed(file, own)] if isinstance(own, TestbedPath) else [])}
        arguments = [
            str(file),
            *(word for override in overrides for word in ("--set", override)),
            *(["--testbed", str(bed)] if bed else []),
        ]
        label = own.lab if isinstance(own, LabRef) else Path(own.path).stem
        planned.append(PlannedRun(0, given.experiment.name, label, version, 0, tuple(arguments)))
    if faults:
        raise SpecRefused(list(dict.fromkeys(faults)))
    nights = range(1, campaign.nights + 1)
    runs = [replace(run, number=number, night=night) for number, (night, run) in enumerate(product(nights, planned), start=1)]
    return PlannedCampaign(campaign, tuple(runs), tuple(sorted(files)))
