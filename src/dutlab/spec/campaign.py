"""Model of a campaign file: runs of experiments on testbeds, for several versions and over several nights.

    campaign: nightly
    experiments: [throughput.yaml, latency.yaml]
    testbeds: [{lab: three-node}, rack.yaml]      # default: the testbed that each experiment names
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from dutlab.errors import Fault, FaultKind, SpecRefused
from dutlab.spec.experiment import LabRef, TestbedPath, TestbedRef
from dutlab.spec.factors import VERSION, CommandsOfLevel
from dutlab.spec.fields import Duration, Name
from dutlab.spec.fleet import Fleet, as_fleet
from dutlab.spec.loader import given_experiment, given_testbed, path_of_testbed
from dutlab.spec.model import FILE_CONTEXT, Loc, SpecModel, ValueFault, plain_faults
from dutlab.spec.overrides import OPTION
from dutlab.spec.planned_run import PlannedRun
from dutlab.spec.yaml_source import Source, parse, read_file
from dutlab.units import Seconds

_T = TypeVar("_T")
_HOURS = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])")
_DAY = timedelta(days=1)
_MOST_TRIES = 100


@dataclass(frozen=True)
class Hours:
    """Part of each day in which runs may begin; it may extend past midnight.

    Times are local wall-clock times without a zone, so a night in which summer time ends is an hour longer.
    """

    begin: time
    end: time

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `22:00-06:00`. Raises ValueError."""
        match = _HOURS.fullmatch(text)
        if match is None:
            raise ValueFault('must be two times of a day, as in "22:00-06:00"', FaultKind.TYPE)
        begin, end = time(int(match[1]), int(match[2])), time(int(match[3]), int(match[4]))
        if begin == end:
            raise ValueFault("ends when it begins; leave `hours` out for the whole day", FaultKind.RANGE)
        return cls(begin, end)

    def __str__(self) -> str:
        return f"{self.begin:%H:%M}-{self.end:%H:%M}"

    def night_of(self, now: datetime) -> datetime | None:
        """Return the beginning of the night that contains `now`; None between two nights."""
        for day in (now, now - _DAY):
            begin = datetime.combine(day.date(), self.begin)
            end = datetime.combine(day.date(), self.end) + (_DAY if self.end <= self.begin else timedelta())
            if begin <= now < end:
                return begin
        return None

    def next_begin(self, now: datetime) -> datetime:
        """Return the beginning of the next night."""
        begin = datetime.combine(now.date(), self.begin)
        return begin if begin > now else begin + _DAY

    def night_after(self, then: datetime) -> datetime:
        """Return the beginning of the next night after `then`, and after the night that contains `then`."""
        return self.next_begin(self.night_of(then) or then)


