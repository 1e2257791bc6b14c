"""What options offer, as text: `--help` must not load the rooms that give it meaning. A test compares each with its source."""

from __future__ import annotations

PRESET = "csit"
"""dutlab.spec.workloads.search.DEFAULT_PRESET."""
GENERATORS = ("engine", "trafgen", "pktgen", "xdp-trafficgen", "iperf3-udp", "trex", "pkt-gen", "ipgen")
"""dutlab.spec.generators."""
RFC2544_TESTS = ("throughput", "latency", "frame-loss", "back-to-back", "recovery", "reset", "bursty")
"""dutlab.spec.workloads.rfc2544.ALL_TESTS."""
METHODS = ("sweep", "latency", "soak", "loadtest", "rfc2544", "search")
"""dutlab.methods.known."""
RIGS = ("looped", "generator-alone")
"""dutlab.methods.calibrate.Rig."""
FORMATS = ("html", "md", "csv", "json")
"""dutlab.report."""
STYLES = ("review", "loadtest", "matrix", "storage", "table")
"""dutlab.report.pages.publication."""
IMPORTS = ("conductor", "figures", "fio", "flent", "iperf3", "ipgen", "loadtest", "netperf", "pkt-gen", "trex-ndr")
"""dutlab.interop.importers.KINDS, sorted."""
STATUSES = ("running", "finished", "cut", "damaged", "newer")
"""dutlab.store.index."""
EXPORTS = ("metrics", "openmetrics", "parquet", "csv", "influx", "iperf3", "loadtest")
"""dutlab.cli.export."""
