"""Record of the parts of one workload, by import path."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class LoadPattern(enum.Enum):
    """Pattern of the load in one trial: how often it is offered, and whether it changes."""

    STEADY = "steady"
    """Offered once, at one rate from beginning to end."""
    ONE = "one"
    """Offered once, with a load or a DUT that changes meanwhile."""
    SEVERAL = "several"
    """Offered repeatedly: a load that other work disturbed can be offered again within the trial."""


class Headroom(enum.Enum):
    """Figures that are compared with those of the rig without the DUT."""

    NONE = "none"
    EACH_WAY = "each way"
    """Figures of each link and direction separately."""
    TOGETHER = "together"
    """Sum of all directions, under the name of the links."""
    FULL_SPEED = "full speed"
    """Only full speed is calibrated, since the rig's figures are shown next to the DUT's."""


class Rescoring(enum.Enum):
    """Role of a workload's trials in `dutlab rescore`, which evaluates them under each definition of a limit."""

    NO = "no"
    ALONE = "alone"
    """Each record holds all trials of a curve, in its table `trials`."""
    TOGETHER = "together"
    """Each record is a point of a curve."""


USUAL = (
    "goodput_bps",
    "*/lower_pps max_ok_pps throughput_pps",
    "received_pps",
    "max_received_pps",
    "*/iops iops",
    "rtt_p50_ns",
    "duration_s",
)
"""Main figures of cells, for workloads that name none and for those that exist only in other tools' files."""


ANY_FIGURES = "dutlab.report.sections.tool_figures:section"
"""Section that shows any figures that cells have."""


LINK, DRIVE = "link", "drive"
"""Places of figures."""


@dataclass(frozen=True)
class WorkloadPlug:
    """Parts of a workload; paths are `module:name`. An empty string means that the workload lacks the part."""

    name: str
    """Name in an experiment file."""
    says: str = ""
    """Description of what it measures, in a sentence."""
    settings: str = ""
    """Model of its settings. Workloads without one come from other tools' files only."""
    method: str = ""
    """Function that takes (Bench, Cell) and returns the result; it drives a generator."""
    tool: str = ""
    """Function that takes (GeneratorSite, Cell) and returns the result; it drives a separate program."""
    readings: str = ""
    """Function that takes (Measured, Cell, all readings of the trial, the testbed's sensors) and returns Measured with figures added."""
    check: str = ""
    """Function called before the first trial with (GeneratorSite, the cells of its tool).

    It returns the tool's version, and raises an error where the run cannot begin.
    """
    section: str = "dutlab.report.sections.goodput:section"
    """Builder of its section of the report [default: a table of modes and links]."""
    shows_imports: bool = False
    """True if the section can also show figures of other tools' files, which have no settings of the workload."""
    figures: tuple[str, ...] = USUAL
    """Main figures of its cells, in order of preference. An entry has one or more figures, separated by spaces.

    `*/lower_pps` means every part (goal) of the measurement, `iops` also means each direction. dutlab.measures has the better direction.
    """
    open_without: tuple[tuple[str, str], ...] = ()
    """Pairs (measure, upper). In a record without `upper` for a part, that part's `measure` is only a lower bound."""
    load: LoadPattern = LoadPattern.SEVERAL
    headroom: Headroom = Headroom.NONE
    rescored: Rescoring = Rescoring.NO
    table: str = ""
    """Title of its table in the section on goodput, for workloads without a separate section [default: the figure's title]."""
    departs: str = ""
    """Function that takes a Cell and returns a sentence on how it departs from RFC 2544, or nothing."""
    style: str = ""
    """Module that lays its figures out as published reviews do: `dutlab report --style` with the workload's name."""
    again: str = "dutlab.tools.raw_figures:rates"
    """Function that takes a KeptTrial and recomputes its figures from its raw files; raises CannotRecompute."""
    place: str = LINK
    """Word for one place of its figures in answers: link or drive."""
    finds_limit: bool = False
    """True if its method can offer the load at the limit again (`Measured.at_limit`)."""
    undisturbed: bool = False
    """True if neither other work nor anything that the doctor finds changes its figures, so none of it causes a doubt."""
    as_written: bool = False
    """True if its settings are measured in the order in which they are written, unless the experiment file says otherwise."""
