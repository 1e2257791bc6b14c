"""Facts of a result from which its limit is derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dutlab.units import si

BUSY = 95.0
"""Percent from which on a core counts as fully busy."""
NO_LOSS = 0.001
"""Loss ratio up to which a result counts as lossless."""
FULL_CALLS = 0.75
"""Share of the most frames per poll from which on a polling device has no time left: frames wait for it at each poll."""


@dataclass(frozen=True)
class Core:
    """Load of one core during the trial. `shares`: kind of work → percent, without idle."""

    number: int
    shares: Mapping[str, float]

    @property
    def busy(self) -> float:
        """Percent of time in which the core was not idle."""
        return sum(self.shares.values())

    @property
    def mostly(self) -> str:
        """Kind of work that took the most time of the core."""
        return max(self.shares, key=lambda kind: self.shares[kind], default="nothing")


@dataclass(frozen=True)
class Neighbour:
    """Result with packets of another size."""

    name: str
    """Packet size in words: `1518 B`, `MTU 9000`."""
    mean_bytes: float
    pps: float
    share_of_line: float | None = None
    same_mode: bool = True


@dataclass(frozen=True)
class Facts:
    """Facts about one result. None means not known; only `value` and `unit` are required."""

    value: float
    unit: str
    """`pps` or `b/s`."""
    line: float | None = None
    """The link's ceiling for this figure, in the same unit."""
    assumed: str = ""
    """Assumptions behind `line`, in words: `1500 bytes assumed`; empty where all of it is known."""
    other_lines: Mapping[str, float] = field(default_factory=dict)
    """Ceilings of the link under other assumptions: `with MTU 9000` → ceiling."""
    most_seen: float | None = None
    """Highest value measured through the same link, in any mode."""
    void: tuple[str, ...] = ()
    """Doubts that forbid naming a limit: the figure is not reliable, or other work loaded the machine."""
    rig: str = ""
    """Sentence that the rig is hardly faster without the DUT; empty where it is faster, or where that is not known."""
    untested: str = ""
    """Sentence that the DUT was never offered more than it forwarded; empty where it was."""
    pps: float | None = None
    """Packets a second of this result."""
    mean_bytes: float | None = None
    asked: float | None = None
    sent: float | None = None
    received: float | None = None
    """Rates that were asked for, sent and received, in the same unit. `asked` is None for the highest possible rate."""
    loss_ratio: float | None = None
    refused_ratio: float | None = None
    """Share of the generator's frames that its port or the DUT's port did not accept."""
    generator_best: float | None = None
    """Highest rate at which this generator ever sent such frames, in the same unit."""
    generator_core: float | None = None
    sink_core: float | None = None
    """Busy percent of the busiest core of the generator and of the sink."""
    dut_cores: Sequence[Core] = ()
    polling: frozenset[int] = frozenset()
    """Numbers of the DUT's cores that were busy without load. Under load their busy percent is meaningless."""
    call_share: float | None = None
    """Frames that a polling device found per poll, as a share of the most that it takes per poll."""
    cycle_share: float | None = None
    """Share of cycles in which a polling device had frames."""
    shared_cores: str = ""
    """Reason why the DUT shares its cores, as in an embedded lab; empty where it does not."""
    places: Mapping[str, float] = field(default_factory=dict)
    """Place → share of all lost frames; names as in tools.path_counters."""
    at_cards: Mapping[str, float] = field(default_factory=dict)
    """Losses that the drivers of the DUT's cards counted: cause in words → share of all lost frames."""
    over_allowance: float = 0.0
    """Frames that a hypervisor delayed or dropped above the DUT's allowance, as a share of all lost frames."""
    table_entries: float | None = None
    table_size: float | None = None
    fragments: float = 0.0
    """Packets a second that were fragmented or reassembled."""
    streams: int | None = None
    """TCP streams; None for frames."""
    retransmits_per_s: float | None = None
    window_bytes: float | None = None
    rtt_s: float | None = None
    pcie_bps: float | None = None
    """Ceiling of the card's slot toward the host, in bits a second."""
    memory_share: float | None = None
    throttled: str = ""
    """Sentence on heat that slowed the DUT's processor, as counted by its kernel; empty where it did not, or was not read."""
    power_limited: str = ""
    """Sentence on a power limit that slowed the DUT's processor; empty where none did."""
    frequency_drop: float | None = None
    """Share of its frequency that the DUT's processor lost during the trial."""
    neighbours: Sequence[Neighbour] = ()
    other_modes: Mapping[str, float] = field(default_factory=dict)
    """Rates of the same load through the same rig in other modes, in the same unit."""
    together: float | None = None
    """Sum over several links driven at once, one of which is the link of this result; the same unit."""
    imported: bool = False
    """True if another program measured it. Its losses may come from the program, either host or an unnamed device."""
    one_testbed: bool = True
    """True if all results are known to be of one testbed, so that comparing them shows something about its DUT."""

    @property
    def polls_are_full(self) -> bool | None:
        """True if the polling cores have no time left, by the device's own counters; None where that is not known."""
        if self.call_share is None and self.cycle_share is None:
            return None
        return (self.call_share or 0.0) >= FULL_CALLS or (self.cycle_share or 0.0) * 100 >= BUSY

    def is_cool(self, most: float) -> bool:
        """Return True if all cores of the DUT are known to be below `most` percent busy."""
        return bool(self.dut_cores) and max(c.busy for c in self.dut_cores) < most and (not self.polling or self.polls_are_full is False)

    @property
    def lossless(self) -> bool:
        """True if the loss ratio is at most NO_LOSS, or not known."""
        return self.loss_ratio is None or self.loss_ratio <= NO_LOSS

    def text(self, value: float) -> str:
        """Return a value as text in the figure's unit."""
        return si(value, self.unit)
