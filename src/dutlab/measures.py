"""Measures: the unit of each figure, its better direction, and the layer at which a bit rate is counted. Each is declared once, here.

Records, tables and exports use a measure's name. `{p}` in a name is the place of a statistic: min, mean, avg, max, first, last, or a
percentile: p50, p99, p999 (99.9 %). The name never contains the figure's link, direction, goal, stream, job or phase: these are its
subject (dutlab.subject).

Intended, offered and received are three numbers (RFC 2285 section 3.5): asked of the generator, sent by it, and forwarded by the DUT.
Frame rates are per second. Bit rates name their layer: L1 counts preamble and gap, L2 the frame from its first byte to its FCS, goodput
the payload that the receiving program got. Frame sizes include the FCS.

A figure of another tool's file or of a user's step may have no measure. The end of its name gives its unit; no better direction is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from typing import Literal

from dutlab.subject import figure_name

Better = Literal["higher", "lower", ""]
"""Better direction of values; empty where neither is better, as for an intended load."""


class MeasureKind(Enum):
    """Kind of quantity."""

    RATE = "rate"
    TIME = "time"
    RATIO = "ratio"
    COUNT = "count"
    SIZE = "size"
    POWER = "power"
    EFFICIENCY = "work for energy"
    TEMPERATURE = "temperature"


class MeasureUnit(Enum):
    """Ending of a figure's name, unit of its value, and kind of quantity. Where two endings fit a name, the longer one counts."""

    PPS_PER_W = ("pps_per_w", "pps/W", MeasureKind.EFFICIENCY)
    J_PER_GB = ("j_per_gb", "J/GB", MeasureKind.EFFICIENCY)
    J_PER_MPKT = ("j_per_mpkt", "J/Mpkt", MeasureKind.EFFICIENCY)
    PER_FRAME = ("per_frame", "/frame", MeasureKind.COUNT)
    PER_CPU_S = ("per_cpu_s", "/CPU s", MeasureKind.RATE)
    PER_WORK = ("per_work", "/piece of work", MeasureKind.COUNT)
    BYTES_PER_S = ("bytes_per_s", "bytes/s", MeasureKind.RATE)
    BPS_L1 = ("bps_l1", "bit/s", MeasureKind.RATE)
    BPS_L2 = ("bps_l2", "bit/s", MeasureKind.RATE)
    BPS = ("bps", "bit/s", MeasureKind.RATE)
    PPS = ("pps", "pps", MeasureKind.RATE)
    IOPS = ("iops", "IOPS", MeasureKind.RATE)
    PER_S = ("per_s", "/s", MeasureKind.RATE)
    PER_MIN = ("per_min", "/min", MeasureKind.RATE)
    PERCENT = ("percent", "%", MeasureKind.RATIO)
    RATIO = ("ratio", "", MeasureKind.RATIO)
    NS = ("ns", "ns", MeasureKind.TIME)
    S = ("s", "s", MeasureKind.TIME)
    BYTES = ("bytes", "bytes", MeasureKind.SIZE)
    FRAMES = ("frames", "frames", MeasureKind.COUNT)
    CORES = ("cores", "cores", MeasureKind.COUNT)
    WATTS = ("watts", "W", MeasureKind.POWER)
    W = ("w", "W", MeasureKind.POWER)
    C = ("c", "degC", MeasureKind.TEMPERATURE)
    ONE = ("", "", MeasureKind.COUNT)
    """Count of the things that the name says."""

    def __init__(self, ending: str, symbol: str, kind: MeasureKind) -> None:
        self.ending = ending
        self.symbol = symbol
        self.kind = kind

    @classmethod
    def ends(cls, name: str) -> MeasureUnit:
        """Return the unit whose ending `name` has, as a separate word."""
        return next(unit for unit in cls if not unit.ending or name == unit.ending or name.endswith(f"_{unit.ending}"))


BIT_RATES = frozenset({MeasureUnit.BPS, MeasureUnit.BPS_L1, MeasureUnit.BPS_L2})

_VALUE_OF_MANY = r"(min|mean|avg|max|first|last|p\d+)"


