"""Values of command options. `--help` reads these lists without importing the packages that implement the values.

Paths are `module:name`, as in workloads.py; the module is imported when it is first used.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from dutlab.by_path import named
from dutlab.workloads import WORKLOADS

PRESET = "csit"
"""Default goals of a search (dutlab.spec.goals)."""


@dataclass(frozen=True)
class GeneratorPlug:
    """Import paths of the parts of a generator."""

    model: str
    """Path of the GeneratorModel: the generator's options, and the requests that it cannot meet."""
    make: str = ""
    """Path of a function that takes (model, GeneratorSite) and returns the GeneratorTool; empty for the engine, which needs none."""
    untried: bool = False
    """True if the driver was tested only with a stand-in or documented outputs, never with the program itself."""


GENERATORS: Mapping[str, GeneratorPlug] = {
    "engine": GeneratorPlug("dutlab.spec.generators.engine:EngineModel"),
    "trafgen": GeneratorPlug("dutlab.spec.generators.trafgen:TrafgenModel", "dutlab.tools.generators.trafgen:make"),
    "pktgen": GeneratorPlug("dutlab.spec.generators.pktgen:PktgenModel", "dutlab.tools.generators.pktgen:make", untried=True),
    "xdp-trafficgen": GeneratorPlug(
        "dutlab.spec.generators.xdp_trafficgen:XdpTrafficgenModel", "dutlab.tools.generators.xdp_trafficgen:make"
    ),
    "iperf3-udp": GeneratorPlug("dutlab.spec.generators.iperf3_udp:Iperf3UdpModel", "dutlab.tools.generators.iperf3_udp:make"),
    "trex": GeneratorPlug("dutlab.spec.generators.trex:TrexModel", "dutlab.tools.generators.trex:make"),
    "pkt-gen": GeneratorPlug("dutlab.spec.generators.pkt_gen:PktGenModel", "dutlab.tools.generators.pkt_gen:make", untried=True),
    "ipgen": GeneratorPlug("dutlab.spec.generators.ipgen:IpgenModel", "dutlab.tools.generators.ipgen:make"),
}
"""Name in an experiment file → generator."""


class Benchmark(enum.Enum):
    """Tests of RFC 2544, those of section 26 in its order, and a test of RFC 5180. The values are the words of the experiment file."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    FRAME_LOSS = "frame-loss"
    BACK_TO_BACK = "back-to-back"
    RECOVERY = "recovery"
    RESET = "reset"
    BURSTY = "bursty"
    """RFC 2544 section 21: bursts at the shortest distance without loss."""
    HOP_BY_HOP = "hop-by-hop"
    """RFC 5180 section 5.3: the only test of frames with a hop-by-hop options header."""


USUAL_TESTS = tuple(Benchmark)[:6]
"""Tests of RFC 2544 section 26."""
ALL_TESTS = (*USUAL_TESTS, Benchmark.BURSTY)
"""Tests that an experiment can request."""

KnownMethod = Literal["sweep", "latency", "soak", "loadtest", "rfc2544", "search", "stateful-nat"]
"""Methods that are tested on devices with known answers (dutlab.methods.known)."""
METHODS: tuple[KnownMethod, ...] = get_args(KnownMethod)


class Rig(enum.Enum):
    """Part of the rig that is measured without the DUT."""

    LOOPED = "looped"
    """Generator, cables and sink: the whole testbed but the DUT."""
    GENERATOR = "generator-alone"


FORMATS: Mapping[str, str] = {
    "html": "dutlab.report.pages.html:html",
    "md": "dutlab.report.pages.markdown:markdown",
    "csv": "dutlab.report.pages.csv_table:csv_table",
    "json": "dutlab.report.pages.json_data:json_data",
}
"""Format of a report → path of the function that takes the runs' reports and returns the text."""
STYLES: Mapping[str, str] = {
    "review": "dutlab.report.pages.review_style",
    **{name: plug.style for name, plug in WORKLOADS.items() if plug.style},
    "storage": "dutlab.report.pages.storage_style",
    "table": "dutlab.report.pages.table_style",
}
"""Report style → the module whose `contents` makes its tables and plots."""

Bed = Literal["one", "unknown"]
"""`one`: all modes of a run were measured on one testbed; `unknown`: the run does not record it."""


@dataclass(frozen=True)
class ImportKind:
    """Kind of files of another tool. `workload` is the workload name of its trials, `bed` the testbed of all its modes."""

    read: str
    """Path of a function that takes (name of the file, its bytes, ImportOptions) and returns its trials; raises InputError."""
    workload: str
    bed: Bed = "unknown"
    has_line: bool = True
    """True if its figures are measured on a link, which has a rate."""

    @property
    def importer(self) -> Any:  # noqa: ANN401 -- callers say its type, which is not known here
        """Import and return the function that `read` names."""
        return named(self.read)


IMPORTS: Mapping[str, ImportKind] = {
    "conductor": ImportKind("dutlab.interop.conductor_run:imported", "steps"),
    "csit": ImportKind("dutlab.interop.csit_run:imported", "search"),
    "figures": ImportKind("dutlab.interop.figure_table:imported", "figures", bed="one"),
    "fio": ImportKind("dutlab.interop.fio_run:imported", "fio", has_line=False),
    "flent": ImportKind("dutlab.interop.flent_run:imported", "flent"),
    "iperf2": ImportKind("dutlab.interop.iperf2_run:imported", "iperf3"),
    "iperf3": ImportKind("dutlab.interop.iperf3_run:imported", "iperf3"),
    "ipgen": ImportKind("dutlab.interop.generator_runs:ipgen", "sweep"),
    "loadtest": ImportKind("dutlab.interop.loadtest_run:imported", "loadtest"),
    "ministat": ImportKind("dutlab.interop.ministat_run:imported", "figures"),
    "netperf": ImportKind("dutlab.interop.netperf_run:imported", "netperf"),
    "nfvbench": ImportKind("dutlab.interop.tester_json:nfvbench", "search"),
    "pkt-gen": ImportKind("dutlab.interop.generator_runs:pktgen", "sweep"),
    "trex-ndr": ImportKind("dutlab.interop.ndr_run:imported", "sweep"),
    "trex-stats": ImportKind("dutlab.interop.tester_json:trex_stats", "sweep"),
    "wrk": ImportKind("dutlab.interop.wrk_run:imported", "wrk"),
}

FILE_MODELS: Mapping[str, str] = {
    "testbed": "dutlab.spec.testbed:Testbed",
    "experiment": "dutlab.spec.experiment:Experiment",
    "campaign": "dutlab.spec.campaign:Campaign",
}
"""Kind of file that users write → path of its model."""

STATUSES = {
    "running": "a process runs it now",
    "finished": "it has its manifest",
    "cut": "it has none, and no process runs it",
    "damaged": "a file cannot be read",
    "newer": "a newer dutlab wrote it",
}
"""State of a run → its meaning, in words for users."""

RATES = ("Mb/s", "Gb/s", "MB/s", "MiB/s")
"""Units of rates that a report can print: bits, and bytes by 10⁶ and by 2²⁰."""

CHECK_FORMATS = ("junit", "github", "ktap", "markdown", "openmetrics")
"""Output formats of `dutlab check` and `dutlab gate` for CI."""