def _hours(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    return value if value is None or isinstance(value, Hours) else Hours.parse(str(value))


def _positive(value: Seconds) -> Seconds:
    if value <= 0:
        raise ValueFault("must be above 0s", FaultKind.RANGE)
    return value


class Campaign(SpecModel):
    """A campaign file."""

    name: Annotated[Name, Field(alias="campaign")]
    experiments: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
    """Paths, relative to this file."""
    testbeds: tuple[TestbedRef, ...] = ()
    """Testbeds of the runs; without any, each experiment runs on the testbed that it names."""
    versions: Annotated[dict[Name, CommandsOfLevel], Field(default_factory=dict)]
    nights: Annotated[int, Field(ge=1, le=1000)] = 1
    hours: Annotated[Hours | None, BeforeValidator(_hours, json_schema_input_type=str | None)] = None
    fleet: Annotated[Fleet, BeforeValidator(as_fleet, json_schema_input_type=str | Fleet)] = Fleet()
    at_once: Annotated[int | None, Field(ge=1, le=64)] = None
    """Most testbeds in use at the same time. None means one on this machine, and all of them with workers."""
    tries: Annotated[int, Field(ge=1, le=_MOST_TRIES)] = 3
    """Most attempts at a run that ends early."""
    again_after: Annotated[Duration, AfterValidator(_positive)] = Seconds(600.0)


@dataclass(frozen=True)
class PlannedCampaign:
    """A campaign and all its runs, in order."""

    campaign: Campaign
    runs: tuple[PlannedRun, ...]
    files: tuple[Path, ...]
    """Files from which its runs are read."""


def read_campaign(path: Path) -> PlannedCampaign:
    """Read the campaign in `path` and check every run against its testbed. Raises SpecRefused with every fault of all files."""
    source = parse(read_file(path), str(path))
    here = path.parent.absolute()
    try:
        campaign = Campaign.model_validate(source.data, context=FILE_CONTEXT)
    except ValidationError as error:
        own = [source.fault(*of) for of in plain_faults(error)]
        raise SpecRefused(list(dict.fromkeys([*own, *_faults_of_files(source, here)]))) from error
    faults, planned, files, called = list[Fault](), list[PlannedRun](), {path.absolute()}, dict[str, str]()
    testbeds: Sequence[tuple[int, LabRef | TestbedPath | None]] = _once(campaign.testbeds, here) or [(0, None)]
    for (at, name), (bed_at, testbed), version in product(_once(campaign.experiments, here), testbeds, campaign.versions or ("",)):
        file = here / name
        bed = here / testbed.path if isinstance(testbed, TestbedPath) else None
        overrides = (
            [] if not isinstance(testbed, LabRef) else [f"testbed={json.dumps(testbed.model_dump(mode='json', exclude_defaults=True))}"]
        )
        if version:
            level = {version: source.data["versions"][version]}
            overrides += [f"factors.{VERSION}={json.dumps([version])}", f"levels.{VERSION}={json.dumps(level)}"]
        try:
            text = _read(file, source, ("experiments", at))
            if bed is not None:
                _read(bed, source, ("testbeds", bed_at))
            spec = given_experiment(text, file, overrides, testbed=bed)
        except SpecRefused as refused:
            faults += [_placed(fault, source, bed_at) for fault in refused.faults]
            continue
        if version and VERSION in (parse(text, str(file)).data.get("factors") or {}):
            faults.append(source.fault(("versions",), f"{name} already has a factor `{VERSION}`", FaultKind.CONFLICT))
        own_bed = spec.experiment.testbed
        bed_file = None if isinstance(own_bed, LabRef) else bed or path_of_testbed(file, own_bed)
        label = own_bed.lab if isinstance(own_bed, LabRef) else Path(own_bed.path).stem
        if (other := called.setdefault(label, what := _one_name(bed_file) if bed_file else f"lab {label}")) != what:
            what = f"{what} and {other} are both called `{label}`; workers and leases know a testbed by this name, so rename one file"
            faults.append(source.fault(("testbeds", bed_at) if testbed else ("experiments", at), what, FaultKind.DUPLICATE))
        files |= {file, *([bed_file] if bed_file else [])}
        arguments = [
            str(file),
            *(word for override in overrides for word in ("--set", override)),
            *(["--testbed", str(bed)] if bed else []),
        ]
        planned.append(PlannedRun(0, spec.experiment.name, label, version, 0, tuple(arguments)))
    if faults:
        raise SpecRefused(list(dict.fromkeys(faults)))
    nights = range(1, campaign.nights + 1)
    runs = [replace(run, number=number, night=night) for number, (night, run) in enumerate(product(nights, planned), start=1)]
    return PlannedCampaign(campaign, tuple(runs), tuple(sorted(files)))


def _once(listed: Sequence[_T], here: Path) -> list[tuple[int, _T]]:
    """Return the distinct items of a list, each with its index. Two paths of the same file count as one item."""
    item_by_name = dict[str, tuple[int, _T]]()
    for at, item in enumerate(listed):
        item_by_name.setdefault(repr(item) if isinstance(item, LabRef) else _one_name(here / str(item)), (at, item))
    return list(item_by_name.values())


def _one_name(file: Path) -> str:
    """Return the file's path with its folder resolved, so that it is the same for every way to write the folder."""
    return str(file.parent.resolve() / file.name)


def _read(file: Path, source: Source, loc: Loc) -> bytes:
    """Read a file that the campaign names at `loc`. Raises SpecRefused with the fault at `loc`."""
    try:
        return read_file(file)
    except SpecRefused as refused:
        raise SpecRefused([source.fault(loc, f"{f.file} {f.what}", FaultKind.UNREADABLE) for f in refused.faults]) from refused


def _placed(fault: Fault, source: Source, bed_at: int) -> Fault:
    """Return the fault, moved to its place in the campaign where the campaign caused it by an override."""
    if fault.file != OPTION:
        return fault
    head, *rest = fault.path.split(".")
    if head != "levels":
        return source.fault(("testbeds", bed_at) if head == "testbed" else ("versions",), fault.what, fault.kind)
    return source.fault(("versions", *rest[1:2], *(int(part) if part.isdigit() else part for part in rest[2:])), fault.what, fault.kind)


def _faults_of_files(source: Source, here: Path) -> Iterator[Fault]:
    """Yield the faults of the named files: of each testbed, and of each experiment with the first testbed that is a file."""
    data = source.data if isinstance(source.data, Mapping) else {}
    experiments, testbeds = (
        [(at, item) for at, item in enumerate(listed if isinstance(listed, list) else []) if isinstance(item, str) and item]
        for listed in (data.get("experiments"), data.get("testbeds"))
    )
    for at, name in testbeds:
        try:
            given_testbed(_read(here / name, source, ("testbeds", at)), here / name)
        except SpecRefused as refused:
            yield from refused.faults
    bed = next((here / name for _, name in testbeds), None)
    for at, name in experiments:
        try:
            given_experiment(_read(here / name, source, ("experiments", at)), here / name, testbed=bed)
        except SpecRefused as refused:
            yield from (fault for fault in refused.faults if not (fault.path == "testbed" and data.get("testbeds")))
