"""Reasons to distrust a record. A doubt is data: it is kept with the result in JSON, report and web pages."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Grade(enum.Enum):
    """Weight of a doubt."""

    NOTE = "note"
    WARNING = "warning"
    SEVERE = "severe"


class DoubtKind(enum.Enum):
    """Every doubt that dutlab knows: its grade, its text and its remedy."""

    LEDGER_OPEN = (
        Grade.SEVERE,
        "frames are not conserved: sent + duplicated differs from received + lost, or frames arrived that were not sent",
        "check that no other generator sends on the link and repeat the trial; if it persists, report it as a fault of the engine",
    )
    TX_STARVED = (
        Grade.WARNING,
        "the generator did not reach the intended rate",
        "give the generator its own core, larger frames or a faster back end",
    )
    CPU_STOLEN = (
        Grade.WARNING,
        "the hypervisor took CPU time during the trial",
        "repeat on a quieter machine, or on one without a hypervisor",
    )
    DISTURBED = (
        Grade.WARNING,
        "other work on the machine disturbed the trial",
        "end the other work, or give the testbed its own cores, and repeat",
    )
    WATCHING_COSTS = (
        Grade.WARNING,
        "sensors took more than 1 % of a core of their host",
        "compare with a run that has `watch: []` and no sensors there; counters are read before and after each trial all the same",
    )
    THROTTLED = (
        Grade.SEVERE,
        "heat throttled a processor during the trial: its rate is that of a hot machine",
        "cool the device, let it rest between trials, and look at its temperatures over time",
    )
    POWER_LIMITED = (
        Grade.NOTE,
        "a limit of power slowed a processor during the trial",
        "raise the limit in its firmware, or measure at the base frequency",
    )
    SIMULATED_READINGS = (
        Grade.WARNING,
        "simulated: readings of a sensor are made up",
        "name a sensor that measures, without `simulated`",
    )
    SENSOR_FAILED = (
        Grade.WARNING,
        "a sensor failed or was silent: its readings have holes or are missing",
        "check that it answers outside a run; the traffic figures are not affected",
    )
    EMBEDDED_LAB = (
        Grade.NOTE,
        "embedded lab: relative figures",
        "compare modes with one another, not with real hardware",
    )
    VIRTUAL_PORTS = (
        Grade.NOTE,
        "the test ports are virtual: relative figures",
        "compare figures of this machine only, not with real hardware",
    )
    UNTRIED = (
        Grade.NOTE,
        "dutlab was tried with documented outputs of this system or program only, never with the real one",
        "run one mode with one short workload first, and look at the device afterwards; report what differs",
    )
    PAGE_CACHE = (
        Grade.SEVERE,
        "I/O went through memory: the figures may be of the page cache and not of the drives",
        "leave `direct` out, or write direct: 1",
    )
    FILE_SYSTEM = (
        Grade.NOTE,
        "a file was measured in place of a drive: the figures are of its file system too",
        "name a drive by-id or by serial",
    )
    ARRIVALS_MISSED = (
        Grade.WARNING,
        "I/Os were not made at the rate, or at the instants, that were asked for: latency is that of another load",
        "lower the rate, raise the depth, or give the host that makes the I/O more processor time",
    )
    SLOWER_WHEN_IDLE = (
        Grade.NOTE,
        "latency at a low rate is above that at a higher one: drive, link or processor sleep between I/Os",
        "compare with power saving off (NVMe APST, PCIe ASPM, deep C-states); state the setting with the figures",
    )
    STORAGE_ERRORS = (
        Grade.SEVERE,
        "drives answered with errors, and the job was set to continue",
        "see the drive's own log (nvme error-log, smartctl -l error, dmesg)",
    )
    NOT_STEADY = (
        Grade.SEVERE,
        "the drive did not reach steady state: its figures still change",
        "allow more rounds (`most_rounds`), or precondition it longer (`passes`)",
    )
    NOT_PURGED = (
        Grade.NOTE,
        "the drive was not purged before: what was written to it earlier may show",
        "name a `purge` (blkdiscard, nvme-format, nvme-sanitize), and allow it at the drive (`purge: yes`)",
    )
    SHORT_TRIAL = (
        Grade.NOTE,
        "shorter than RFC 2544 section 24 asks (60 s)",
        "raise the duration in the experiment file",
    )
    LOSSES_CLUSTER = (
        Grade.WARNING,
        "trials close in time lost similar shares: the device's speed varied over time; the interval is doubled",
        "soak for longer, so that each state occurs often; the table `critical` shows when it lost",
    )
    FEW_REPEATS = (
        Grade.NOTE,
        "fewer than 6 repeats: no 95 % interval exists, the spread is the range",
        "raise `repeats` to 6 or more",
    )
    RX_DROPPED = (
        Grade.WARNING,
        "the receiver dropped frames that had reached its card",
        "give the receiver its own core or a lower rate: these frames are lost by the tester, not by the DUT",
    )
    FOREIGN_FRAMES = (
        Grade.NOTE,
        "frames that are not ours arrived on the test link",
        "isolate the link",
    )
    TOOL_INCOMPLETE = (
        Grade.WARNING,
        "the tool's output was incomplete or repaired before it could be read",
        "see the raw file",
    )
    LEDGER_GUESSED = (
        Grade.WARNING,
        "frames arrived too late to know whether they are duplicates; they count as such",
        "lower the rate, or find what delays frames",
    )
    REORDERING_PARTLY_KNOWN = (
        Grade.NOTE,
        "the extent of some reordered frames is not known: the greatest may be larger than shown",
        "use the af_xdp or af_packet back end at the receiver, which keep every extent",
    )
    REORDERING_UNKNOWN = (
        Grade.NOTE,
        "how many frames were reordered is not known: they arrived on several receive queues of the sink, or several CPUs sent them",
        "give the sink's port one receive queue (`ethtool -L PORT combined 1`), or each stream one flow and one sending CPU",
    )
    RX_DROPS_UNKNOWN = (
        Grade.WARNING,
        "the receiver does not know how many frames it dropped when its buffer was full: any loss may be the tester's",
        "use another back end at the receiver",
    )
    REFUSALS_UNKNOWN = (
        Grade.WARNING,
        "the sender's kernel does not report which frames a port refused: such frames count as sent and seem lost by the DUT",
        "use a kernel with BTF (CONFIG_DEBUG_INFO_BTF), or the af_packet back end",
    )
    ABOVE_LINE_RATE = (
        Grade.SEVERE,
        "more was counted than the link can carry: its speed, the frames' size or the count is wrong",
        "check the speed of the link, and count where the frames arrive",
    )
    NEGATIVE_LOSS = (
        Grade.SEVERE,
        "more frames arrived than were sent: counters were read while frames were on their way, or frames arrived twice",
        "raise the drain, look for what makes copies, and repeat the trial",
    )
    IMPOSSIBLE_FIGURE = (
        Grade.SEVERE,
        "the file has impossible figures; they are left out",
        "see the raw file: the tool counted wrong, or the file was changed",
    )
    STALLED = (
        Grade.WARNING,
        "for whole seconds nothing arrived: the mean is not of a steady flow",
        "look at the table `seconds`; then look for a link that went down, a full table or a pause, and repeat",
    )
    COUNTED_BY_PORTS = (
        Grade.NOTE,
        "sent and received come from port counters, not from the frames: this generator has no receiver",
        "use the engine, which counts each of its frames",
    )
    QUEUED_NOT_SENT = (
        Grade.NOTE,
        "sent is what was put into the card's ring, which may be more than left the card",
        "compare with the link's line rate; beyond it the difference was dropped by the card, not by the DUT",
    )
    SENT_IN_BURSTS = (
        Grade.WARNING,
        "the generator sent each second's frames in one burst: a DUT may lose frames that it would forward if they were evenly spaced",
        "use the engine or another generator that spaces its frames",
    )
    STEPPED = (
        Grade.NOTE,
        "the ramp was made of steps of one second, with pauses between them: the rate of this generator is fixed when it starts",
        "use the engine, whose rate rises evenly",
    )
    IMPORTED = (
        Grade.NOTE,
        "imported: another tool measured this; dutlab only read its file",
        "see the raw file; what it does not state is unknown",
    )
    CORRUPTED_FRAMES = (
        Grade.WARNING,
        "frames arrived damaged and count as lost",
        "check cables and offloads of the DUT",
    )
    NOT_TOGETHER = (
        Grade.WARNING,
        "the links were not loaded at the same time throughout",
        "raise the duration, or give the generator more cores",
    )
    LATENCY_ROUGH = (
        Grade.NOTE,
        "latency is only as accurate as the clock offset between sender and receiver",
        "use one kernel clock or PTP",
    )
    LIMIT_OF_GENERATOR = (
        Grade.WARNING,
        "no upper bound: the generator did not reach the rates above the lower bound; this is its limit, the DUT's is higher",
        "use a faster back end, a separate core for the generator, or longer frames",
    )
    NO_UPPER_BOUND = (
        Grade.NOTE,
        "no upper bound: the DUT met the goal even at the highest rate of the search; its limit is at or above that rate",
        "raise `highest` if the link carries more; nothing exceeds line rate",
    )
    NO_LOWER_BOUND = (
        Grade.WARNING,
        "no lower bound: the DUT missed the goal even at the lowest rate of the search",
        "look for what loses frames at any rate, allow more loss, or lower `lowest`",
    )
    SEARCH_CUT = (
        Grade.WARNING,
        "the search ended before its bounds reached the requested width",
        "remove what ended it, or raise `budget`",
    )
    BOUNDS_WIDE = (
        Grade.WARNING,
        "the bounds are further apart than the requested width",
        "repeat the search; the limit is between them",
    )
    LIMIT_UNEXPLAINED = (
        Grade.WARNING,
        "flows failed and the DUT's own counters do not state why: it may have been the rate, or the tester",
        "lower fill_rate, or stop other work on the machines",
    )
    BOUNDS_UNLIKE = (
        Grade.SEVERE,
        "the trials contradict the final bounds of the search",
        "report it as a fault of dutlab, with the record",
    )
    GOAL_MET_ABOVE = (
        Grade.NOTE,
        "the goal was met at rates above the upper bound: the DUT has several states, or it was chance",
        "see the trials; a goal with an exceed ratio above 0 depends less on chance",
    )
    BOUNDS_MOVED = (
        Grade.WARNING,
        "a bound failed its second trial: the DUT depends on its history (heat, warm-up, buckets, states) or on chance",
        "see the trials; let the DUT warm up as it will be used, or use a goal with an exceed ratio above 0, which depends less on chance",
    )
    DUPLICATES = (
        Grade.WARNING,
        "frames arrived more than once: the DUT or the path makes copies, which displace other frames",
        "look for a loop, a mirrored port or a retransmission on the path",
    )
    LOSS_WITHOUT_CHANGE = (
        Grade.WARNING,
        "frames were also lost while nothing changed",
        "lower the rate: frames that the DUT loses anyway count as time out of service",
    )
    RIG_LIMITED = (
        Grade.WARNING,
        "limited by the rig: without the DUT it reaches less than 1.1 times this rate",
        "use a faster generator or give it more cores; the DUT may be faster than this",
    )
    TESTBED_COSTS = (
        Grade.WARNING,
        "something on the testbed distorts results, at a known cost",
        "fix it as `dutlab doctor` says, then measure again",
    )
    TESTBED_SUSPECT = (
        Grade.NOTE,
        "something on the testbed may distort results; its cost is unknown, or zero at present",
        "see `dutlab doctor` for details",
    )
    LATENCY_UNKNOWN = (
        Grade.NOTE,
        "no latency: the clocks of sender and receiver may differ",
        "use one kernel clock or PTP",
    )

    LINK_WENT_DOWN = (
        Grade.SEVERE,
        "a link of the testbed went down during the trial: these losses are not the DUT's",
        "check the cable, the module and whether the port was set down; then repeat the trial",
    )
    CLOCK_JUMPED = (
        Grade.WARNING,
        "a host's clock was set during the trial",
        "let its time service slew (`chronyc makestep` before the run, not in it); a step on this host may have begun at another time",
    )

    def __init__(self, grade: Grade, text: str, remedy: str) -> None:
        self.grade, self.text, self.remedy = grade, text, remedy


@dataclass(frozen=True)
class Doubt:
    """One doubt about one trial. `about` names the figure or link in doubt; if it is empty or a host, all are. `detail` has the numbers."""

    kind: DoubtKind
    detail: str = ""
    about: str = ""
