"""Registry of all workloads, used by all packages: one record of its parts for each workload.

A record names code by its import path, `module:name`. The code is imported at first use, to keep start-up short. A new workload needs
settings, a method or tool, a section, a test, a page, and one entry in WORKLOADS.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from dutlab.subject import each_part, figure_name, part_figure
from dutlab.workload_plug import ANY_FIGURES, DRIVE, Headroom, LoadPattern, Rescoring, WorkloadPlug

_GOALS_OPEN = (("lower_pps", "upper_pps"), ("lower_bps_l1", "upper_pps"))
_PLUGS = (
    WorkloadPlug(
        "iperf3",
        says="TCP goodput with iperf3.",
        settings="dutlab.spec.workloads.iperf3:Iperf3Workload",
        tool="dutlab.tools.iperf3.tcp:goodput",
        departs="dutlab.report.sections.goodput:departs",
        check="dutlab.tools.iperf3.tcp:check",
        table="TCP goodput",
        shows_imports=True,
        load=LoadPattern.STEADY,
    ),
    WorkloadPlug(
        "sweep",
        says="Forwarding at set rates, or at the generator's full speed.",
        settings="dutlab.spec.workloads.sweep:SweepWorkload",
        method="dutlab.methods.sweep:measure",
        section="dutlab.report.sections.sweep:section",
        shows_imports=True,
        departs="dutlab.report.sections.sweep:departs",
        load=LoadPattern.STEADY,
        headroom=Headroom.EACH_WAY,
        rescored=Rescoring.TOGETHER,
    ),
    WorkloadPlug(
        "multi-stream",
        says="Several streams at once, or one after another, each with its own ledger.",
        settings="dutlab.spec.workloads.multi_stream:MultiStreamWorkload",
        method="dutlab.methods.multi_stream:measure",
        section="dutlab.report.sections.multi_stream:section",
        again="dutlab.tools.raw_figures:stream_rates",
        figures=("*/received_pps",),
        load=LoadPattern.ONE,
    ),
    WorkloadPlug(
        "generators",
        says="Rate of each generator, with the DUT and without it.",
        settings="dutlab.spec.workloads.generators:GeneratorsWorkload",
        method="dutlab.methods.sweep:measure",
        section="dutlab.report.sections.generators:section",
        load=LoadPattern.STEADY,
        headroom=Headroom.FULL_SPEED,
    ),
    WorkloadPlug(
        "generation",
        says="Frames a second that a generator makes on a number of cores, without sending any.",
        settings="dutlab.spec.workloads.generation:GenerationWorkload",
        tool="dutlab.tools.generators.ipgen_benchmark:generation",
        check="dutlab.tools.generators.ipgen_benchmark:check",
        section="dutlab.report.sections.generation:section",
        shows_imports=True,
        figures=("made_pps",),
        load=LoadPattern.STEADY,
    ),
    WorkloadPlug(
        "quick-test",
        says="Rates without loss and latency of a box, in a few minutes.",
        settings="dutlab.spec.workloads.quick_test:QuickTestWorkload",
        method="dutlab.methods.quick_test:measure",
        section="dutlab.report.sections.quick_test:section",
        open_without=_GOALS_OPEN,
        headroom=Headroom.EACH_WAY,
        as_written=True,
    ),
    WorkloadPlug(
        "datagrams",
        says="UDP by length of datagram, with iperf3: the length from which on fragments are sent, and their cost.",
        settings="dutlab.spec.workloads.datagrams:DatagramsWorkload",
        tool="dutlab.tools.iperf3.lengths:lengths",
        check="dutlab.tools.iperf3.tcp:check",
        section="dutlab.report.sections.datagrams:section",
    ),
    WorkloadPlug(
        "matrix",
        says="iperf3 between every two hosts, in both directions, one pair at a time.",
        settings="dutlab.spec.workloads.matrix:MatrixWorkload",
        tool="dutlab.tools.iperf3.tcp:pair",
        departs="dutlab.report.sections.goodput:departs",
        check="dutlab.tools.iperf3.tcp:check",
        section="dutlab.report.sections.matrix:section",
        shows_imports=True,
        style="dutlab.report.pages.matrix_style",
    ),
    WorkloadPlug(
        "rfc2544",
        says="Run the RFC 2544 tests: throughput, latency, frame loss, back-to-back frames, recovery, reset.",
        settings="dutlab.spec.workloads.rfc2544:Rfc2544Workload",
        method="dutlab.methods.rfc2544.suite:measure",
        section="dutlab.report.sections.rfc2544:section",
        headroom=Headroom.TOGETHER,
        as_written=True,
        finds_limit=True,
    ),
    WorkloadPlug(
        "path-mtu",
        says="The largest packet that each link carries whole, hop by hop.",
        settings="dutlab.spec.workloads.path_mtu:PathMtuWorkload",
        tool="dutlab.tools.ping:path_mtu",
        check="dutlab.tools.ping:check",
        section="dutlab.report.sections.path_mtu:section",
        figures=("path_mtu_bytes",),
    ),
    WorkloadPlug(
        "latency",
        says="One-way latency at shares of one rate.",
        settings="dutlab.spec.workloads.latency:LatencyWorkload",
        method="dutlab.methods.latency:measure",
        section="dutlab.report.sections.latency:section",
        figures=("*/tl_ns", "*/wcl_ns */pdv_ns"),
        headroom=Headroom.EACH_WAY,
    ),
    WorkloadPlug(
        "bloat",
        says="Latency while TCP fills the queues, up, down and both at once: bufferbloat.",
        settings="dutlab.spec.workloads.bloat:BloatWorkload",
        method="dutlab.methods.bloat:measure",
        check="dutlab.tools.iperf3.tcp:check",
        section="dutlab.report.sections.bloat:section",
        again="dutlab.tools.raw_figures:not_read",
        figures=("latency_increase_p95_ns", "goodput_bps"),
        load=LoadPattern.ONE,
        as_written=True,
    ),
    WorkloadPlug(
        "loadtest",
        says="A ramp of load from nothing to a share of the line rate.",
        settings="dutlab.spec.workloads.loadtest:LoadtestWorkload",
        method="dutlab.methods.loadtest:measure",
        section="dutlab.report.sections.loadtest:section",
        shows_imports=True,
        style="dutlab.report.pages.loadtest_style",
        open_without=tuple((most, "saturation_pps") for most in ("max_received_pps", "max_received_bps_l1", "max_line_ratio")),
        load=LoadPattern.ONE,
        headroom=Headroom.EACH_WAY,
        finds_limit=True,
    ),
    WorkloadPlug(
        "soak",
        says="Losses and drift of latency at one rate over hours.",
        settings="dutlab.spec.workloads.soak:SoakWorkload",
        method="dutlab.methods.soak:measure",
        section="dutlab.report.sections.soak:section",
        load=LoadPattern.ONE,
        headroom=Headroom.EACH_WAY,
    ),
    WorkloadPlug(
        "soak-power",
        says="Watts, heat and loss over phases of load, idleness and power off.",
        settings="dutlab.spec.workloads.soak_power:SoakPowerWorkload",
        method="dutlab.methods.soak_power:measure",
        readings="dutlab.methods.power_figures:with_readings",
        section="dutlab.report.sections.soak_power:section",
        figures=("*/pps_per_w", "*/watts", "*/received_pps"),
        load=LoadPattern.ONE,
    ),
    WorkloadPlug(
        "reconf",
        says="Time out of service while the DUT's mode changes.",
        settings="dutlab.spec.workloads.reconf:ReconfWorkload",
        method="dutlab.methods.reconf:measure",
        section="dutlab.report.sections.reconf:section",
        figures=(
            "*/outage_ns",
            "*/outage_max_ns",
            "*/command_ns",
        ),
        load=LoadPattern.ONE,
    ),
    WorkloadPlug(
        "convergence",
        says="Loss of each flow while a path fails and while it recovers.",
        settings="dutlab.spec.workloads.convergence:ConvergenceWorkload",
        method="dutlab.methods.convergence:measure",
        section="dutlab.report.sections.convergence:section",
        figures=(
            "*/route_loss_max_ns",
            "*/lossless_ratio",
            "*/command_ns",
        ),
        load=LoadPattern.ONE,
    ),
    WorkloadPlug(
        "search",
        says="The highest rates that meet a loss goal: NDR, PDR, RFC 2544 throughput.",
        settings="dutlab.spec.workloads.search:SearchWorkload",
        method="dutlab.methods.search.method:measure",
        section="dutlab.report.sections.search:section",
        open_without=_GOALS_OPEN,
        rescored=Rescoring.ALONE,
        headroom=Headroom.EACH_WAY,
        finds_limit=True,
    ),
    WorkloadPlug(
        "routes",
        says="Forwarding with a number of routes in the DUT's table.",
        settings="dutlab.spec.workloads.routes:RoutesWorkload",
        method="dutlab.methods.routes:measure",
        section="dutlab.report.sections.routes:section",
    ),
    WorkloadPlug(
        "state",
        says="New flows a second, and most concurrent flows.",
        settings="dutlab.spec.workloads.state:StateWorkload",
        method="dutlab.methods.state.suite:measure",
        section="dutlab.report.sections.state:section",
        figures=("setup_lower_per_s concurrent_flows",),
        open_without=(("setup_lower_per_s", "setup_upper_per_s"), ("concurrent_flows", "concurrent_upper_flows")),
    ),
    WorkloadPlug(
        "stateful-nat",
        says="Stateful NAT by RFC 9693: connections a second, throughput, loss, latency, tear-down, size of the table.",
        settings="dutlab.spec.workloads.stateful_nat:StatefulNatWorkload",
        method="dutlab.methods.stateful_nat.suite:measure",
        section="dutlab.report.sections.stateful_nat:section",
        figures=("establishment_lower_per_s throughput_pps capacity_connections tear_down_per_s",),
        open_without=(
            ("establishment_lower_per_s", "establishment_upper_per_s"),
            ("capacity_connections", "capacity_upper_connections"),
        ),
    ),
    WorkloadPlug(
        "connections",
        says="TCP connections with requests and answers: new ones a second, and most at once.",
        settings="dutlab.spec.workloads.connections:ConnectionsWorkload",
        method="dutlab.methods.connections:measure",
        section="dutlab.report.sections.connections:section",
        figures=("connections_lower_per_s", "concurrent_connections"),
        open_without=(("connections_lower_per_s", "connections_upper_per_s"), ("concurrent_connections", "concurrent_upper_connections")),
        load=LoadPattern.ONE,
        finds_limit=True,
    ),
    WorkloadPlug(
        "steps",
        says="Your own commands on the hosts, in four phases.",
        settings="dutlab.spec.workloads.steps:StepsWorkload",
        tool="dutlab.tools.steps.steps:measure",
        section="dutlab.report.sections.steps:section",
        shows_imports=True,
    ),
    WorkloadPlug(
        "fio",
        says="I/O on drives with fio: any of its options, a list of values is a trial each.",
        settings="dutlab.spec.workloads.fio:FioWorkload",
        tool="dutlab.tools.fio.program:measure",
        check="dutlab.tools.fio.program:check",
        again="dutlab.tools.fio.again:fio_again",
        section="dutlab.report.sections.fio:section",
        shows_imports=True,
        place=DRIVE,
        load=LoadPattern.STEADY,
    ),
    WorkloadPlug(
        "storage-limit",
        says="I/O on drives at rising depth, until IOPS no longer rise.",
        settings="dutlab.spec.workloads.storage_limit:StorageLimitWorkload",
        tool="dutlab.tools.fio.limit:measure",
        check="dutlab.tools.fio.program:check",
        again="dutlab.tools.fio.again:limit_again",
        section="dutlab.report.sections.storage_limit:section",
        figures=("peak/iops",),
        place=DRIVE,
        load=LoadPattern.ONE,
    ),
    WorkloadPlug(
        "storage-latency",
        says="Latency of drives at given rates, counted from when each I/O was due.",
        settings="dutlab.spec.workloads.storage_latency:StorageLatencyWorkload",
        tool="dutlab.tools.fio.latency:measure",
        check="dutlab.tools.fio.program:check",
        again="dutlab.tools.fio.again:latency_again",
        section="dutlab.report.sections.storage_latency:section",
        figures=("*/lat_p999_ns", "*/lat_p99_ns", "*/lat_p50_ns"),
        place="drive",
        load=LoadPattern.ONE,
    ),
    WorkloadPlug(
        "array-failure",
        says="One load on an array while a drive fails, comes back and is rebuilt.",
        settings="dutlab.spec.workloads.array_failure:ArrayFailureWorkload",
        tool="dutlab.tools.fio.failure:measure",
        check="dutlab.tools.fio.program:check",
        again="dutlab.tools.fio.again:failure_again",
        section="dutlab.report.sections.array_failure:section",
        figures=("rebuilding/iops",),
        place=DRIVE,
        load=LoadPattern.ONE,
    ),
    WorkloadPlug(
        "pts",
        says="Drives in a known state: purge, preconditioning, and rounds to steady state (SNIA PTS).",
        settings="dutlab.spec.workloads.pts:PtsWorkload",
        tool="dutlab.tools.fio.pts:measure",
        check="dutlab.tools.fio.program:check",
        again="dutlab.tools.fio.again:pts_again",
        section="dutlab.report.sections.pts:section",
        figures=("steady/iops", "unsteady/iops", "fresh/iops"),
        place=DRIVE,
        load=LoadPattern.ONE,
    ),
    WorkloadPlug(
        "exact",
        says="Instructions a frame of a Linux router or firewall, on a simulated processor that counts them.",
        settings="dutlab.spec.workloads.exact:ExactWorkload",
        tool="dutlab.tools.exact.program:measure",
        check="dutlab.tools.exact.program:check",
        again="dutlab.tools.exact.program:again",
        section="dutlab.report.sections.exact:section",
        figures=("exact_instructions_per_frame",),
        place="guest of",
        load=LoadPattern.ONE,
        undisturbed=True,
        as_written=True,
    ),
    WorkloadPlug("flent", says="Latency under load, read from flent's files.", section=ANY_FIGURES),
    WorkloadPlug(
        "wrk", says="Requests of HTTP, read from what wrk prints.", section=ANY_FIGURES, figures=("transactions_per_s", "goodput_bps")
    ),
    WorkloadPlug("trex-astf", says="Connections of TRex's ASTF, read from its counters.", section=ANY_FIGURES),
)
WORKLOADS: Mapping[str, WorkloadPlug] = {plug.name: plug for plug in _PLUGS}
"""Name → record. The order is that of a report's sections."""


def plug_of(name: str) -> WorkloadPlug:
    """Return the record of a workload; one with defaults where only other tools' files use the name."""
    return WORKLOADS.get(name) or WorkloadPlug(name)


def main_figures(workload: str, names: Iterable[str]) -> list[str]:
    """Return the main figures of a cell with figures `names`; several where a search had several goals."""
    unique_names = list(dict.fromkeys(names))
    choices = (figures.split() for figures in plug_of(workload).figures)
    return next(
        (matches for figures in choices if (matches := [name for name in unique_names if {name, each_part(name)} & {*figures}])), []
    )


def is_open(workload: str, figure: str, figures: Collection[str]) -> bool:
    """Return whether `figure` is only a lower bound in a record with `figures`: the method reached no value that is too high."""
    part, measure, _ = figure_name(figure)
    return any(of == measure and part_figure(part, upper) not in figures for of, upper in plug_of(workload).open_without)


def settable() -> list[str]:
    """Return the names of the workloads that an experiment can use."""
    return [plug.name for plug in WORKLOADS.values() if plug.settings]
