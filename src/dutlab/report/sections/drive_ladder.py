"""Ladder of drives: ratings, array, links and memory against the measured rate, from the testbed file and the hosts' facts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dutlab.measures import MeasureUnit, measure_unit
from dutlab.physics.ceilings.ladder import Ladder, Load, ladder, rated_iops
from dutlab.physics.ceilings.path import Topology, topology
from dutlab.physics.ceilings.storage import Array, DriveRating
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import Section
from dutlab.report.model.table import Column, Row, Table
from dutlab.report.model.words import alike_names, setting_words
from dutlab.report.sections.drive_facts import drives_of
from dutlab.report.sections.fio import drives_words
from dutlab.spec.drives import host_of_drive, is_size, parse_size
from dutlab.spec.known import MDRAID, mode_of
from dutlab.spec.workloads.on_drives import options_of
from dutlab.stats.summary import median
from dutlab.systems.modes import SETS
from dutlab.units import si

_BLOCK = "4k"
"""fio's default block size."""
_WAYS = {"read": 0.0, "randread": 0.0, "write": 1.0, "randwrite": 1.0}
"""`rw` → share of writes; mixes have no rating."""
_RATED = ("read_iops", "write_iops", "read_bytes_per_s", "write_bytes_per_s")
_CHANNEL = re.compile(r"(?i)\bchannel[ _-]?\w+")


class DriveLadders:
    """Facts about a testbed's drives: their ratings, and the links between them and the processor."""

    def __init__(self, testbed: Mapping[str, Any], hosts: Mapping[str, Mapping[str, Any]]) -> None:
        rated = {name: of for name, of in _drives(testbed).items() if isinstance(of.get("rated"), Mapping)}
        self._rated = {name: DriveRating(**{key: of["rated"].get(key) for key in _RATED}) for name, of in rated.items()}
        self._facts = {name: facts for name, of in _drives(testbed).items() if (facts := _facts_of(name, of, hosts)) is not None}
        self._hosts = hosts

    def load(self, group: Group) -> Load | None:
        """Return the load on the drives; None if no rating applies to such requests."""
        way, size = (options_of(group.cell.setting).get(name, "") for name in ("rw", "bs"))
        block = parse_size(size or _BLOCK) if is_size(size or _BLOCK) else 0
        return Load(block, _WAYS[way]) if way in _WAYS and block else None

    def rating(self, group: Group) -> float | None:
        """Return the sum of the ratings of all its drives; None if a drive has no rating for such requests."""
        load, drives = self.load(group), group.cell.links
        if load is None or measure_unit(group.main[0]) is not MeasureUnit.IOPS or not all(name in self._rated for name in drives):
            return None
        ratings = [rated_iops(self._rated[name], load) for name in drives]
        return sum(one for one in ratings if one) if all(ratings) else None

    def of(self, group: Group) -> Ladder | None:
        """Return the ladder of a cell; None unless all its drives have the same rating."""
        load, drives = self.load(group), group.cell.links
        if load is None or self.rating(group) is None or len({self._rated[name] for name in drives}) != 1:
            return None
        spec, array = mode_of(MDRAID, group.cell.mode).array, None
        try:
            if spec and spec.raid is not None and spec.state in ("", "rebuilt"):  # other levels write elsewhere
                array = Array(spec.raid, len(drives), SETS if spec.set_level else None)
            return ladder(len(drives), self._rated[drives[0]], load, array=array, path=self._path(drives))
        except ValueError:  # an array's writes need a rating of reads too
            return ladder(len(drives), self._rated[drives[0]], load, path=self._path(drives))

    def _path(self, drives: Sequence[str]) -> Topology:
        hosts = {host_of_drive(name) for name in drives}
        ways = {name: self._facts[name].get("pcie") or () for name in drives if name in self._facts}
        return topology(ways, memory_of(self._hosts.get(hosts.pop(), {})) if len(hosts) == 1 else None)