@dataclass(frozen=True)
class Measure:
    """One kind of figure."""

    name: str
    """Name of the figure, with `{p}` in the place of the statistic."""
    unit: MeasureUnit
    better: Better
    words: str
    """Meaning, for the table of measures."""
    is_speed: bool = False
    """True if verdicts say faster or slower, as for rates of work and waiting times."""
    is_factor: bool = False
    """True for a ratio that is a multiple of something; other ratios are shares."""
    is_exact: bool = False
    """True if the same files always give the same value: a difference needs no statistical test, and repeats add nothing."""

    @property
    def layer(self) -> str:
        """`L1`, `L2`, or empty for a program's payload and for measures other than bit rates."""
        return {MeasureUnit.BPS_L1: "L1", MeasureUnit.BPS_L2: "L2"}.get(self.unit, "")

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Regular expression that matches the whole name with any statistic."""
        return re.compile(_VALUE_OF_MANY.join(map(re.escape, self.name.split("{p}"))))


def _all(unit: MeasureUnit, better: Better, words: str, names: str, *, speed: bool = False, factor: bool = False) -> Iterator[Measure]:
    return (Measure(name, unit, better, words, speed, factor) for name in names.split())


def _counted(words: str, names: str) -> Iterator[Measure]:
    return (Measure(name, MeasureUnit.PER_FRAME, "lower", words, is_exact=True) for name in names.split())


_U = MeasureUnit
_OFFERED = "what was asked of the generator, what it offered, or a load between"
_GOODPUT = "payload that the program at the other end got"
_RECEIVED = "frames that came through the DUT"
_BOUND = "a bound of a rate that a search found, for one goal"
_LATENCY = "how long a frame was on its way (RFC 1242 section 3.8), or an answer"
_VARIATION = "how much the delay of frames varies (RFC 3393, RFC 5481)"
_BY_CPU = "work for one second of one processor"
_BY_FORWARDER = "the same, of the threads that forward alone"
_COUNTED = "what the threads that forward did for one frame, as the processor counts it"
_INCREASE = "how much longer a frame is on its way under load than the median without load"
_SILENCE = "time in which nothing came through"
_LOST = "a share that was lost or did not succeed"
_BAD_FRAMES = "frames that were lost, or did not come as they were sent"
_ENERGY = "energy for data or packets"
_ESTABLISHED = "establishment_lower_per_s establishment_upper_per_s"
MEASURES: Sequence[Measure] = (
    # Intended, offered or set values, and results of the rig.
    *_all(_U.PPS, "", _OFFERED, "intended_pps offered_pps asked_pps load_pps max_pps reference_pps max_offered_pps"),
    *_all(_U.PPS, "", "the same frames without the DUT", "rig_offered_pps rig_received_pps"),
    *_all(_U.BPS, "", _OFFERED, "offered_bps sent_bps"),
    *_all(_U.BPS_L1, "", _OFFERED, "offered_bps_l1"),
    *_all(_U.BPS_L2, "", _OFFERED, "offered_bps_l2"),
    *_all(_U.RATIO, "", _OFFERED, "offered_line_ratio offered_share_ratio offered_step_ratio target_loss_ratio"),
    *_all(_U.RATIO, "", "the share of failures of a device after which frames passed: it fails open", "open_ratio"),
    *_all(_U.ONE, "", "how many requests were outstanding there", "depth"),
    *_all(_U.ONE, "", "how much was done to find it", "trials rounds search_trials routes_loaded routes_hit routes_count tunnels_count"),
    *_all(_U.S, "", "how long a search sent, and how much sooner it ended", "search_sent_s search_saved_s"),
    # Properties of a measurement or of a clock.
    *_all(_U.NS, "", "a property of the clocks", "resolution_ns clock_ahead_ns clock_error_ns earliest_ns latest_ns"),
    *_all(_U.NS, "", "the time between two samples, and how wrong an instant can be", "sampling_ns instant_error_ns"),
    *_all(_U.NS, "", "a buffer's depth that a burst implies (RFC 9004)", "buffer_implied_ns buffer_corrected_ns"),
    *_all(_U.S, "", "when it was", "at_s"),
    *_all(_U.NS, "", "from a failure to the first frame that is lost", "loss_begins_ns"),
    *_all(_U.FRAMES, "", "how much the bursts of a cell differ", "burst_stddev_frames"),
    *_all(_U.W, "", "how wrong a meter can be", "error_w"),
    *_all(_U.IOPS, "", "how steady a state is (SNIA PTS)", "range_iops slope_iops"),
    *_all(_U.FRAMES, "", "counts of one trial", "sent_frames received_frames sender_frames receiver_frames made_frames"),
    *_all(_U.BYTES, "", "how large, or how much was written", "capacity_bytes written_bytes"),
    # Better direction depends on the amount of work done.
    *_all(_U.PERCENT, "", "how busy a processor was", "sender_cpu_percent receiver_cpu_percent generator_cpu_percent"),
    *_all(_U.CORES, "", "cores that were busy", "fio_cpu_cores host_cpu_cores"),
    *_all(_U.C, "", "a temperature", "idle_c load_c peak_c limit_c temperature_c"),
    *_all(_U.ONE, "", "events that a processor counted, as long as the test was", "count"),
    # Rates of work.
    *_all(_U.BPS, "higher", _GOODPUT, "goodput_bps", speed=True),
    *_all(_U.BYTES_PER_S, "higher", _GOODPUT, "goodput_bytes_per_s", speed=True),
    *_all(_U.PPS, "higher", _RECEIVED, "received_pps max_received_pps rig_received_pps", speed=True),
    *_all(_U.BPS, "higher", _RECEIVED, "received_bps", speed=True),
    *_all(_U.BPS_L1, "higher", _RECEIVED, "received_bps_l1 max_received_bps_l1", speed=True),
    *_all(_U.BPS_L2, "higher", _RECEIVED, "received_bps_l2", speed=True),
    *_all(_U.PPS, "higher", "the highest rate without loss (RFC 1242 section 3.17)", "throughput_pps", speed=True),
    *_all(_U.BPS, "higher", "the same", "throughput_bps", speed=True),
    *_all(_U.BPS_L1, "higher", "the same", "throughput_bps_l1", speed=True),
    *_all(_U.BPS_L2, "higher", "the same", "throughput_bps_l2", speed=True),
    *_all(_U.PPS, "higher", "what a generator makes", "made_pps max_ok_pps least_pps most_pps after_pps", speed=True),
    *_all(_U.PPS, "higher", "the load from which more loss than allowed follows", "saturation_pps", speed=True),
    *_all(_U.BPS_L1, "higher", "the same", "saturation_bps_l1", speed=True),
    *_all(_U.PPS, "higher", _BOUND, "lower_pps upper_pps conditional_pps", speed=True),
    *_all(_U.BPS_L1, "higher", _BOUND, "lower_bps_l1 upper_bps_l1 conditional_bps_l1", speed=True),
    *_all(_U.PER_S, "higher", "how many flows a second the DUT takes: bounds", "setup_lower_per_s setup_upper_per_s", speed=True),
    *_all(_U.PER_S, "higher", "the same of connections", "connections_lower_per_s connections_upper_per_s", speed=True),
    *_all(_U.PER_S, "higher", "new connections a second that a translator establishes (RFC 9693): bounds", _ESTABLISHED, speed=True),
    *_all(_U.PER_S, "higher", "connections deleted in a second (RFC 9693)", "tear_down_per_s tear_down_net_per_s", speed=True),
    *_all(_U.PPS, "higher", "the load at which a given share is lost", "critical_pps", speed=True),
    *_all(_U.PPS, "higher", "the interval of the same", "critical_low_pps critical_high_pps low_pps high_pps", speed=True),
    *_all(_U.PPS, "higher", "a rate of an imported table", "pps rate_pps", speed=True),
    *_all(_U.BPS, "higher", "a rate of an imported table", "bps rate_bps", speed=True),
    *_all(_U.BPS_L1, "higher", "a rate of an imported table", "bps_l1 rate_bps_l1", speed=True),
    *_all(_U.BPS_L2, "higher", "a rate of an imported table", "bps_l2 rate_bps_l2", speed=True),
    *_all(_U.BYTES_PER_S, "higher", "bytes of drives, or of an imported table", "bytes_per_s rate_bytes_per_s", speed=True),
    *_all(_U.IOPS, "higher", "requests of a drive that were answered", "iops least_iops", speed=True),
    *_all(_U.BYTES_PER_S, "higher", "how fast an array is made whole", "rebuild_bytes_per_s", speed=True),
    *_all(_U.RATIO, "higher", "IOPS of bursts after pauses ÷ IOPS without pauses (SNIA PTS)", "after_idle_ratio"),
    *_all(_U.PER_S, "higher", "what was completed in a second", "transactions_per_s completed_per_s routes_load_per_s", speed=True),
    *_all(_U.PER_MIN, "higher", "responsiveness (draft-ietf-ippm-responsiveness)", "round_trips_per_min", speed=True),
    *_all(_U.PER_S, "higher", "new TLS handshakes a second", "tls_handshakes_per_s", speed=True),
    # More is better, but it is not a speed.
    *_all(_U.PPS_PER_W, "higher", "packets for power", "pps_per_w"),
    *_all(_U.PER_CPU_S, "higher", _BY_CPU, "received_frames_per_cpu_s goodput_bits_per_cpu_s"),
    *_all(_U.PER_CPU_S, "higher", _BY_FORWARDER, "forwarded_frames_per_cpu_s forwarded_bits_per_cpu_s"),
    *_all(_U.PER_WORK, "higher", "the same, in the CPU time of a fixed piece of work", "forwarded_frames_per_work forwarded_bits_per_work"),
    *_all(_U.RATIO, "higher", "rate of the rig without the DUT ÷ result", "headroom_ratio", factor=True),
    *_all(_U.C, "higher", "how far below its limit a temperature stays", "headroom_c heat_headroom_c"),
    *_all(_U.RATIO, "higher", "the share of what the line carries", "line_ratio received_line_ratio max_line_ratio saturation_line_ratio"),
    *_all(_U.RATIO, "higher", "the share of what was offered that came through", "delivered_ratio share_ratio delivered_share_ratio"),
    *_all(_U.RATIO, "higher", "the same", "throughput_ratio throughput_share_ratio received_step_ratio received_step_share_ratio"),
    *_all(_U.RATIO, "higher", "the share of changes that lost nothing", "lossless_ratio"),
    *_all(_U.RATIO, "higher", "the share of TLS handshakes that resumed a session", "tls_resumed_ratio"),
    *_all(_U.PERCENT, "higher", "the load at the knee of latency", "knee_percent"),
    *_all(_U.S, "higher", "time without failure", "saturation_s longest_clean_s"),
    *_all(_U.ONE, "higher", "how many a table holds (RFC 3511)", "concurrent_flows concurrent_upper_flows"),
    *_all(_U.ONE, "higher", "the same", "concurrent_connections concurrent_upper_connections"),
    *_all(_U.ONE, "higher", "the same", "established_connections completed_connections"),
    *_all(_U.ONE, "higher", "connections that a translator's table holds (RFC 9693)", "capacity_connections capacity_upper_connections"),
    *_all(_U.FRAMES, "higher", "the longest burst without loss (RFC 9004)", "burst_frames burst_mean_frames"),
    *_all(_U.FRAMES, "higher", "the longest burst without loss (RFC 9004)", "burst_min_frames burst_max_frames"),
    *_all(_U.FRAMES, "higher", "the burst from which frames are lost", "lost_from_frames"),
    *_all(_U.BYTES, "higher", "the longest that passes", "path_mtu_bytes payload_bytes whole_bytes"),
    # Waiting times.
    *_all(_U.NS, "lower", _LATENCY, "latency_ns latency_{p}_ns", speed=True),
    *_all(_U.NS, "lower", _LATENCY, "rtt_{p}_ns", speed=True),
    *_all(_U.NS, "lower", _INCREASE, "latency_increase_{p}_ns", speed=True),
    *_all(_U.S, "lower", "from the end of a load until its queues are empty", "settle_s", speed=True),
    *_all(_U.NS, "lower", "total time that a drive took", "lat_{p}_ns", speed=True),
    *_all(_U.NS, "lower", "the same, from when it had the request", "clat_{p}_ns", speed=True),
    *_all(_U.NS, "lower", "the same, until it had the request", "slat_{p}_ns", speed=True),
    *_all(_U.PERCENT, "", "how far a closed loop's latency is from the open loop's at the same rate", "closed_error_{p}_percent"),
    *_all(_U.NS, "lower", "how long a connection's parts took", "handshake_{p}_ns first_byte_{p}_ns response_{p}_ns", speed=True),
    *_all(_U.NS, "lower", "the same of the handshake of TLS", "tls_handshake_{p}_ns", speed=True),
    *_all(_U.NS, "lower", "typical and worst-case latency (RFC 9411)", "tl_ns wcl_ns", speed=True),
    *_all(_U.NS, "lower", "how long a command took", "command_ns", speed=True),
    *_all(_U.NS, "lower", "until it forwards again (RFC 6201, RFC 2544 section 26.5)", "reset_ns recovery_ns", speed=True),
    *_all(_U.S, "lower", "until writes are as fast again as before another load (SNIA PTS)", "recovery_s", speed=True),
    *_all(_U.S, "lower", "how long it took", "routes_load_s rebuild_s tear_down_s duration_s real_s user_s sys_s", speed=True),
    # Less is better.
    *_all(_U.NS, "lower", _VARIATION, "pdv_ns pdv_{p}_ns ipdv_{p}_ns jitter_ns"),
    *_all(_U.NS, "lower", _SILENCE, "outage_ns outage_max_ns"),
    *_all(_U.S, "lower", _SILENCE, "silence_s"),
    *_all(_U.NS, "lower", "how long a flow had no way while a path failed or came back (RFC 6412)", "route_loss_{p}_ns loss_derived_ns"),
    *_all(_U.NS, "lower", "from that event until flows had a way again (RFC 6412)", "first_route_ns full_convergence_ns full_rate_ns"),
    *_all(_U.RATIO, "lower", "the share of the flows that lost frames in it", "affected_ratio"),
    *_all(_U.NS, "lower", "how long two bursts must be apart", "between_ns between_bursts_ns"),
    *_all(_U.NS, "lower", "time between the starts or ends of streams that began together", "skew_ns"),
    *_all(_U.RATIO, "lower", _LOST, "loss_ratio loss_at_max_ratio"),
    *_all(_U.RATIO, "lower", _LOST, "refused_ratio queue_full_ratio failed_ratio backpressure_ratio"),
    *_all(_U.RATIO, "lower", "how far two bounds are apart", "width_ratio"),
    *_all(_U.PPS, "lower", "frames that did not come through, or did not leave", "lost_pps backpressure_pps"),
    *_all(_U.ONE, "lower", "number of failures", "loss_events failed_steps retransmits"),
    *_all(_U.FRAMES, "lower", _BAD_FRAMES, "lost_frames failed_frames refused_frames backpressure_frames corrupted_frames damaged_frames"),
    *_all(_U.FRAMES, "lower", _BAD_FRAMES, "duplicated_frames reordered_frames reordered_at_least_frames late_frames"),
    *_all(_U.ONE, "lower", "connections that failed, by how", "refused_connections reset_connections unreachable_connections"),
    *_all(_U.ONE, "lower", "the same", "no_answer_connections no_handshake_connections malformed_connections closed_early_connections"),
    *_all(_U.ONE, "lower", "the same", "tls_failed_connections error_status_connections"),
    *_all(_U.WATTS, "lower", "power at the wall", "watts"),
    *_counted("instructions for a frame on a processor that counts them: the DUT's own share", "exact_instructions_per_frame"),
    *_counted("the same, of the first frame of a flow", "exact_first_instructions_per_frame"),
    *_counted("the same, of generator and sink without the DUT", "exact_rig_instructions_per_frame"),
    *_counted("the same, of all three together", "exact_whole_instructions_per_frame"),
    *_all(_U.W, "lower", "the same, less that of the idle DUT", "above_idle_w"),
    *_all(_U.J_PER_GB, "lower", _ENERGY, "j_per_gb"),
    *_all(_U.J_PER_MPKT, "lower", _ENERGY, "j_per_mpkt"),
    *_all(_U.PER_FRAME, "lower", _COUNTED, "instructions_per_frame cycles_per_frame"),
    *_all(_U.S, "lower", "how long until temperatures rest", "steady_heat_s"),
)  # fmt: skip
_PLAIN = {measure.name: measure for measure in MEASURES if "{" not in measure.name}
_OF_MANY = [measure for measure in MEASURES if "{" in measure.name]

# Rates in other tools' tables may have a prefix in their unit: gbps, rate_kpps, mbytes_per_s (interop/figure_table.py).
_SCALED = r"(?:rate_)?[kmgt]i?(?:pps|bps|bps_l1|bps_l2|bytes_per_s)"


@cache
def measure_of(name: str) -> Measure | None:
    """Return the measure of the figure (`ndr/lower_pps`) or column called `name`; None if it is not declared."""
    plain = figure_name(name).measure
    if declared := _PLAIN.get(plain) or next((measure for measure in _OF_MANY if measure.pattern.fullmatch(plain)), None):
        return declared
    return (
        Measure(plain, MeasureUnit.ONE, "higher", "a rate, in the unit of its name", is_speed=True)
        if re.fullmatch(_SCALED, plain)
        else None
    )


def declare(measure: Measure) -> None:
    """Add a measure, such as that of a plug-in workload. Raises ValueError where the name already has another measure."""
    known = measure_of(measure.name)
    if known is not None and known != measure:
        raise ValueError(f"{measure.name} is declared already, as {known.name}: {known.words}")
    if "{" in measure.name:
        _OF_MANY.append(measure)
    else:
        _PLAIN[measure.name] = measure
    measure_of.cache_clear()


def value_of_many(figure: str) -> str:
    """Return the statistic in a figure's name: `min`, `p99`; empty for a measure without one."""
    measure = measure_of(figure)
    match = measure.pattern.fullmatch(figure_name(figure).measure) if measure is not None and "{p}" in measure.name else None
    return match[1] if match else ""