def ladder_section(groups: Sequence[Group], ladders: DriveLadders) -> tuple[Section, ...]:
    """Return the section with a row per cell of rated drives; none without any."""
    rated = [(g, drive_ladder) for g in groups if g.measured and (drive_ladder := ladders.of(g)) is not None]
    if not rated:
        return ()
    names = list(dict.fromkeys(rung.name for _, drive_ladder in rated for rung in drive_ladder.rungs))
    alike = alike_names(group.cell.setting for group, _ in rated) if len(rated) > 1 else set[str]()
    heads = (
        "drives",
        "setting",
        names[0],
        *(f"{name}, of that" for name in names[1:]),
        "measured",
        "of the rating",
        "lowest rung",
        "of it",
    )
    rows = tuple(_row(*one, names, alike) for one in rated)
    return (
        Section(
            slug="drive-ladder",
            workload="",
            title="The ladder of the drives",
            lead="What each part allows, as a share of the drives' rating; the lowest rung binds. Above 100 % of it, a rating or a "
            "link was stated wrongly. A rung is left out where it is not known.",
            tables=(
                Table(
                    "drive-ladder",
                    "Rungs and measured rate",
                    tuple(Column(head, shown=head != "setting" or any(row.cells[1] for row in rows)) for head in heads),
                    rows,
                ),
            ),
        ),
    )


def memory_of(facts: Mapping[str, Any]) -> tuple[float, int] | None:
    """Return megatransfers a second and the number of channels; None unless every DIMM reports both."""
    dimms = facts.get("dimms") or ()
    speeds = [dimm.get("mts_now") or dimm.get("mts") for dimm in dimms]
    places = [f"{dimm.get('bank', '')} {dimm.get('place', '')}" for dimm in dimms]
    channels = {str(dimm.get("bank" if _CHANNEL.search(str(dimm.get("bank"))) else "place")) for dimm in dimms}
    if not speeds or not all(speeds) or not all(map(_CHANNEL.search, places)):
        return None
    return float(min(speeds)), len({_before(place) for place in channels})


def value_of_main(group: Group) -> float:
    """Return the median of the cell's main figure."""
    figure, link = group.main
    return median([r.figures[link][figure] for r in group.measured if figure in r.figures.get(link, {})])


def _row(group: Group, ladder: Ladder, names: Sequence[str], alike: Collection[str]) -> Row:
    rungs, value = {rung.name: rung for rung in ladder.rungs}, value_of_main(group)
    setting = setting_words(group.cell.setting, without=alike)
    shares = (f"{ladder.share(rungs[name].iops):.1%}" if name in rungs else "–" for name in names[1:])
    rating, binds = ladder.rungs[0].iops, ladder.binds
    cells = (si(rating, "IOPS"), *shares, si(value, "IOPS"), f"{ladder.share(value):.1%}", binds.name, f"{value / binds.iops:.1%}")
    return group.row((drives_words(group), setting, *cells), link=group.cell.link_label)


def _before(place: str) -> str:
    """Return a DIMM's place up to its channel, which several DIMMs may share."""
    m = _CHANNEL.search(place)
    return place[: m.end()] if m else place


def _drives(testbed: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return `host:drive` → drive in the testbed file."""
    hosts = testbed.get("hosts")
    return {
        f"{host}:{name}": drive
        for host, of in (hosts.items() if isinstance(hosts, Mapping) else ())
        if isinstance(of, Mapping) and isinstance(drives := of.get("drives"), Mapping)
        for name, drive in drives.items()
        if isinstance(drive, Mapping)
    }


def _facts_of(name: str, drive: Mapping[str, Any], hosts: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the facts of the drive with the serial number in the testbed file, or in the drive's name; None if not exactly one has it."""
    by_id, serial = str(drive.get("by_id") or drive.get("by-id") or ""), drive.get("serial")
    matches = [
        facts
        for facts in drives_of(hosts.get(host_of_drive(name), {})).values()
        if (own := str(facts.get("serial") or "")) and (own == serial or by_id.endswith(f"_{own}"))
    ]
    return matches[0] if len(matches) == 1 else None