def measure_unit(name: str) -> MeasureUnit:
    """Return the declared unit, or for an undeclared name the unit of its ending."""
    measure = measure_of(name)
    return MeasureUnit.ends(figure_name(name).measure) if measure is None else measure.unit


def in_unit(figure: str, unit: MeasureUnit) -> str:
    """Return the name of the figure in another unit: `ndr/lower_bps_l1` of `ndr/lower_pps`."""
    name = figure_name(figure)
    return str(name._replace(measure=f"{name.measure.removesuffix(measure_unit(figure).ending)}{unit.ending}"))


def bare_name(figure: str) -> str:
    """Return part, direction and measure without the unit: `read_clat_mean` of `clat_mean_ns.read`.

    A measure whose name is only a unit is left out.
    """
    (part, measure, way), ending = figure_name(figure), measure_unit(figure).ending
    bare = "" if measure == ending else measure.removesuffix(f"_{ending}")
    return "_".join(filter(None, (part, way.value if way else "", bare)))


class UnknownDirection(ValueError):
    """A verdict was requested on figures whose better direction is unknown."""

    def __init__(self, figures: Sequence[str]) -> None:
        self.figures = tuple(dict.fromkeys(figures))
        super().__init__(f"which side of {', '.join(self.figures)} is better is not known")


def direction_of(figure: str) -> Better | None:
    """Return the declared better direction, empty where neither is better; None for an undeclared figure."""
    measure = measure_of(figure)
    return None if measure is None else measure.better


def side_of(figure: str, declared: Mapping[str, Better]) -> Better:
    """Return the declared better direction, else the one in `declared`; empty where neither is better.

    An entry of `declared` with the empty name applies to every figure.

    Raises ValueError where `declared` contradicts the declaration.
    """
    known, own = direction_of(figure) or "", declared.get(figure, declared.get("", ""))
    if known and own and known != own:
        raise ValueError(f"of {figure} {known} is better, so {own} cannot be")
    return known or own


def is_exact(figure: str) -> bool:
    """Return whether a difference of the figure needs no statistical test."""
    measure = measure_of(figure)
    return measure is not None and measure.is_exact


def is_speed(figure: str) -> bool:
    """Return whether verdicts on the figure say faster or slower."""
    measure = measure_of(figure)
    return measure is not None and measure.is_speed
